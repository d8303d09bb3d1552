"""The sentences, settings and code of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from banditsis.core.formatting import count, format_duration, format_share, shorten
from banditsis.results.result import Round, ScreeningResult
from banditsis.results.sentences import (
    describe_answer,
    describe_floor,
    describe_response,
    describe_run,
    describe_sampling,
    floor_condition,
    sentence,
)
from banditsis.results.several import describe_size
from banditsis.show.report.tables import escape_text
from banditsis.statistics import STATISTICS

Pairs = list[tuple[str, str]]

#: Descriptions of settings. Other values are shown unchanged.
DESCRIPTIONS: Mapping[tuple[str, Any], str] = {
    ("statistic", "pearson"): "Pearson's correlation with the response",
    ("statistic", "anova"): "correlation ratio of the feature and the classes (same ranking as the F-test)",
    ("statistic", "logistic"): "score test of the feature in a logistic model",
    ("statistic", "poisson"): "score test of the feature in a Poisson model",
    ("statistic", "cox"): "score test of the feature in a Cox model",
    ("statistic", "spearman"): "Spearman's rank correlation with the response",
    ("statistic", "kendall"): "Kendall's rank correlation with the response",
    ("statistic", "chatterjee"): "Chatterjee's ξ: how well the response is a function of the feature",
    ("statistic", "distance"): "distance correlation with the response",
    ("statistic", "sirs"): "sure independent ranking and screening (SIRS)",
    ("statistic", "mv"): "mean-variance index of the feature and the classes",
    ("statistic", "sliced_wasserstein"): "sliced Wasserstein dependence on the response",
    ("plan", "exact"): "read all rows",
    ("plan", "subsample"): "read a random subsample of the rows",
    ("plan", "default"): "drop weak features in few rounds",
    ("plan", "paper"): "drop weak features in rounds (Algorithm 1 of the BanditSIS paper)",
    ("plan", "optimal"): "drop weak features in rounds, with the lowest detection floor for the budget",
    ("plan", "guaranteed"): "drop a feature only on evidence that |r| is below the minimum",
    ("pvalues", True): "from all rows, checked for skewed and heavy-tailed data",
    ("pvalues", "robust"): "from all rows, robust to skewed and heavy-tailed data and unequal variances",
    ("avoid_redundancy", True): "left out",
    ("shuffled", True): "shuffled beforehand",
    ("row_order", "blocks"): "whole blocks in random order",
    ("row_order", "stored"): "as stored",
    ("sampling", "stratified"): "more of the rows that carry most information, by strata of the response",
    ("covariates", 0): "none",
    ("sample_weight", True): "different for each row",
    ("missing", "raise"): "not allowed",
    ("missing", "pairwise"): "pairwise deletion",
}
LABELS = {
    "features": "Features",
    "seed": "Seed",
    "positive_class": "Class of positive scores",
    "n_directions": "Directions",
    "statistic": "Statistic",
    "plan": "Plan",
    "alpha": "α",
    "discard": "Dropped per round",
    "budget": "Budget",
    "min_correlation": "Minimum |r|",
    "confidence": "Confidence",
    "pvalues": "P-values",
    "fdr": "False discovery rate",
    "avoid_redundancy": "Redundant features",
    "row_order": "Row order",
    "shuffled": "Stored rows",
    "sampling": "Sampling",
    "missing": "Missing values",
    "covariates": "Covariates",
    "sample_weight": "Sample weights",
}
#: What settings between 0 and 1 are a share of.
SHARES = {
    "discard": " of the excess features, rounded up",
    "budget": " of the cells",
    "confidence": "",
    "fdr": "",
}
#: Features that the code of a report can construct.
FEATURES_CODE = re.compile(r"X|Interactions\(X(, (main_effects=False|squares=True|center=True))*\)")
#: Settings that the code must know, and settings that it can ignore or handles.
REQUIRED = {"plan", "statistic", "row_order", "sampling", "missing", "covariates", "seed"}
OPTIONAL = {"positive_class", "pvalues", "features", "alpha", "discard", "budget"}


def default_title(results: Sequence[ScreeningResult]) -> str:
    """What the report is about."""
    if len(results) > 1:
        return f"Features associated with {len(results):,} responses"
    return f"Features associated with {results[0].response or 'the response'}"


def facts(results: Sequence[ScreeningResult]) -> Pairs:
    """What was screened: the response if there is one, the data, their size, the statistic and the date."""
    statistics = [_describe_statistic(result.parameters) for result in results]
    date = max(result.created for result in results).replace("T", " ").replace("+00:00", " UTC")
    first, single = results[0], len(results) == 1
    target = ": ".join(filter(None, [first.response, describe_response(first)]))
    contents = f"{count(max(result.n_rows for result in results), 'row')}, {first.contents}"
    pairs = [
        ("Target", target if single else ""),
        ("Data", _list_distinct(result.data for result in results)),
        ("Size", contents if first.contents else describe_size(results)),
        ("Statistic", _list_distinct(statistics)),
        ("Date", date),
    ]
    return [(label, value) for label, value in pairs if value]


def _describe_statistic(parameters: Mapping[str, Any]) -> str:
    name, label = parameters.get("statistic", "pearson"), parameters.get("positive_class")
    described = _describe("statistic", name)
    return described if label is None else described.replace("the response", f"the indicator of {label}")


def _list_distinct(values: Iterable[str]) -> str:
    """The different values, in the order in which they first occur."""
    return "; ".join(filter(None, dict.fromkeys(values)))


def answer(result: ScreeningResult) -> str:
    """What was found, in one sentence."""
    return sentence(describe_answer(result))


def warnings(result: ScreeningResult) -> list[str]:
    """Selected features that look like a mistake."""
    return [f"Check {shorten(result.name(k), 60)}: {flag}." for k, flag in result.flags.items()]


def cost(result: ScreeningResult, *, several: bool) -> str:
    """How many features were selected, what was read, and what a sample could miss.

    With ``several`` responses, the response comes first, as the head of the page does not describe it.
    """
    response = f"{sentence(describe_response(result))}. " if several and describe_response(result) else ""
    selected = f"{len(result.selected):,} of {count(result.n_features, 'feature')} selected"
    return f"{response}{selected} in {format_duration(result.seconds)}. {describe_run(result)}"


def settings(result: ScreeningResult) -> Pairs:
    """All settings of the run, and the versions of the software."""
    pairs = [(LABELS.get(key, key), _describe(key, value)) for key, value in result.parameters.items()]
    return [*pairs, *((f"{name} version", version) for name, version in result.versions.items())]


def _describe(key: str, value: Any) -> str:
    if key == "features":
        return f"columns and pairwise products: {value}"
    if key == "budget" and isinstance(value, int):
        return f"{value:,} cells"
    if key in SHARES and isinstance(value, float) and 0 < value <= 1:
        return f"{format_share(value)}{SHARES[key]}"
    return DESCRIPTIONS.get((key, value), str(value))


def reliability(result: ScreeningResult) -> list[str]:
    """What the result guarantees, what it does not, and its notes."""
    sentences = [describe_sampling(result), describe_floor(result)]
    if result.no_floor_reason is None and not result.is_exact:
        simultaneous = result.detection_floor(simultaneous=True)
        condition = floor_condition(result)
        sentences.append(
            f"With probability 95%, no feature with |r| ≥ {simultaneous:.4f} was dropped{condition}."
        )
    if result.no_interval_reason is not None:
        sentences.append(f"There are no confidence intervals: {result.no_interval_reason}.")
    if result.no_interval_reason is None and len(result.selected):
        sentences.append(
            "Intervals are not corrected for selection. The features were selected for large scores, so "
            "their true correlations tend to be closer to 0."
        )
    if result.has_pvalues:
        sentences.append(
            "P-values (p) are not adjusted for multiple testing; q-values (q) are, by Benjamini and Hochberg."
        )
    if "fdr" in result.parameters:
        rate = format_share(result.parameters["fdr"])
        sentences.append(
            f"The selected features are significant at a false discovery rate of {rate}, by Benjamini and "
            f"Hochberg: on average at most {rate} of features selected in this way are not associated."
        )
    elif result.associated is not None and len(result.selected):
        rule = (
            "p ≤ 0.05 after Holm's correction for all features"
            if result.has_pvalues
            else "its 95% interval, simultaneous for all features, does not contain 0"
        )
        sentences.append(
            f"A feature is clearly associated if {rule}: with probability 95%, no feature without "
            "association is among them."
        )
    sentences.append(
        "Screening scores each feature on its own. It can miss features that matter only in combination "
        "with others."
    )
    return [sentence(text) for text in [*sentences, *result.notes, *result.details] if text]


def code_to_reproduce(result: ScreeningResult) -> str:
    """The command or code that gives the same result, as HTML; empty if the result stores too little."""
    if result.command:
        return (
            f"<p>This command gives the same result:</p><pre><code>{escape_text(result.command)}</code></pre>"
        )
    given = result.parameters
    features = given.get("features", "X")
    reproducible = (
        REQUIRED <= set(given) <= REQUIRED | OPTIONAL
        and given["missing"] == "raise"
        and not given["covariates"]
        and given["plan"] != "guaranteed"
        and given["statistic"] in STATISTICS
        and FEATURES_CODE.fullmatch(features)
    )
    if not reproducible:
        return ""
    pvalues = f", pvalues={given['pvalues']!r}" if given.get("pvalues") else ""
    steps = ", ".join(f"({r.n_rows}, {r.n_kept})" for r in _planned_rounds(result))
    code = (
        f"from banditsis import {'' if features == 'X' else 'Interactions, '}Plan, screen\n\n"
        f"plan = Plan({result.n_rows}, {result.n_features}, ({steps},))\n"
        f"result = screen({features}, y, plan, statistic={given['statistic']!r}, "
        f"row_order={given['row_order']!r}, sampling={given['sampling']!r}, "
        f"random_state={given['seed']!r}{pvalues})"
    )
    return (
        "<p>If X holds the features and y the response that were screened, this code gives the same "
        f"result:</p><pre><code>{escape_text(code)}</code></pre>"
    )


def _planned_rounds(result: ScreeningResult) -> tuple[Round, ...]:
    """The rounds of the plan, without the extra round that reads all rows for p-values."""
    *planned, last = result.rounds
    extra = planned and result.parameters.get("pvalues") and last.cells == result.n_rows * last.n_features
    return tuple(planned) if extra else result.rounds
