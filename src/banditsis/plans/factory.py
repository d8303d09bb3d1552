"""One plan factory for the estimators and the command line."""

from __future__ import annotations

from banditsis.plans.plan import Plan


def make_plan(
    n: int,
    p: int,
    d: int,
    *,
    alpha: float | None = None,
    budget: float | None = None,
    min_correlation: float | None = None,
    confidence: float = 0.95,
    pvalues: bool = False,
) -> Plan:
    """The plan that was asked for; the paper's, α = 0.5, if nothing was.

    Examples
    --------
    >>> make_plan(10**6, 10**4, 50, budget=0.01).name
    'optimal'
    """
    given = {"--alpha": alpha, "--budget": budget, "--min-correlation": min_correlation}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"at most one of {', '.join(given)} says what to read, got {' and '.join(named)}.")
    if min_correlation is not None:
        return Plan.guaranteed(n, p, d, min_correlation, confidence)
    if budget is not None:
        whole = budget > 1 and float(budget).is_integer()
        return Plan.optimal(n, p, d, int(budget) if whole else budget, pvalues=pvalues)
    return Plan.paper(n, p, d, alpha=0.5 if alpha is None else alpha)
