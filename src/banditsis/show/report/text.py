"""The sentences and settings of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from banditsis.core.formatting import count, format_duration, format_share, shorten
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import (
    describe_floor,
    describe_response,
    describe_run,
    describe_sampling,
    floor_condition,
    sentence,
)
from banditsis.results.several import describe_size

Pairs = list[tuple[str, str]]

#: What statistics and plans are; other settings are shown unchanged.
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
}
#: Labels that are not the name of the setting.
LABELS = {
    "alpha": "α",
    "discard": "Dropped per round",
    "min_correlation": "Minimum |r|",
    "pvalues": "P-values",
    "fdr": "False discovery rate",
    "missing": "Missing values",
    "positive_class": "Class of positive scores",
}
#: What settings between 0 and 1 are a share of.
SHARES = {"discard": " of the excess features", "budget": " of the cells", "confidence": "", "fdr": ""}


def default_title(results: Sequence[ScreeningResult]) -> str:
    """What the report is about."""
    if len(results) > 1:
        return f"Features associated with {len(results):,} responses"
    return f"Features associated with {results[0].response or 'the response'}"


def facts(results: Sequence[ScreeningResult]) -> Pairs:
    """What was screened: the response if there is one, the data, their size, the statistic and the date."""
    first, single = results[0], len(results) == 1
    target = ": ".join(filter(None, [first.response, describe_response(first)]))
    contents = f"{count(max(result.n_rows for result in results), 'row')}, {first.about.contents}"
    date = max(result.about.created for result in results).replace("T", " ").replace("+00:00", " UTC")
    pairs = [
        ("Target", target if single else ""),
        ("Data", _list_distinct(result.about.data for result in results)),
        ("Size", contents if first.about.contents else describe_size(results)),
        ("Statistic", _list_distinct(_describe_statistic(result.parameters) for result in results)),
        ("Date", date),
    ]
    return [(label, value) for label, value in pairs if value]


def _describe_statistic(parameters: Mapping[str, Any]) -> str:
    described = _describe("statistic", parameters.get("statistic", "pearson"))
    label = parameters.get("positive_class")
    return described if label is None else described.replace("the response", f"the indicator of {label}")


def _list_distinct(values: Iterable[str]) -> str:
    """The different values, in the order in which they first occur."""
    return "; ".join(filter(None, dict.fromkeys(values)))


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
    pairs = [
        (LABELS.get(key, sentence(key.replace("_", " "))), _describe(key, value))
        for key, value in result.parameters.items()
    ]
    return [*pairs, *((f"{name} version", version) for name, version in result.about.versions.items())]


def _describe(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in SHARES and isinstance(value, float) and 0 < value <= 1:
        return f"{format_share(value)}{SHARES[key]}"
    return DESCRIPTIONS.get((key, value), f"{value:,}" if key == "budget" else str(value))


def reliability(result: ScreeningResult) -> list[str]:
    """What the result guarantees, what it does not, and its notes."""
    sentences = [
        describe_sampling(result),
        describe_floor(result),
        _describe_simultaneous_floor(result),
        _describe_intervals(result),
        "P-values (p) are not adjusted for multiple testing; q-values (q) are, by Benjamini and Hochberg."
        if result.has_pvalues
        else "",
        _describe_rule(result),
        "Screening scores each feature on its own. It can miss features that matter only in combination "
        "with others.",
    ]
    return [sentence(text) for text in [*sentences, *result.notes, *result.details] if text]


def _describe_simultaneous_floor(result: ScreeningResult) -> str:
    if result.no_floor_reason is not None or result.is_exact:
        return ""
    floor = result.detection_floor(simultaneous=True)
    return f"With probability 95%, no feature with |r| ≥ {floor:.4f} was dropped{floor_condition(result)}."


def _describe_intervals(result: ScreeningResult) -> str:
    if result.no_interval_reason is not None:
        return f"There are no confidence intervals: {result.no_interval_reason}."
    if not len(result.selected):
        return ""
    return (
        "Intervals are not corrected for selection. The features were selected for large scores, so "
        "their true correlations tend to be closer to 0."
    )


def _describe_rule(result: ScreeningResult) -> str:
    """When a feature is marked as clearly associated."""
    if "fdr" in result.parameters:
        rate = format_share(result.parameters["fdr"])
        return (
            f"The selected features are significant at a false discovery rate of {rate}, by Benjamini and "
            f"Hochberg: on average at most {rate} of features selected in this way are not associated."
        )
    if result.associated is None or not len(result.selected):
        return ""
    rule = (
        "p ≤ 0.05 after Holm's correction for all features"
        if result.has_pvalues
        else "its 95% interval, simultaneous for all features, does not contain 0"
    )
    return (
        f"A feature is clearly associated if {rule}: with probability 95%, no feature without "
        "association is among them."
    )
