"""Plans: how many rows each step reads and how many features it keeps, fixed before any data are read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from numbers import Integral
from typing import Any, NamedTuple

from banditsis.core.formatting import LINE_WIDTH, format_share, text_table, wrap
from banditsis.core.validation import check_integer, check_real
from banditsis.plans import floor, keeping, optimal
from banditsis.plans.design import SamplingDesign
from banditsis.plans.keeping import EvidenceStep

#: Name of the plan that reads bits of an index, and bits of a cell for one that it reads.
BY_BITS, BITS_OF_CELL = "index", 32
#: Share of the cells that a plan may read in addition to have fewer steps, each of which takes time.
EXTRA_CELLS = 0.1


class Step(NamedTuple):
    """After this step ``n_rows`` rows have been read in total and ``n_keep`` features are left."""

    n_rows: int
    n_keep: int


@dataclass(frozen=True)
class Plan:
    """A list of steps for screening ``n_features`` features over ``n_rows`` rows.

    Plans are plain data: they print as a table, compare by value and know their cost. Sure independence
    screening, for example, is the single step ``(n, d)``. Methods make the plans for n rows and p features
    that keep d of them.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the data, n × p.
    steps : tuple of Step or of EvidenceStep
        Row counts must not decrease, feature counts must not increase.
    name : str
        Name of the plan in tables.
    rereads : bool
        Whether each step reads all rows so far again, as rank and distance statistics do; :func:`screen` sets
        it according to the statistic.
    parameters : tuple of (str, number)
        What the steps were computed from, such as ``(("alpha", 0.5), ("discard", 0.5))``. It appears in the
        result; this and what follows is ignored when plans are compared.
    design : SamplingDesign, optional
        The sampling design that the steps were computed for; by default rows are drawn uniformly.
    uniform : bool
        Whether :func:`screen` draws rows uniformly unless told otherwise, also if strata are more precise.
    or_exact : Plan, optional
        The plan to follow instead if reading all rows is about as fast.
    why_exact : str
        What the result says if all rows are read.

    Examples
    --------
    >>> plan = Plan.paper(10_000, 500, 50, alpha=1.0)
    >>> len(plan.steps), plan.n_keep, plan.cells
    (9, 50, 127362)
    >>> print(Plan.subsample(10_000, 500, 50, 400))
    subsample: 10,000 rows × 500 features → 50, reads 200,000 cells (4%)
    step  rows  features  kept    cells
       1   400       500    50  200,000
    """

    n_rows: int
    n_features: int
    steps: tuple[Step | EvidenceStep, ...]
    name: str = "custom"
    rereads: bool = False
    parameters: tuple[tuple[str, int | float], ...] = field(default=(), compare=False, repr=False)
    design: SamplingDesign | None = field(default=None, compare=False, repr=False)
    uniform: bool = field(default=False, compare=False, repr=False)
    or_exact: Plan | None = field(default=None, compare=False, repr=False)
    why_exact: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        check_integer("n_rows", self.n_rows, 1)
        check_integer("n_features", self.n_features, 1)
        if not self.steps:
            raise ValueError("a plan needs at least one step (n_rows, n_keep).")
        given: Any = self.steps
        steps = [EvidenceStep(*step) if len(step) > 2 else Step(*step) for step in given]
        object.__setattr__(self, "steps", tuple(steps))
        if self.design is not None and self.design.n_strata == 1:
            object.__setattr__(self, "design", None)  # the same as a uniform sample
        if len(set(map(type, steps))) > 1:
            raise ValueError("the steps of a plan must be all Step or all EvidenceStep.")
        min_rows, max_keep, min_keep = min(3, self.n_rows), self.n_features, 0 if self.by_evidence else 1
        for step in steps:
            check_integer("n_rows of a step", step.n_rows, min_rows, self.n_rows)
            check_integer("n_keep of a step", step.n_keep, min_keep, max_keep)
            min_rows, max_keep = step.n_rows, step.n_keep

    @classmethod
    def exact(cls, n: int, p: int, d: int) -> Plan:
        """Sure independence screening: read all rows once [1]_.

        References
        ----------
        .. [1] Fan, J. and Lv, J. (2008). Sure independence screening for ultrahigh dimensional
           feature space. J. R. Stat. Soc. B 70, 849-911.
        """
        _check_size(n, p, d)
        return cls(n, p, (Step(n, min(d, p)),), "exact")

    @classmethod
    def subsample(cls, n: int, p: int, d: int, m: int) -> Plan:
        """Sure independence screening on m of the n rows."""
        _check_size(n, p, d)
        check_integer("m", m, min(3, n), n)
        return cls(n, p, (Step(m, min(d, p)),), "subsample", uniform=True)

    @classmethod
    def index(cls, n: int, p: int, d: int, n_candidates: int | None = None, confidence: float = 0.95) -> Plan:
        """The bits of an index for all features, and then all rows of some candidates.

        The result says whether the selected features are those of exact screening with probability
        ``confidence``, or above which score they are. By default at most 4d candidates are read, and at least
        100 more than d.
        """
        _check_size(n, p, d)
        check_real("confidence", confidence, 0, 1)
        d = min(d, p)
        most = min(p, max(4 * d, d + 100)) if n_candidates is None else n_candidates
        steps = Step(max(min(3, n), n // BITS_OF_CELL), most), Step(n, d)
        return cls(n, p, steps, BY_BITS, parameters=(("confidence", confidence),))

    @classmethod
    def paper(cls, n: int, p: int, d: int, alpha: float = 0.5, discard: float = 0.5) -> Plan:
        r"""Algorithm 1 of the BanditSIS paper [1]_.

        After round l the number of rows read in total is

        .. math:: n_l = t(n, α / 1.1^{l-1}), \quad t(n, a) = \frac{n (a^2 + 1)}{a^2 \sqrt n + 1},

        rounded up, and the round drops ``ceil(discard · (m - d))`` of the m remaining features. A smaller α
        reads more rows; the paper recommends 0.5 to 1.1. With d ≥ p all rows are read.

        References
        ----------
        .. [1] Ouyang, X., He, K. and Meng, C. An adaptive subsampling method for large-sample feature
           screening.
        """
        _check_size(n, p, d)
        check_real("alpha", alpha, 0, math.inf)
        check_real("discard", discard, 0, 1, high_included=True)
        if d >= p:
            return cls.exact(n, p, d)
        parameters = (("alpha", float(alpha)), ("discard", float(discard)))
        steps = []
        left = p
        while left > d:
            left -= math.ceil(round(discard * (left - d), 9))  # 0.07 · 100 is slightly more than 7
            b = max(alpha, 1e-9) ** -2  # t in terms of 1/α² does not overflow
            rows = min(n, max(3, math.ceil(n * (1 + b) / (math.sqrt(n) + b))))
            steps.append(Step(rows, left))
            alpha /= 1.1
        return cls(n, p, tuple(steps), "paper", parameters=parameters, uniform=True)

    @classmethod
    def optimal(
        cls,
        n: int,
        p: int,
        d: int,
        budget: int | float,
        *,
        rereads: bool = False,
        pvalues: bool = False,
        n_selected: int | None = None,
        design: SamplingDesign | None = None,
    ) -> Plan:
        """The plan with the lowest predicted detection floor among those within a budget.

        Searches over the rows and the features kept in up to 8 rounds, for the lowest
        :meth:`detection_floor` at 95%. With d ≥ p one round reads as many rows as the budget allows.

        Parameters
        ----------
        n, p, d, rereads, design
            As in :class:`Plan`; rows that are read again are paid from the budget.
        budget : float or int
            Maximum number of cells to read: a float is a fraction of all n × p cells, in (0, 1]; an int is a
            number of cells. At least 4 rows of every feature are needed.
        pvalues : bool
            Whether the budget includes all n rows of the selected features, as a run with ``pvalues=True``
            reads them at the end.
        n_selected : int, optional
            Number of these features if they are chosen among the d that the plan keeps; by default d.

        Examples
        --------
        >>> paper = Plan.paper(10**6, 10**5, 1000, alpha=1.1)
        >>> plan = Plan.optimal(10**6, 10**5, 1000, budget=paper.cells)
        >>> plan.cells <= paper.cells, plan.detection_floor() < 0.9 * paper.detection_floor()
        (True, True)
        """
        _check_size(n, p, d)
        n_final = min(d if n_selected is None else n_selected, p) if pvalues else 0
        cells = _budget_cells(budget, n, p, n_final)
        if cells is None:
            return replace(cls.exact(n, p, d), rereads=rereads)
        sampled = design or SamplingDesign.uniform(n)
        found = optimal.find_steps(sampled, p, d, cells, rereads) if d < p else ((cells // p, p),)
        steps = tuple(Step(*step) for step in found)
        value = int(budget) if isinstance(budget, Integral) else float(budget)
        return cls(n, p, steps, "optimal", rereads, (("budget", value),), design)

    @classmethod
    def guaranteed(
        cls,
        n: int,
        p: int,
        d: int | None,
        min_correlation: float,
        confidence: float = 0.95,
        *,
        design: SamplingDesign | None = None,
    ) -> Plan:
        r"""Keep every feature with \|r\| ≥ ``min_correlation`` over all rows, with the probability c given.

        Features are dropped by evidence, if ``artanh|r| + z·se < artanh(min_correlation)``. Round l loses one
        of the p features with probability at most

        .. math:: \frac{1 - c}{p \, l (l + 1)}, \quad \sum_l \frac{1}{l (l + 1)} = 1,

        where c is the ``confidence``. So all rounds and features together stay below 1 - c, however many
        rounds there are. The best d of the features that pass are kept, or all of them if d is None. The
        number of rows does not depend on n unless features lie close to the minimum; at worst all rows are
        read. A feature is not covered if it looks ordinary in the rows read, but its correlation rests on
        others whose responses are ordinary, at most 6 standard deviations from the mean.

        Examples
        --------
        >>> plan = Plan.guaranteed(10**9, 10**6, 100, min_correlation=0.1)
        >>> plan.steps[0].n_rows, f"{plan.fraction:.1e}"
        (3522, '4.4e-06')
        """
        _check_size(n, p, 1 if d is None else d)
        check_real("the minimum correlation", min_correlation, 0, 1)
        check_real("confidence", confidence, 0, 1)
        if d is not None and d >= p:
            return cls.exact(n, p, d)
        design = None if design is None else replace(design, guaranteed=True)
        sampled = design or SamplingDesign.uniform(n)
        steps = tuple(keeping.plan_steps(sampled, p, d or 0, min_correlation, confidence))
        parameters = (("min_correlation", float(min_correlation)), ("confidence", float(confidence)))
        return cls(n, p, steps, "guaranteed", parameters=parameters, design=design)

    @property
    def by_evidence(self) -> bool:
        """Whether features are dropped by evidence, so the cost is only known in expectation."""
        return isinstance(self.steps[0], EvidenceStep)

    @property
    def n_left(self) -> tuple[int, ...]:
        """Features left after each step; for evidence steps, the expected number without any signal."""
        steps: Any = self.steps
        if not self.by_evidence:
            return tuple(step.n_keep for step in steps)
        design = self.design or SamplingDesign.uniform(self.n_rows)
        return tuple(keeping.expected_left(steps, design, self.n_features))

    @property
    def n_keep(self) -> int:
        """Features left at the end; 0 stands for all that pass a guaranteed plan."""
        return self.steps[-1].n_keep

    @property
    def cells_by_step(self) -> tuple[int, ...]:
        """Cells that each step reads: its new rows, or all so far, × the features left before it."""
        cells, rows, left = [], 0, self.n_features
        for step, after in zip(self.steps, self.n_left, strict=True):
            idle = step.n_rows == rows or (self.by_evidence and left <= self.n_keep)
            cells.append(0 if idle else (step.n_rows if self.rereads else step.n_rows - rows) * left)
            rows, left = step.n_rows, after
        return tuple(cells)

    @property
    def cells(self) -> int:
        """Cells read in total; for evidence steps, the expected number without any signal."""
        return sum(self.cells_by_step)

    @property
    def fraction(self) -> float:
        """Cells read, as a fraction of n × p."""
        return self.cells / (self.n_rows * self.n_features)

    def detection_floor(
        self, confidence: float = 0.95, *, simultaneous: bool = False, variance_inflation: float = 1.0
    ) -> float:
        """The expected detection floor, before any data are read.

        A feature at the floor is kept with probability ``confidence``; if ``simultaneous``, all features are.
        The cutoffs are assumed to be those that independent features without signal will set. See
        :meth:`ScreeningResult.detection_floor` for the floor of a run, which knows the cutoffs.
        ``variance_inflation`` is how much more correlations vary than for normal data, such as 3 for
        Student's t with 5 degrees of freedom.

        Examples
        --------
        >>> round(Plan.paper(10**12, 10**6, 100).detection_floor(), 5)
        0.00131
        """
        check_real("confidence", confidence, 0, 1)
        check_real("variance_inflation", variance_inflation, 0, math.inf)
        design, n_kept = self.design or SamplingDesign.uniform(self.n_rows), self.n_keep
        rows = [design.effective_rows(step.n_rows) for step in self.steps]
        if self.by_evidence:
            cutoffs = [keeping.evidence_cutoff(step, design, variance_inflation) for step in self.steps]
            n_kept = self.n_features
        else:
            cutoffs = floor.null_cutoffs(rows, [step.n_keep for step in self.steps], self.n_features)
        error = floor.error_level(confidence, simultaneous, n_kept)
        return floor.detection_floor(rows, cutoffs, self.n_rows, variance_inflation, error)

    def __str__(self) -> str:
        n_keep, first = f"{self.n_keep:,}" if self.n_keep else "all that pass", self.steps[0]
        head = (
            f"{self.name}: {self.n_rows:,} rows × {self.n_features:,} features → {n_keep}, "
            f"reads {self.cells:,} cells ({format_share(self.fraction)})"
        )
        if isinstance(first, EvidenceStep):
            head += (
                f" if there is no signal, at most {self.n_rows * self.n_features:,};\n"
                f"drops features {first.z:.2f} standard errors (later more) below {first.min_correlation:g}"
            )
        elif self.rereads and len(self.steps) > 1:
            head += ";\neach step reads all rows so far again"
        lines: list[tuple[str, ...]] = []
        left = self.n_features
        steps = zip(self.steps, self.n_left, self.cells_by_step, strict=True)
        for k, (step, after, cells) in enumerate(steps, 1):
            if cells or not self.by_evidence:
                lines.append((f"{k}", f"{step.n_rows:,}", f"{left:,}", f"{after:,}", f"{cells:,}"))
            left = after
        table = text_table(("step", "rows", "features", "kept", "cells"), lines)
        return f"{wrap(head, LINE_WIDTH, 2)}\n{table}"


def change_rows(plan: Plan, change: Callable[[int], int], n_rows: int | None = None) -> Plan:
    """The plan with other numbers of rows in its steps, and perhaps in the data."""
    steps = tuple(step._replace(n_rows=change(step.n_rows)) for step in plan.steps)
    return replace(plan, n_rows=n_rows or plan.n_rows, steps=steps)


def round_to_blocks(plan: Plan, block_rows: int, min_blocks: int = 1) -> Plan:
    """The plan with its row counts rounded up to whole blocks, at least ``min_blocks``.

    >>> round_to_blocks(Plan.paper(10_000, 500, 50, alpha=1.0), 150).steps
    (Step(n_rows=300, n_keep=78), Step(n_rows=450, n_keep=53), Step(n_rows=600, n_keep=50))
    >>> round_to_blocks(Plan.paper(10_000, 500, 50), 8000, min_blocks=2).name
    'exact'
    """
    n = plan.n_rows
    rounded = change_rows(plan, lambda rows: min(n, max(min_blocks, -(-rows // block_rows)) * block_rows))
    # Of steps with the same rows, only the last one counts: without new rows there are no new scores.
    steps = tuple({step.n_rows: step for step in rounded.steps}.values())
    if steps[0].n_rows == n > plan.steps[0].n_rows and not plan.by_evidence:
        return replace(Plan.exact(n, plan.n_features, plan.n_keep), rereads=plan.rereads)
    return _take_steps(plan, steps)


def merge_steps(plan: Plan) -> Plan:
    """As few of the steps of a plan as read at most 10% more cells; see :data:`EXTRA_CELLS`.

    Features that a step would have dropped are dropped by the next one instead, which has more rows, so
    the detection floor is lower.

    >>> plan = Plan.paper(10_000, 500, 50, alpha=1.0)
    >>> few = merge_steps(plan)
    >>> len(few.steps), len(plan.steps), few.cells / plan.cells < 1.1
    (3, 9, True)
    >>> few.detection_floor() < plan.detection_floor()
    True
    """
    if len(plan.steps) == 1:
        return plan
    steps = _find_few_steps(plan.n_features, plan.steps, (1 + EXTRA_CELLS) * plan.cells)
    return replace(_take_steps(plan, steps), name="default")


def _take_steps(plan: Plan, steps: tuple[Step | EvidenceStep, ...]) -> Plan:
    """The plan with other steps; if they are fewer, they discard another share than it was made for."""
    fewer = len(steps) < len(plan.steps)
    parameters = tuple(item for item in plan.parameters if not (fewer and item[0] == "discard"))
    return replace(plan, steps=steps, parameters=parameters)


@lru_cache(maxsize=64)
def _find_few_steps(p: int, steps: tuple[Step, ...], max_cells: float) -> tuple[Step, ...]:
    """The fewest of some steps, with the last one, that read at most so many cells."""
    ends = (Step(0, p), *steps)
    #: the cells of the cheapest way to each step, and the way
    found: dict[int, tuple[int, tuple[Step, ...]]] = {0: (0, ())}
    while found.get(len(steps), (math.inf,))[0] > max_cells:
        found = {
            k: min(
                (cells + (end.n_rows - ends[j].n_rows) * ends[j].n_keep, (*chosen, end))
                for j, (cells, chosen) in found.items()
                if j < k
            )
            for k, end in enumerate(ends)
            if k > min(found)
        }
    return found[len(steps)][1]


def default_size(n: int, p: int) -> int:
    """The paper's number of features to keep, floor(n / log n), but at most half of them."""
    return max(1, min(math.floor(n / math.log(max(n, 3))), math.ceil(p / 2)))


