"""What a result says, in sentences that all outputs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banditsis.core.formatting import count, format_share, round_share, to_single_line
from banditsis.plans.detection_floor import MIN_INFORMATIVE
from banditsis.results.features import LEAKAGE
from banditsis.statistics import STATISTICS

if TYPE_CHECKING:
    from banditsis.results.result import ScreeningResult


def describe_best(result: ScreeningResult) -> str:
    """The names and scores of the best five features."""
    best = result.features.take(slice(5))
    names = [
        f"{to_single_line(name)} ({score})" for name, score in zip(best["name"], best.scores(3), strict=True)
    ]
    more = ", …" if len(result.selected) > 5 else ""
    return f"best: {', '.join(names)}{more}" if names else "no feature was selected"


def describe_associated(result: ScreeningResult) -> str:
    """How many of the selected features are clearly associated, in one sentence; empty if not known."""
    clear, n = count_associated(result), len(result.selected)
    n_leaks = sum(result.flags.get(int(k)) == LEAKAGE for k in result.selected)
    if clear is not None and "fdr" in result.parameters:
        return _describe_discoveries(result, clear, n_leaks)
    if clear is None or n == 0:
        return ""
    rest = n - clear - n_leaks
    if n == 1:
        known = LEAKAGE if n_leaks else "clearly associated" if clear else "indistinguishable from noise"
        return f"the selected feature is {known}."
    if clear == n:
        return f"{'both' if n == 2 else f'all {n:,}'} selected features are clearly associated."
    if rest == n:
        return f"none of the {n:,} selected features is clearly associated: they may all be noise."
    others = "the other one is" if rest == 1 else f"the other {rest:,} are"
    parts = [
        f"{clear:,} of {n:,} clearly associated",
        f"{n_leaks:,} {LEAKAGE}" if n_leaks else "",
        f"{others} indistinguishable from noise" if rest else "",
    ]
    return "; ".join(filter(None, parts)) + "."


def count_associated(result: ScreeningResult) -> int | None:
    """How many of the selected features are clearly associated and no possible leakage; None if not known."""
    if result.associated is None:
        return None
    return sum(result.flags.get(int(k)) != LEAKAGE for k in result.associated)


def name_of_associated(result: ScreeningResult) -> str:
    """What a legend calls the features in :attr:`ScreeningResult.associated`."""
    return "discovery" if "fdr" in result.parameters else "clearly associated"


def _describe_discoveries(result: ScreeningResult, n: int, n_leaks: int) -> str:
    """The same for selection by false discovery rate."""
    found = "no discoveries" if n == 0 else "1 discovery" if n == 1 else f"{n:,} discoveries"
    text = f"{found} at a false discovery rate of {format_share(result.parameters['fdr'])}"
    if n_leaks:
        text += f"; {n_leaks:,} more {'is' if n_leaks == 1 else 'are'} {LEAKAGE}"
    if result.n_candidates == result.n_features:
        return f"{text}."
    return (
        f"{text}; {result.n_candidates:,} of {result.n_features:,} features were tested; those dropped "
        "before cannot be discovered."
    )


def describe_inflation(result: ScreeningResult) -> str:
    """The genomic inflation factor in one sentence; empty unless every feature has a p-value."""
    if not result.has_pvalues or np.isnan(result.log10_pvalues).any():
        return ""
    return f"genomic inflation factor λ = {result.genomic_inflation:.3f}."


def describe_answer(result: ScreeningResult) -> str:
    """What was found, in one sentence."""
    if known := describe_associated(result):
        return known
    if (n := len(result.selected)) == 0:
        return "no feature was selected."
    which = "whether it is" if n == 1 else "which of them are"
    unknown = f"{count(n, 'feature')} selected; {which} clearly associated is not known"
    kind = STATISTICS.get(str(result.parameters.get("statistic")))
    can_tell = kind is not None and kind.has_pvalues() and not result.parameters.get("pvalues")
    option = "--pvalues" if result.about.command else "pvalues=True"
    how = f": set {option} to test {'it' if n == 1 else 'them'}." if can_tell else "."
    return unknown + how


def describe_run(result: ScreeningResult) -> str:
    """How much was read, which features have gaps, and what a sample could miss."""
    floor = "" if result.is_exact else describe_floor(result).replace("\n", " ")
    parts = sentence(describe_reading(result)), describe_gaps(result), sentence(floor)
    return " ".join(filter(None, parts))


def sentence(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def describe_sign(result: ScreeningResult) -> str:
    """Which of two classes goes with positive scores; empty if the response is not of two classes."""
    label = result.parameters.get("positive_class")
    return f"a positive score goes with {label}" if label else ""


def describe_response(result: ScreeningResult) -> str:
    """The classes or the range of the response, and which class goes with positive scores."""
    return "; ".join(filter(None, [result.about.response_summary, describe_sign(result)]))


def describe_reading(result: ScreeningResult) -> str:
    """How much was read, in one sentence."""
    share = format_share(result.fraction_read)
    read = "all rows were read." if result.is_exact else f"{share} of the cells were read."
    return next((note for note in result.notes if note.startswith("all rows were read")), read)


def describe_gaps(result: ScreeningResult) -> str:
    """Which selected features have missing values, in one sentence; empty if there are none."""
    if result.evidence.present is None:
        return ""
    missing = 1 - result.evidence.present / result.rows_read[result.selected]
    gappy, rows = np.flatnonzero(missing > 0), "rows" if result.is_exact else "rows read"
    if len(gappy) == 1:
        name, share = to_single_line(result.name(result.selected[gappy[0]])), float(missing[gappy[0]])
        return f"{name} is missing in {round_share(share)} of the {rows}; its score is from the others."
    most = round_share(float(missing.max(initial=0.0)))
    some = f"{len(gappy):,} of the features are missing in up to {most} of the {rows}; their scores are"
    return f"{some} from the others." if len(gappy) else ""


def describe_sampling(result: ScreeningResult) -> str:
    """How much rows that were sampled in strata are worth, in one sentence; empty for a uniform sample."""
    sampled = [r for r in result.rounds if r.effective_rows != r.n_rows]
    if not sampled:
        return ""
    rows, worth = sampled[-1].n_rows, sampled[-1].effective_rows
    return (
        f"sampling: rows were chosen by the response; {rows:,} of them are worth {worth:,.0f} uniform rows."
    )


def floor_condition(result: ScreeningResult) -> str:
    """The conditions of the detection floor; none if all features that passed were kept."""
    conditions = []
    # Rows that are sampled in strata of the response show the spread of each feature, without covariates.
    if any(
        r.inflation is None and r.n_kept < r.n_features and r.n_rows < result.n_rows for r in result.rounds
    ):
        conditions.append("its spread does not depend on the response")
    if not result.evidence.by_evidence or result.rounds[-1].cutoff > result.parameters.get(
        "min_correlation", 0.0
    ):
        n_kept = result.n_candidates or len(result.selected)
        conditions.append(f"fewer than {n_kept:,} others are about as strong")
    return f" if {' and '.join(conditions)}" if conditions else ""


def describe_floor(result: ScreeningResult) -> str:
    """The detection floor in one sentence."""
    if result.no_floor_reason is not None:
        return f"detection floor: not available, because {result.no_floor_reason}."
    floor = result.detection_floor()
    kept = f"one of the {result.n_candidates:,} candidates" if result.n_candidates else "kept"
    if result.is_exact:
        return f"detection floor: {floor:.4f}; every row was read, so every feature above it was {kept}."
    size = "|score|" if result.parameters.get("missing") == "pairwise" else "|r|"
    text = (
        f"detection floor: {floor:.4f}; a feature with {size} at or above it was {kept} with probability 95%"
        f"{floor_condition(result)}."
    )
    if (n := len(result.undecided)) == 0:
        return text
    have = "feature has" if n == 1 else "features have"
    return (
        f"{text}\n{n:,} {have} fewer than {MIN_INFORMATIVE:g} informative rows among those read; the floor "
        f"does not cover {'it' if n == 1 else 'them'}."
    )
