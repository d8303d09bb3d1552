"""Screening for a number of features, or for a false discovery rate, with a plan made of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from banditsis.core.validation import check_flag, check_integer, check_real
from banditsis.engine.redundancy import find_sizes
from banditsis.plans import Plan, check_exclusive, make_plan
from banditsis.results.result import ScreeningResult, keep_significant
from banditsis.screening import screen
from banditsis.sources.base import Source
from banditsis.statistics import StatisticLike, find_statistic


def select_features(
    source: Source,
    y: Any,
    size: int | None,
    *,
    fdr: float | None,
    avoid_redundancy: bool,
    pvalues: bool,
    statistic: StatisticLike,
    planning: Mapping[str, Any],
    plan_maker: Callable[..., Plan] = make_plan,
    **settings: Any,
) -> list[ScreeningResult]:
    """Screen with the plan that these options describe; return the result of each response.

    ``planning`` has further options of :func:`make_plan`, and ``settings`` those of :func:`screen`.
    """
    check_size(size, fdr)
    check_flag("avoid_redundancy", avoid_redundancy)
    if avoid_redundancy and size is None and (fdr or planning.get("min_correlation")):
        raise ValueError("avoid_redundancy=True needs the number of features to keep: set it to an integer.")
    n_keep, n_choose = find_sizes(size, *source.shape, avoid_redundancy)
    pvalues = pvalues or fdr is not None
    plan = partial(
        plan_maker,
        p=source.shape[1],
        d=n_keep,
        by_fdr=fdr is not None,
        rereads=find_statistic(statistic).rereads,
        pvalues=bool(pvalues),
        n_selected=n_choose,
        **planning,
    )
    chosen: Any = {"statistic": statistic, "pvalues": pvalues, "avoid_redundancy": n_choose or False}
    found = screen(source, y, plan, **chosen, **settings)
    results = [found] if isinstance(found, ScreeningResult) else list(found)
    return results if fdr is None else [keep_significant(result, fdr) for result in results]


def check_size(size: int | None, fdr: float | None) -> None:
    """Raise if the number of features or the false discovery rate is invalid, or if both are set."""
    check_exclusive({"n_features_to_select": size, "fdr": fdr})
    if fdr is not None:
        check_real("fdr", fdr, 0, 1)
    if size is not None:
        check_integer("n_features_to_select", size, 1)
