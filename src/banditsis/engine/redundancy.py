"""A second stage: choose features that are not redundant among those that screening kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from banditsis.core.arrays import SMALLEST, Floats, Indices, Rows, count_rows
from banditsis.core.formatting import count
from banditsis.core.parallel import one_blas_thread
from banditsis.plans import default_size
from banditsis.results import ScreeningResult, strength_of
from banditsis.sources.base import Source

#: Screening keeps this many times the features to choose, at least and at most so many.
CANDIDATES_PER_FEATURE, MIN_CANDIDATES, MAX_CANDIDATES = 8, 200, 2048
#: At least this many candidates for each feature to choose; fewer would leave no choice.
MIN_PER_FEATURE = 2
#: Rows that correlations are computed from; their standard error is then at most 0.01.
MAX_ROWS = 10_000
#: Candidates with a larger absolute correlation are near-duplicates.
DUPLICATE = 0.95
#: Smaller shares of a variance are rounding errors.
MIN_UNEXPLAINED = 1e-9
CELLS_AT_ONCE = 1 << 22
#: Groups of near-duplicates that are described.
MAX_NOTES = 3


def find_sizes(
    size: int | None, n_rows: int, n_features: int, avoid_redundancy: bool
) -> tuple[int | None, int | None]:
    """The number of features that screening keeps, and how many of them are chosen; None without a choice."""
    if not avoid_redundancy:
        return size, None
    size = default_size(n_rows, n_features) if size is None else min(size, n_features)
    wanted = max(MIN_CANDIDATES, CANDIDATES_PER_FEATURE * size)
    n_candidates = min(n_features, wanted, MAX_CANDIDATES)
    if n_candidates < min(n_features, MIN_PER_FEATURE * size):
        raise ValueError(
            f"at most {MAX_CANDIDATES:,} features are compared to avoid redundancy, too few to choose "
            f"{size:,} of {n_features:,}: keep at most {MAX_CANDIDATES // MIN_PER_FEATURE:,}."
        )
    return n_candidates, size


def choose_features(
    source: Source, result: ScreeningResult, rows: Rows, weigh: Callable[[Rows], Floats | None], n_choose: int
) -> ScreeningResult:
    """Choose among the selected features, by correlations over some of the rows that they were scored on."""
    candidates, n = result.selected, count_rows(rows)
    if candidates.size == 0:
        return result
    if n > MAX_ROWS:  # with a fixed seed, so a run that reads every row does not depend on that of the user
        picks = np.sort(np.random.default_rng(0).choice(n, MAX_ROWS, replace=False)).astype(np.intp)
        n, rows = MAX_ROWS, picks + rows.start if isinstance(rows, slice) else rows[picks]
    correlation = correlation_among(source, candidates, rows, weigh(rows))
    relevance = np.maximum(strength_of(result)[candidates], 0.0) ** 2
    chosen = choose(relevance, correlation, n_choose)
    # Each near-duplicate of chosen features belongs to the most similar one.
    size = np.abs(correlation[chosen])
    size[:, chosen] = 0.0
    owner, close = size.argmax(axis=0), size.max(axis=0, initial=0.0) > DUPLICATE
    groups = ((int(candidates[k]), np.sort(candidates[close & (owner == i)])) for i, k in enumerate(chosen))
    named = {k: members for k, members in groups if members.size}
    n_cells = n * len(candidates)
    notes = [
        f"{count(len(chosen), 'feature')} chosen among the {len(candidates):,} that screening kept, by score "
        "and by the variance that the features chosen before do not explain; correlations are from "
        f"{n:,} rows ({n_cells:,} cells, read again)."
    ]
    notes += [
        f"{source.name(k)} stands for {count(len(named[k]), 'feature')} with |r| > {DUPLICATE:g}."
        for k in sorted(named, key=lambda k: -len(named[k]))[:MAX_NOTES]
    ]
    return replace(
        result,
        selected=candidates[chosen],
        effects=None if result.effects is None else result.effects.take(chosen),
        evidence=replace(
            result.evidence.take(chosen),
            n_candidates=len(candidates),
            near_duplicates=named,
            correlation=correlation[np.ix_(chosen, chosen)],
            cells_reread=result.evidence.cells_reread + n_cells,
        ),
        notes=(*notes, *result.notes),
    )


def correlation_among(source: Source, columns: Indices, rows: Rows, weights: Floats | None = None) -> Floats:
    """Pearson correlations among some columns of a source; 0 between a constant column and others.

    A missing value counts as the mean of its column, which pulls correlations towards 0.
    """
    order = np.argsort(columns)
    block = np.empty((count_rows(rows), len(columns)), order="F")
    step = max(1, CELLS_AT_ONCE // max(1, count_rows(rows)))
    for start in range(0, len(columns), step):
        here = order[start : start + step]
        block[:, here] = source.read(rows, columns[here])
    for x in block.T:  # centred, weighted and divided by its norm; a constant column becomes 0
        present = np.isfinite(x)
        known = x[present]
        x[:] = 0.0
        if known.size == 0 or known.min() == known.max():
            continue
        share = np.ones(known.size) if weights is None else weights[present]
        known -= known.min() / 2 + known.max() / 2
        known /= np.abs(known).max()  # so squares neither overflow nor vanish
        known -= share @ known / max(share.sum(), SMALLEST)
        known *= np.sqrt(share)
        norm = np.sqrt(known @ known)
        x[present] = known / norm if norm > 0 else 0.0
    with one_blas_thread():  # the result does not depend on the number of threads
        correlation = np.clip(block.T @ block, -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def choose(relevance: Floats, correlation: Floats, size: int) -> Indices:
    """Choose features one by one, each time the one with the largest :math:`s_j^2 (1 - R^2_j)`.

    s is the score, whose square is ``relevance``, and :math:`R^2_j` that of a regression of feature j on
    those chosen before. This is the greedy approximation of the most probable set of a determinantal point
    process (Kulesza and Taskar 2012). A pivoted Cholesky decomposition updates all :math:`R^2` in
    O(candidates) for each feature chosen before (Chen, Zhang and Zhou 2018, NeurIPS 31). Features that those
    chosen before explain completely come last, by relevance. Positions are in the order chosen.
    """
    size = min(size, len(relevance))
    factor = np.empty((size, len(relevance)))
    unexplained = np.ones(len(relevance))
    left = np.ones(len(relevance), bool)
    order: list[int] = []
    while len(order) < size:
        gain = np.where(left, relevance * unexplained, -1.0)
        j = int(gain.argmax())
        if gain[j] <= 0:
            break
        known = factor[: len(order)]
        row = (correlation[j] - known[:, j] @ known) / np.sqrt(unexplained[j])
        factor[len(order)] = row
        order.append(j)
        left[j] = False
        unexplained -= row * row
        unexplained[unexplained < MIN_UNEXPLAINED] = 0.0
    rest = np.flatnonzero(left)
    rest = rest[np.argsort(-relevance[rest], kind="stable")][: size - len(order)]
    return np.concatenate([np.array(order, np.intp), rest])