def _budget_cells(budget: int | float, n: int, p: int, n_final: int) -> int | None:
    """The cells of a budget, without all rows of ``n_final`` features; None if it allows all cells."""
    min_rows = min(optimal.MIN_ROWS, n)
    if isinstance(budget, Integral):
        cells, smallest = check_integer("budget", budget, 1), f"{min_rows * p:,} cells"
    else:
        fraction = check_real("budget", budget, 0, 1, high_included=True)
        cells = n * p if fraction == 1 else math.floor(fraction * n * p)
        smallest = f"{min(optimal.MIN_ROWS / n, 1.0):.3g}"
    if cells < min_rows * p:
        raise ValueError(
            f"a budget of {budget!r} allows {cells / p:.3g} rows of each of {p:,} features, but screening "
            f"needs at least {min_rows}: use a budget of at least {smallest}."
        )
    if cells >= n * p:
        return None
    if cells - n * n_final < min_rows * p:
        needed = min(min_rows * p + n * n_final, n * p)
        raise ValueError(
            f"a budget of {budget!r} allows {cells:,} cells, but with p-values at least {needed:,} are read, "
            f"including all {n:,} rows of the {n_final:,} selected features: use a larger budget, keep fewer "
            "features, or omit the p-values."
        )
    return cells - n * n_final


def _check_size(n: int, p: int, d: int) -> None:
    check_integer("n", n, 1)
    check_integer("p", p, 1)
    check_integer("d", d, 1)
