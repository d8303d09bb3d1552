"""The sentences, settings and code of a report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from banditsis.formatting import format_duration, format_share
from banditsis.plotting import value_or_none
from banditsis.results import Round, ScreeningResult, describe_floor, describe_sampling
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
    ("plan", "paper"): "drop weak features in rounds (Algorithm 1 of the BanditSIS paper)",
    ("plan", "optimal"): "drop weak features in rounds, with the lowest detection floor for the budget",
    ("plan", "guaranteed"): "drop a feature only on evidence that |r| is below the minimum",
    ("pvalues", True): "from all rows of the selected features",
    ("pvalues", "robust"): "from all rows of the selected features, robust to unequal variances",
    ("row_order", "blocks"): "whole blocks in random order",
    ("row_order", "stored"): "as stored",
    ("sampling", "stratified"): "more of the rows that tell most, by strata of the response",
    ("covariates", 0): "none",
    ("sample_weight", True): "different for each row",
    ("missing", "raise"): "not allowed",
    ("missing", "pairwise"): "pairwise deletion",
}
LABELS = {
    "features": "Features",
    "statistic": "Statistic",
    "plan": "Plan",
    "alpha": "α",
    "discard": "Dropped per round",
    "budget": "Budget",
    "min_correlation": "Minimum |r|",
    "confidence": "Confidence",
    "pvalues": "P-values",
    "row_order": "Row order",
    "sampling": "Sampling",
    "missing": "Missing values",
    "covariates": "Covariates",
    "sample_weight": "Sample weights",
}
#: What settings between 0 and 1 are a share of.
SHARES = {"discard": " of the excess features", "budget": " of the cells", "confidence": ""}
#: Features that the code of a report can construct.
FEATURES_CODE = re.compile(r"X|Interactions\(X(, (main_effects=False|squares=True|center=True))*\)")
#: Settings that the code must know, and settings that it can ignore or handles.
REQUIRED = {"plan", "statistic", "row_order", "sampling", "missing", "covariates", "seed"}
OPTIONAL = {"one_sided", "pvalues", "features", "alpha", "discard", "budget"}


def key_numbers(result: ScreeningResult) -> Pairs:
    """The numbers at the top of the page."""
    floor = value_or_none(result.detection_floor)
    return [
        ("features selected", f"{len(result.selected):,} of {result.n_features:,}"),
        ("cells read", format_share(result.fraction_read)),
        ("time", format_duration(result.seconds)),
        ("detection floor", "withheld" if floor is None else f"{floor:.3g}"),
    ]


def setup(result: ScreeningResult) -> Pairs:
    """The data, the statistic, the plan and other settings."""
    settings = result.parameters
    labelled = [(label, _describe(key, settings[key])) for key, label in LABELS.items() if key in settings]
    return [("Data", f"{result.n_rows:,} rows × {result.n_features:,} features"), *labelled]


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
    sentences = [*describe_sampling(result), describe_floor(result)]
    simultaneous = value_or_none(result.detection_floor, simultaneous=True)
    if simultaneous is not None and result.rounds[0].n_rows < result.n_rows:
        sentences.append(f"With probability 95%, no feature with |r| ≥ {simultaneous:.4f} was dropped.")
    if value_or_none(result.interval) is None:
        sentences.append(
            "Confidence intervals are available only for Pearson's correlation from a random sample of rows."
        )
    elif len(result.selected):
        sentences.append(
            "Intervals are not corrected for selection. The features were selected for large scores, so "
            "their true correlations tend to be closer to 0."
        )
    if result.has_pvalues:
        sentences.append(
            "P-values are not adjusted for multiple testing; result.qvalues and result.select() are."
        )
    sentences.append(
        "Screening scores each feature on its own. It can miss features that matter only in combination "
        "with others."
    )
    return [sentence[0].upper() + sentence[1:] for sentence in [*sentences, *result.notes] if sentence]


def code_to_reproduce(result: ScreeningResult) -> str:
    """Code that gives the same result, as HTML; empty if the code needs more than the result stores."""
    settings = result.parameters
    features = settings.get("features", "X")
    reproducible = (
        REQUIRED <= set(settings) <= REQUIRED | OPTIONAL
        and settings["missing"] == "raise"
        and not settings["covariates"]
        and settings["plan"] != "guaranteed"
        and settings["statistic"] in STATISTICS
        and FEATURES_CODE.fullmatch(features)
    )
    if not reproducible:
        return ""
    pvalues = f", pvalues={settings['pvalues']!r}" if settings.get("pvalues") else ""
    steps = ", ".join(f"({r.n_rows}, {r.n_kept})" for r in _planned_rounds(result))
    code = (
        f"from banditsis import {'' if features == 'X' else 'Interactions, '}Plan, screen\n\n"
        f"plan = Plan({result.n_rows}, {result.n_features}, ({steps},))\n"
        f"result = screen({features}, y, plan, statistic={settings['statistic']!r}, "
        f"row_order={settings['row_order']!r}, sampling={settings['sampling']!r}, "
        f"random_state={settings['seed']!r}{pvalues})"
    )
    return f"<p>This code gives the same result:</p><pre><code>{escape(code)}</code></pre>"


def _planned_rounds(result: ScreeningResult) -> tuple[Round, ...]:
    """The rounds of the plan, without the extra round that reads all rows for p-values."""
    *planned, last = result.rounds
    extra = planned and result.parameters.get("pvalues") and last.cells == result.n_rows * last.n_features
    return tuple(planned) if extra else result.rounds
