"""What a report says, in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from banditsis.describing import format_share, known_floor, known_intervals, shorten
from banditsis.formatting import format_duration
from banditsis.results import Round, ScreeningResult, describe_floor

Pairs = list[tuple[str, str]]

#: What settings mean. Those that are not here are shown as they are.
MEANINGS: Mapping[tuple[str, Any], str] = {
    ("statistic", "pearson"): "Pearson's correlation with the response",
    ("statistic", "anova"): "the correlation ratio with the classes of the response (ranks as F does)",
    ("statistic", "logistic"): "score test of the feature in a logistic model",
    ("statistic", "poisson"): "score test of the feature in a Poisson model",
    ("statistic", "cox"): "score test of the feature in a Cox model",
    ("statistic", "spearman"): "Spearman's rank correlation with the response",
    ("statistic", "kendall"): "Kendall's rank correlation with the response",
    ("statistic", "chatterjee"): "Chatterjee's ξ: how far the response is a function of the feature",
    ("statistic", "distance"): "distance correlation with the response",
    ("plan", "exact"): "read every row",
    ("plan", "subsample"): "read a random subsample of the rows",
    ("plan", "paper"): "drop weak features round by round, by the BanditSIS paper's Algorithm 1",
    ("plan", "optimal"): "drop weak features round by round, with the lowest detection floor for a budget",
    ("plan", "guaranteed"): "drop features only on evidence that they are below a given correlation",
    ("pvalues", True): "from all rows of the features that are left",
    ("row_order", "auto"): "random",
    ("row_order", "blocks"): "whole blocks in random order",
    ("row_order", "stored"): "as stored, from the first",
    ("covariates", 0): "none",
    ("missing", "raise"): "refused",
    ("missing", "pairwise"): "left out, pair by pair",
}
TOPICS = {
    "features": "Features",
    "statistic": "Association",
    "plan": "Plan",
    "alpha": "α",
    "discard": "Dropped in a round",
    "budget": "Budget",
    "min_correlation": "Smallest |r| to keep",
    "confidence": "Probability",
    "pvalues": "P-values",
    "row_order": "Order of rows",
    "missing": "Missing values",
    "covariates": "Covariates",
}
#: Settings that are shares, and of what.
SHARES = {
    "discard": "of the features that are too many",
    "budget": "of the cells",
    "confidence": "that nothing at or above it is lost",
}
#: What code may make features by: what is known by name, and needs no means that the reader lacks.
RECIPE = re.compile(r"X|Interactions\(X(, (main_effects=False|squares=True|center=True))*\)")
#: What code to repeat a run must know.
NEEDED = {"plan", "statistic", "row_order", "missing", "covariates", "seed"}


def summary(result: ScreeningResult) -> str:
    """The outcome in a sentence."""
    best = ", ".join(shorten(result.name(k), 60) for k in result.selected[:3])
    found = f"The best: {best}{', …' if len(result.selected) > 3 else '.'}" if best else "Nothing passed."
    return (
        f"{len(result.selected):,} of {result.n_features:,} features were selected by reading "
        f"{format_share(result.fraction_read)} of the data. {found}"
    )


def key_numbers(result: ScreeningResult) -> Pairs:
    """The numbers to see first."""
    floor = known_floor(result)
    return [
        ("features selected", f"{len(result.selected):,} of {result.n_features:,}"),
        ("cells read", format_share(result.fraction_read)),
        ("time", format_duration(result.seconds)),
        ("detection floor", "withheld" if floor is None else f"{floor:.3g}"),
    ]


def what_was_asked(result: ScreeningResult) -> Pairs:
    """The question: data, association, plan."""
    asked = [("Data", f"{result.n_rows:,} rows × {result.n_features:,} features")]
    for key, topic in TOPICS.items():
        if key in result.parameters:
            asked.append((topic, _meaning(key, result.parameters[key])))
    return asked


def _meaning(key: str, value: Any) -> str:
    """A setting in words."""
    if key == "features":
        return f"columns and products of two: {value}"
    if key == "budget" and isinstance(value, int):
        return f"{value:,} cells"
    if key in SHARES and isinstance(value, float) and 0 < value <= 1:
        return f"{format_share(value)} {SHARES[key]}"
    return MEANINGS.get((key, value), str(value))


def what_is_listed(result: ScreeningResult, listed: Mapping[str, Any]) -> str:
    """Which features the table has."""
    count, p = len(listed["index"]), result.n_features
    if count == p:
        return "The table has every feature; one dropped in a round ranks behind everything kept in it."
    if count == 0:
        return "Nothing was selected, and scores of other features are not known."
    if count == len(result.selected):
        return "The table has the selected features."
    return f"The table has the best {count:,} of {p:,} features."


def how_sure(result: ScreeningResult) -> list[str]:
    """What the result guarantees, what it does not, and its notes."""
    floor = describe_floor(result)
    sentences = [floor[0].upper() + floor[1:]]
    together = known_floor(result, simultaneous=True)
    if together is not None and result.rounds[0].n_rows < result.n_rows:
        sentences.append(
            f"All features taken together: with probability 95% none with |r| at or above {together:.4f} "
            "was lost."
        )
    if known_intervals(result) is None:
        sentences.append("No intervals are known for this statistic.")
    elif len(result.selected):
        sentences.append(
            "Each interval is right for one feature named beforehand. These were selected for being large, "
            "so that the true values of the largest tend to lie nearer 0 than their intervals."
        )
    if result.has_pvalues:
        sentences.append(
            "Each p-value is that of a test of one feature named beforehand; result.select() allows for how "
            "many were tested."
        )
    sentences.append(
        "Screening looks at one feature at a time: one that matters only together with others is not found."
    )
    return sentences + [note[0].upper() + note[1:] for note in result.notes if note]


def settings(result: ScreeningResult) -> Pairs:
    """Parameters and versions, as they were."""
    values = {**result.parameters, **result.versions}
    return [(str(key), str(value)) for key, value in values.items()]


def how_to_repeat(result: ScreeningResult) -> str:
    """A call that gives the same result, as HTML; nothing where it takes more than the result knows."""
    from banditsis.statistics import STATISTICS

    asked = result.parameters
    unknown = set(asked) - NEEDED - {"one_sided", "pvalues", "features", "alpha", "discard", "budget"}
    if unknown or not set(asked) >= NEEDED or asked["missing"] != "raise" or asked["covariates"]:
        return ""
    features = asked.get("features", "X")
    if (
        asked["plan"] == "guaranteed"
        or asked["statistic"] not in STATISTICS
        or not RECIPE.fullmatch(features)
    ):
        return ""
    pvalues = ", pvalues=True" if asked.get("pvalues") else ""
    steps = ", ".join(f"({r.n_rows}, {r.n_kept})" for r in _planned(result))
    code = (
        f"from banditsis import {'' if features == 'X' else 'Interactions, '}Plan, screen\n\n"
        f"plan = Plan({result.n_rows}, {result.n_features}, ({steps},))\n"
        f"result = screen({features}, y, plan, statistic={asked['statistic']!r}, "
        f"row_order={asked['row_order']!r}, random_state={asked['seed']!r}{pvalues})"
    )
    return f"<p>The same again:</p><pre><code>{escape(code)}</code></pre>"


def _planned(result: ScreeningResult) -> tuple[Round, ...]:
    """The rounds less the one that p-values have added, which reads all rows from the first."""
    *planned, last = result.rounds
    added = planned and result.parameters.get("pvalues") and last.cells == result.n_rows * last.n_features
    return tuple(planned) if added else result.rounds
