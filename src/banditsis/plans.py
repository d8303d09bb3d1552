"""Plans: how many rows to read and how many features to keep, decided before any data are read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from banditsis._checks import check_integer, check_real


class Step(NamedTuple):
    """After this step ``n_rows`` rows have been read in all and ``n_keep`` features are left."""

    n_rows: int
    n_keep: int


@dataclass(frozen=True)
class Plan:
    """A list of steps for screening ``n_features`` features over ``n_rows`` rows.

    Plans are plain data: they print as a table, compare by value and know what they cost. Every screening
    method is a plan: sure independence screening is the one step ``(n, d)``.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the data, n × p.
    steps : tuple of Step
        Row counts must not fall, feature counts must not rise.
    name : str
        What to call the plan in tables.

    Examples
    --------
    >>> plan = Plan.paper(10_000, 500, 50, alpha=1.0)
    >>> plan.n_steps, plan.n_keep, plan.cells
    (9, 50, 127362)
    >>> print(Plan.subsample(10_000, 500, 50, 400))
    subsample: 10,000 rows × 500 features → 50, reads 200,000 cells (4.0%)
     step   rows  features     kept      cells
        1    400       500       50    200,000
    """

    n_rows: int
    n_features: int
    steps: tuple[Step, ...]
    name: str = "custom"

    def __post_init__(self) -> None:
        check_integer("n_rows", self.n_rows, 1)
        check_integer("n_features", self.n_features, 1)
        if not self.steps:
            raise ValueError("a plan needs at least one step (n_rows, n_keep).")
        object.__setattr__(self, "steps", tuple(Step(*step) for step in self.steps))
        rows, left = 1, self.n_features
        for step in self.steps:
            check_integer("n_rows of a step", step.n_rows, rows, self.n_rows)
            check_integer("n_keep of a step", step.n_keep, 1, left)
            rows, left = step

    @classmethod
    def exact(cls, n: int, p: int, d: int) -> Plan:
        """Sure independence screening: all rows, once [1]_.

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
        check_integer("m", m, 1, n)
        return cls(n, p, (Step(m, min(d, p)),), "subsample")

    @classmethod
    def paper(cls, n: int, p: int, d: int, alpha: float = 0.5, discard: float = 0.5) -> Plan:
        r"""Algorithm 1 of the BanditSIS paper [1]_.

        Round l has read, in all,

        .. math:: n_l = t(n, α / 1.1^{l-1}), \quad t(n, a) = \frac{n (a^2 + 1)}{a^2 \sqrt n + 1}

        rows (rounded up), and drops ``ceil(discard · (|M| - d))`` of the |M| features that are left.

        Parameters
        ----------
        n, p, d : int
            Rows, features, and features to keep. d ≥ p drops nothing, so it reads all rows.
        alpha : float
            Smaller reads more; the paper advises 0.5 to 1.1.
        discard : float
            Share of the surplus dropped in each round, in (0, 1].

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
        steps = []
        left = p
        while left > d:
            left -= math.ceil(discard * (left - d))
            steps.append(Step(_paper_rows(n, alpha), left))
            alpha /= 1.1
        return cls(n, p, tuple(steps), "paper")

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.steps)

    @property
    def n_keep(self) -> int:
        """Features left at the end."""
        return self.steps[-1].n_keep

    @property
    def cells_by_step(self) -> tuple[int, ...]:
        """Cells that each step reads: its new rows × the features left before it."""
        cells, rows, left = [], 0, self.n_features
        for step in self.steps:
            cells.append((step.n_rows - rows) * left)
            rows, left = step
        return tuple(cells)

    @property
    def cells(self) -> int:
        """Cells read in all."""
        return sum(self.cells_by_step)

    @property
    def fraction(self) -> float:
        """Cells read, as a fraction of n × p."""
        return self.cells / (self.n_rows * self.n_features)

    def detection_floor(
        self, confidence: float = 0.95, *, simultaneous: bool = False, inflation: float = 1.0
    ) -> float:
        """The detection floor to expect, before any data are read.

        The cutoffs are taken to be those that independent features without signal will set; see
        :meth:`ScreeningResult.detection_floor` for what a floor is, and :mod:`banditsis.certificates` for
        the law behind both.

        Parameters
        ----------
        confidence : float
            Probability that a feature at the floor is kept, in (0, 1).
        simultaneous : bool
            Whether to speak of all features at once.
        inflation : float
            How much more correlations vary than those of normal data; 3 for a t distribution with 5
            degrees of freedom.

        Examples
        --------
        >>> round(Plan.paper(10**12, 10**6, 100).detection_floor(), 5)
        0.00131
        """
        from banditsis.certificates import plan_floor

        check_real("confidence", confidence, 0, 1)
        check_real("inflation", inflation, 0, math.inf)
        return plan_floor(self, confidence, simultaneous, inflation)

    def limit_rows(self, n: int) -> Plan:
        """The same plan where only n of the rows can be used."""
        if n >= self.n_rows:
            return self
        steps = tuple(Step(min(step.n_rows, n), step.n_keep) for step in self.steps)
        return Plan(n, self.n_features, steps, self.name)

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.n_rows:,} rows × {self.n_features:,} features → {self.n_keep:,}, "
            f"reads {self.cells:,} cells ({self.fraction:.1%})",
            f"{'step':>5} {'rows':>6} {'features':>9} {'kept':>8} {'cells':>10}",
        ]
        left = self.n_features
        for k, (step, cells) in enumerate(zip(self.steps, self.cells_by_step, strict=True), 1):
            lines.append(f"{k:>5} {step.n_rows:>6,} {left:>9,} {step.n_keep:>8,} {cells:>10,}")
            left = step.n_keep
        return "\n".join(lines)


def default_size(n: int, p: int) -> int:
    """The paper's number of features to keep, floor(n / log n), but at most half of them.

    Examples
    --------
    >>> default_size(1000, 2000), default_size(1000, 10)
    (144, 5)
    """
    return max(1, min(math.floor(n / math.log(n)), math.ceil(p / 2)))


def _paper_rows(n: int, alpha: float) -> int:
    """The paper's t(n, α), rounded up; written in 1/α² so that no α overflows."""
    b = max(alpha, 1e-9) ** -2
    return min(n, math.ceil(n * (1 + b) / (math.sqrt(n) + b)))


def _check_size(n: int, p: int, d: int) -> None:
    check_integer("n", n, 1)
    check_integer("p", p, 1)
    check_integer("d", d, 1)
