"""What a result says, in sentences that all outputs share; a sentence is empty if it does not apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banditsis.core.formatting import count, format_share, round_share, to_single_line
from banditsis.plans import MIN_INFORMATIVE
from banditsis.results.evidence import has_pvalues, is_exact
from banditsis.results.features import LEAKAGE

if TYPE_CHECKING:
    from banditsis.results.result import ScreeningResult


def sentence(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def describe_best(result: ScreeningResult) -> str:
    """The names and scores of the best five features."""
    best = result.features.take(slice(5))
    pairs = zip(best["name"], best.scores(3), strict=True)
    listed = ", ".join(f"{to_single_line(name)} ({score})" for name, score in pairs)
    more = ", …" if len(result.selected) > 5 else ""
    return f"best: {listed}{more}" if listed else ""


def count_associated(result: ScreeningResult) -> int | None:
    """How many of the selected features are clearly associated and no possible leakage; None if not known."""
    return None if result.associated is None else result.features.evidence.count("signal")


def describe_answer(result: ScreeningResult) -> str:
    """How many of the selected features are clearly associated."""
    clear, n = count_associated(result), len(result.selected)
    n_leaks = result.features.evidence.count("leak")
    leaks = f"{n_leaks:,} {LEAKAGE}" if n_leaks else ""
    if "fdr" in result.parameters:
        found = "1 discovery" if clear == 1 else f"{clear or 'no'} discoveries"
        tested, p = result.evidence.n_candidates, result.n_features
        untested = f"{tested:,} of {p:,} features were tested; those dropped before cannot be discovered"
        rate = format_share(result.parameters["fdr"])
        parts = [f"{found} at a false discovery rate of {rate}", leaks, untested if tested < p else ""]
    elif n == 0:
        parts = ["no feature was selected"]
    elif clear is None:
        can_test = result.evidence.no_pvalues_reason is None and not result.parameters.get("pvalues")
        option = "--pvalues" if result.about.command else "pvalues=True"
        how = f": set {option} to test them" if can_test else ""
        parts = [f"{count(n, 'feature')} selected", f"which of them are clearly associated is not known{how}"]
    else:
        rest = n - clear - n_leaks
        others = f"all {n:,} are" if rest == n else f"the other {rest:,} {'is' if rest == 1 else 'are'}"
        parts = [f"{clear:,} of {n:,} clearly associated", leaks, f"{others} unclear" if rest else ""]
    return "; ".join(filter(None, parts)) + "."


def describe_inflation(result: ScreeningResult) -> str:
    """The genomic inflation factor, if every feature has a p-value."""
    if not has_pvalues(result) or np.isnan(result.log10_pvalues).any():
        return ""
    return f"genomic inflation factor λ = {result.genomic_inflation:.3f}."


def describe_run(result: ScreeningResult) -> str:
    """How much was read, which features have gaps, and what a sample could miss."""
    floor = "" if is_exact(result) else describe_floor(result).replace("\n", " ")
    parts = sentence(describe_reading(result)), describe_gaps(result), sentence(floor)
    return " ".join(filter(None, parts))


def describe_sign(result: ScreeningResult) -> str:
    """Which of two classes goes with positive scores."""
    label = result.parameters.get("positive_class")
    return f"a positive score goes with {label}" if label else ""


def describe_response(result: ScreeningResult) -> str:
    """The classes or the range of the response, and which class goes with positive scores."""
    return "; ".join(filter(None, [result.about.response_summary, describe_sign(result)]))


def describe_reading(result: ScreeningResult) -> str:
    """How much was read."""
    share = format_share(result.fraction_read)
    read = "all rows were read." if is_exact(result) else f"{share} of the cells were read."
    return next((note for note in result.notes if note.startswith("all rows were read")), read)


def describe_gaps(result: ScreeningResult) -> str:
    """How many selected features have missing values."""
    if result.evidence.present is None:
        return ""
    missing = 1 - result.evidence.present / result.features["rows_read"]
    n, most = int(np.count_nonzero(missing > 0)), round_share(float(missing.max(initial=0.0)))
    rows, have = "rows" if is_exact(result) else "rows read", "has" if n == 1 else "have"
    return f"{count(n, 'feature')} {have} missing values, in up to {most} of the {rows}." if n else ""


def describe_sampling(result: ScreeningResult) -> str:
    """How much rows that were sampled in strata are worth."""
    sampled = [r for r in result.rounds if r.effective_rows != r.n_rows]
    if not sampled:
        return ""
    rows, worth = f"{sampled[-1].n_rows:,}", f"{sampled[-1].effective_rows:,.0f}"
    return f"sampling: rows were chosen by the response; {rows} of them are worth {worth} uniform rows."


def floor_condition(result: ScreeningResult) -> str:
    """The conditions of the detection floor; none if all features that passed were kept."""
    conditions, evidence, rounds = [], result.evidence, result.rounds
    # Rows that are sampled in strata of the response show the spread of each feature, without covariates.
    if any(r.inflation is None and r.n_kept < r.n_features and r.n_rows < result.n_rows for r in rounds):
        conditions.append("its spread does not depend on the response")
    minimum = result.parameters.get("min_correlation", 0.0)
    if not evidence.by_evidence or rounds[-1].cutoff > minimum:
        n_kept = evidence.n_candidates or len(result.selected)
        conditions.append(f"fewer than {n_kept:,} others are about as strong")
    return f" if {' and '.join(conditions)}" if conditions else ""


def describe_floor(result: ScreeningResult) -> str:
    """The detection floor, and on a second line how many features it does not cover."""
    evidence = result.evidence
    if evidence.no_floor_reason is not None:
        return f"detection floor: not available, because {evidence.no_floor_reason}."
    if evidence.reach is not None:
        return _describe_certificate(result, evidence.reach)
    floor = f"detection floor: {result.detection_floor():.4f}"
    kept = f"one of the {evidence.n_candidates:,} candidates" if evidence.n_candidates else "kept"
    if is_exact(result):
        return f"{floor}; every row was read, so every feature above it was {kept}."
    size = "|score|" if result.parameters.get("missing") == "pairwise" else "|r|"
    probability = f"with probability 95%{floor_condition(result)}"
    text = f"{floor}; a feature with {size} at or above it was {kept} {probability}."
    if (n := len(result.undecided)) == 0:
        return text
    few = f"fewer than {MIN_INFORMATIVE:g} informative rows among those read"
    have = "has" if n == 1 else "have"
    return f"{text}\n{count(n, 'feature')} {have} {few}; the floor does not cover them."


def _describe_certificate(result: ScreeningResult, reach: float) -> str:
    """What bits of the index could have missed, given the largest score that a feature can have by them."""
    if reach <= result.rounds[-1].cutoff:
        n_candidates = result.evidence.n_candidates
        these = f"the {n_candidates:,} candidates" if n_candidates else "these"
        n = n_candidates or len(result.selected)
        certain = f"{these} are the {count(n, 'feature')} that exact screening selects"
    else:
        floor = f"detection floor: {result.detection_floor():.4f}"
        certain = f"{floor}; every feature at or above it that exact screening selects was selected"
    probability = f"{100 * result.parameters.get('confidence', 0.95):.4g}%"
    read = f"{result.rounds[-1].n_features:,} features were read in full"
    return f"{certain}, with probability {probability}; {read}."
