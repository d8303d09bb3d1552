"""What is checked after the last round: small p-values, and features that may be made from the response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from banditsis.core.arrays import Array, Floats, Indices, Rows, as_indices, count_rows, spread
from banditsis.core.formatting import count, were
from banditsis.core.parallel import map_in_threads
from banditsis.core.progress import clock
from banditsis.engine.runs import Run
from banditsis.results import LEAKAGE, ScreeningResult, selection_mask, strength_of
from banditsis.sources import Source
from banditsis.statistics import (
    MIN_PRESENT,
    CorrectedNull,
    NormalNull,
    NullDistribution,
    Statistic,
    TailTest,
    normal_responses,
)

#: Every feature that a selection at this false discovery rate or a lower one can return is checked,
MAX_FDR = 0.1
#: and every feature with a smaller p-value, or about as many of the features without association.
MIN_LEVEL, MAX_LEVEL, N_FEATURES = 0.001, 0.05, 20
#: Unless p-values are requested, so many are checked at most: a check takes longer than screening a feature.
MAX_CHECKED = 1000
BYTES_AT_ONCE = 1 << 26
#: Cells of a thread: others wait for each other between short operations.
CELLS_OF_THREAD = 1 << 20

#: A feature that correlates more with the response is nearly a copy of it.
MAX_CORRELATION = 0.9999
#: Far above all others: |r| of at least 0.9, and 1 more than the next in Fisher's z, a factor of e² in
#: (1 + r) / (1 - r). Next to 0.9 this is 0.44, and next to 0.99 it is 0.93.
HIGH, GAP, MIN_ROWS = 0.9, 1.0, 30
#: A feature with this AUC separates two classes; if others have the second, the classes are that different.
SEPARATES, NEARLY = 0.999, 0.95
#: Statistics of which 1 is the largest score.
BOUNDED = ("pearson", "anova", "logistic", "spearman", "kendall")
#: Features that are searched for those that separate classes.
N_STRONGEST = 20
#: Rows of each class that are read first, rows in which they are searched, and rows that decide.
OF_EACH_CLASS, SEARCHED, MAX_ROWS = 64, (4096, 1 << 16), 1 << 17


def correct_pvalues(
    source: Source, statistic: Statistic, results: Sequence[ScreeningResult], rows: Rows, pvalues: bool
) -> list[ScreeningResult]:
    """Check small p-values of each response, which come from these rows, unless the response is normal."""
    started = clock()
    normal = normal_responses(statistic, rows)

    def correct(k: int) -> ScreeningResult:
        result, null = results[k], results[k].evidence.null_distribution
        if normal[k] or null is None:
            return result
        return _correct(source, statistic.subset([k]), result, null, rows, pvalues)

    min_items = -(-CELLS_OF_THREAD // (N_FEATURES * count_rows(rows)))
    corrected = map_in_threads(correct, range(len(results)), min_items)
    seconds = (clock() - started) / len(results)
    for k, result in enumerate(corrected):
        *others, last = result.rounds
        corrected[k] = replace(result, rounds=(*others, replace(last, seconds=last.seconds + seconds)))
    return corrected


def _correct(
    source: Source,
    statistic: Statistic,
    result: ScreeningResult,
    null: NullDistribution,
    rows: Rows,
    pvalues: bool,
) -> ScreeningResult:
    """Check small p-values of one response, and without ``pvalues`` only those of a few selected features."""

    def finish(notes: Sequence[str], remarks: Sequence[str] = (), cells: int = 0) -> ScreeningResult:
        n_again = result.evidence.cells_reread + cells
        evidence = replace(result.evidence, null_distribution=null, cells_reread=n_again)
        return replace(result, evidence=evidence, notes=(*notes, *result.notes, *remarks))

    notes, remarks = list[str](), list[str]()
    if (reason := statistic.few_events(rows)) is not None:
        null = NormalNull(np.nan)
        return finish([reason])
    tested = np.flatnonzero(result.last_round == len(result.rounds) - 1)
    scores = result.scores[tested]
    reason = statistic.unknown_pvalues
    if reason and (n_unknown := int(np.isnan(null.log10_pvalues(scores)).sum())):
        notes.append(f"p-values of {count(n_unknown, 'feature')} are not available: {reason}.")
    level, n_small = find_level(null, scores, result.scores.size)
    # The test takes memory and time for every row, so candidates come first.
    parts = statistic.score_parts(rows) if n_small else None
    if n_small and parts is None and statistic.sample_weight is None and statistic.unchecked_pvalues:
        notes.append(statistic.unchecked_pvalues)
    test = None if parts is None else TailTest(parts)
    if test is None or test.is_exempt:
        return finish(notes)
    positions = np.searchsorted(tested, tested if pvalues else np.sort(result.selected))
    usual = null.take(positions).log10_pvalues(scores[positions])
    small = np.flatnonzero(usual <= level)
    small = small if pvalues or small.size <= MAX_CHECKED else small[:0]
    found = _check(source, statistic, rows, test, tested[positions[small]], usual[small])
    n_left, n_raised = max(0, n_small - small.size), int(np.count_nonzero(found != usual[small]))
    if n_raised or n_left:
        null = CorrectedNull(null, positions[small], found, level if n_left else -np.inf)
    cells = count_rows(rows) * small.size
    if n_raised:
        remarks.append(
            f"{count(small.size, 'feature')} with small p-values {were(small.size)} read again ({cells:,} "
            f"cells), and {count(n_raised, 'p-value')} raised, because {test.reason}."
        )
    if n_left:
        remarks.append(
            f"small p-values of {count(n_left, 'feature')} are not available, because they were not checked: "
            "set pvalues=True to get them."
        )
    return finish(notes, remarks, cells)


def _check(
    source: Source, statistic: Statistic, rows: Rows, test: TailTest, features: Indices, log10: Floats
) -> Floats:
    """Decimal logarithms of the p-values of some features, which are read again, a few at a time."""

    def corrected(pair: tuple[Array, float]) -> float:
        x, log = pair
        if not statistic.pairwise or (present := np.isfinite(x)).all():
            return test.log_pvalue(x, log)
        parts = statistic.score_parts(as_indices(rows)[present])
        assert parts is not None  # as it is for all rows
        return TailTest(parts).log_pvalue(x[present], log)

    logs, n = log10 * np.log(10), count_rows(rows)
    width = max(1, BYTES_AT_ONCE // (n * source.dtype.itemsize))
    found = list[float]()
    for i in range(0, features.size, width):
        columns = source.read_columns(rows, features[i : i + width])
        pairs = zip(columns, logs[i : i + width].tolist(), strict=True)
        found += map_in_threads(corrected, pairs, -(-CELLS_OF_THREAD // n))
    return np.where(found != logs, np.array(found) / np.log(10), log10)


def find_level(null: NullDistribution, scores: Floats, n_features: int) -> tuple[float, int]:
    """Decimal logarithm of the largest p-value that is small enough to matter, and how many are.

    P-values are only raised, so a feature that is not selected by the usual ones at a false discovery rate of
    10% is not selected by the corrected ones.
    """
    some = np.flatnonzero(null.candidates(scores, MAX_FDR))
    log10 = null.take(some).log10_pvalues(scores[some])
    n_known = scores.size - int(np.count_nonzero(np.isnan(log10)))
    level = np.log10(min(MAX_LEVEL, max(MIN_LEVEL, N_FEATURES / max(n_known, 1))))
    small = np.sort(log10[log10 <= np.log10(MAX_FDR)])
    selected = small[small <= np.log10(MAX_FDR / n_features * np.arange(1, small.size + 1))]
    level = max(float(level), float(selected.max(initial=-np.inf)))
    return level, int(np.count_nonzero(small <= level))


def flag_features(run: Run, results: Sequence[ScreeningResult]) -> list[ScreeningResult]:
    """Flag selected features that may be leaked from their response, if it is a single column."""
    source, y, flagged = run.source, run.statistic.y, []
    for k, result in enumerate(results):
        leaks = dict[int, str]()
        if len(results) == y.shape[1] and not source.recipe:
            leaks |= dict.fromkeys(_find_separating(result, source, y[:, k]), "separates the two classes")
        if result.parameters["statistic"] in BOUNDED:
            copies = result.selected[np.abs(result.scores[result.selected]) > MAX_CORRELATION]
            leaks |= dict.fromkeys(_find_far_above(result), "|r| far above all others")
            leaks |= dict.fromkeys(copies.tolist(), "nearly a copy of the response")
        if leaks:
            why = list[str]()
            for reason in dict.fromkeys(leaks.values()):
                names = [repr(result.name(feature)) for feature in leaks if leaks[feature] == reason]
                more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
                why.append(f"{', '.join(names[:5])}{more} ({reason})")
            note = f"{LEAKAGE}: {', '.join(why)}; drop columns known only after the response."
            flags = dict.fromkeys(sorted(leaks), LEAKAGE)
            result = replace(result, flags=flags, notes=(note, *result.notes))
        flagged.append(result)
    return flagged


def _find_far_above(result: ScreeningResult) -> list[int]:
    """Selected features whose scores are far above those of all others."""
    n_top, size = min(N_STRONGEST, result.n_features // 2), np.abs(np.nan_to_num(result.scores))
    few = result.rounds[-1].n_rows < MIN_ROWS or n_top == 0
    if few or size[result.selected].max(initial=0.0) < HIGH:  # as nearly always
        return []
    top = -np.sort(-np.partition(size, -n_top - 1)[-n_top - 1 :])
    z = np.arctanh(np.minimum(top, MAX_CORRELATION))
    far = top[:-1][(z[:-1] - z[1:] >= GAP) & (top[:-1] >= HIGH)]
    return [k for k in result.selected.tolist() if size[k] >= far.min(initial=np.inf)]


def _find_separating(result: ScreeningResult, source: Source, y: Array) -> list[int]:
    """The strongest features that separate the two classes of a response, if no other nearly does."""
    chosen, everything = result.selected[:N_STRONGEST], slice(0, len(y))
    for size in SEARCHED:  # the first rows of each class lie close together if classes are mixed
        rows = np.arange(min(size, len(y))) if size == SEARCHED[0] else spread(everything, size)
        labels, counts = np.unique(y[rows], return_counts=True)
        if len(labels) > 2 or (len(labels) == 2 and counts.min() >= MIN_PRESENT):
            break
    if len(labels) != 2 or counts.min() < MIN_PRESENT or chosen.size == 0:
        return []
    rows = np.sort(np.concatenate([rows[y[rows] == label][:OF_EACH_CLASS] for label in labels]))
    if _separation(source.read(rows, np.sort(chosen)), y[rows]).max() < NEARLY:  # as nearly always
        return []
    strength = np.where(selection_mask(result), -np.inf, np.nan_to_num(strength_of(result)))
    others = np.argsort(-strength, kind="stable")[: min(N_STRONGEST, strength.size) - chosen.size]
    features, rows = np.sort(np.append(chosen, others)), spread(everything, MAX_ROWS)
    if len(np.unique(y[rows])) != 2:
        return []
    found = _separation(source.read(rows, features), y[rows])
    separates = found >= SEPARATES
    if found[~separates].max(initial=1.0 if separates.all() else 0.0) >= NEARLY:
        return []
    return [int(feature) for feature in features[separates] if feature in chosen]


def _separation(block: Array, y: Array) -> Floats:
    """AUC of each column for two classes, or 1 minus it if that is larger; 0.5 if few rows are known."""
    is_first, found = y == y[0], np.full(block.shape[1], 0.5)
    for j, x in enumerate(block.T):
        first, second = (part[np.isfinite(part)] for part in (x[is_first], x[~is_first]))
        if min(len(first), len(second)) >= MIN_PRESENT:
            first = np.sort(first)
            below = first.searchsorted(second) + first.searchsorted(second, "right")  # ties count half
            area = float(below.mean()) / (2 * len(first))
            found[j] = max(area, 1 - area)
    return found
