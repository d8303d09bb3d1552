"""Results as text on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from banditsis.cli.terminal import line_width, print_output, table_of_columns
from banditsis.core.arrays import Array
from banditsis.core.formatting import (
    count,
    format_duration,
    round_share,
    rounds_table,
    to_single_line,
)
from banditsis.core.validation import find_missing
from banditsis.results.features import Features
from banditsis.results.result import ScreeningResult
from banditsis.results.sentences import (
    describe_answer,
    describe_floor,
    describe_inflation,
    describe_reading,
    describe_response,
    describe_run,
    describe_sampling,
    sentence,
)

#: Features of one target, and of each of several.
MAX_FEATURES, MAX_FEATURES_OF_SEVERAL = 20, 5
MAX_NOTES = 3
MAX_CLASSES = 5
#: How far names are shortened on a narrow terminal, and how long they are on a wide one.
MIN_NAME, MAX_NAME = 16, 32


def print_results(results: Sequence[ScreeningResult], seconds: float, *, verbose: bool) -> None:
    """Print the data, then what was found for each target; what several have in common is printed once."""
    first, several = results[0], len(results) > 1
    size = f"{first.about.data}: {count(max(result.n_rows for result in results), 'row')}"
    contents = first.about.contents or count(first.n_features, "feature")
    print_output(to_single_line(f"{size}, {contents}"), indent=2)
    printed = set[str]()
    for result in results:
        if several:
            print_output("")
        _print_features(result, MAX_FEATURES_OF_SEVERAL if several else MAX_FEATURES, verbose)
        inflation = describe_inflation(result) if "chromosome" in result.annotations else ""
        lines = [describe_run(result), inflation, *(_describe_details(result, seconds) if verbose else ())]
        for line in filter(None, [describe_answer(result), *(line for line in lines if line not in printed)]):
            print_output(sentence(line), indent=0)
        notes = [*result.notes, *(result.details if verbose else ())]
        _print_notes([note for note in notes if note not in printed], result, verbose)
        printed |= {*lines, *notes}


def _print_features(result: ScreeningResult, limit: int, verbose: bool) -> None:
    """Print the target and the best features."""
    print_output(to_single_line(f"{result.about.response}: {describe_response(result)}") + "\n", indent=2)
    if verbose:
        print_output(rounds_table(result.rounds) + "\n")
    if len(result.selected):
        print_output(features_table(result.features.take(slice(limit)), verbose=verbose))
    if (n_more := len(result.selected) - limit) > 0:
        print_output(f"… and {n_more:,} more: use --output or --json to list all.")


def features_table(features: Features, *, verbose: bool = False) -> str:
    """A table of features that fits the terminal; ``verbose`` adds intervals, q-values and present rows."""
    texts = features.texts()
    for heading in () if verbose else ("q", "present", *(["95% interval"] if "p" in texts else [])):
        texts.pop(heading, None)
    if "evidence" in texts:
        texts[""] = texts.pop("evidence")
    columns = {"rank": list(map(str, features["rank"])), "feature": [""] * len(features), **texts}
    taken = max(map(len, table_of_columns(columns, left=()).splitlines())) - len("feature")
    columns["feature"] = features.labels(min(max(line_width(sys.stdout) - taken, MIN_NAME), MAX_NAME))
    return table_of_columns(columns, left=("feature", ""))


def _describe_details(result: ScreeningResult, seconds: float) -> list[str]:
    """What few readers need: the plan, the time, what sampled rows are worth, the floor of an exact run."""
    seed = "" if result.is_exact else f", seed {result.parameters['seed']}"
    plan = f"plan {result.parameters['plan']!r} took {format_duration(seconds)}{seed}."
    return [plan, describe_sampling(result), describe_floor(result) if result.is_exact else ""]


def _print_notes(notes: Sequence[str], result: ScreeningResult, verbose: bool) -> None:
    """Print the most important notes, except for what the first lines say."""
    told = ("skipped ",) if result.about.contents and not verbose else ()
    left = [note for note in notes if note != describe_reading(result) and not note.startswith(told)]
    for note in left if verbose else left[:MAX_NOTES]:
        print_output(f"Note: {to_single_line(note)}", indent=6)
    if not verbose and (n_more := len(left) - MAX_NOTES) > 0:
        print_output(f"{count(n_more, 'more note')}: use --verbose.")


def summarize_response(values: Array, by_class: bool = False) -> str:
    """The share of each class, the class that counts as 1 first, or mean and range of numbers.

    Numbers are classes if the statistic is ``by_class``.

    Examples
    --------
    >>> summarize_response(np.array(["No", "Yes", "No"])), summarize_response(np.array([1.0, 2.0, 6.0]))
    ('Yes 33%, No 67%', 'mean 3, from 1 to 6')
    """
    if values.ndim > 1:  # time and event
        return count(int(np.count_nonzero(values[:, -1])), "event")
    values = values[~find_missing(values)]
    if values.dtype.kind in "fiu" and not by_class:
        with np.errstate(over="ignore", invalid="ignore"):
            return f"mean {values.mean():.4g}, from {values.min():.4g} to {values.max():.4g}"
    labels, counts = np.unique(values.astype(str), return_counts=True)
    order = [1, 0] if len(labels) == 2 else np.argsort(-counts, kind="stable")
    shares = [f"{labels[k]} {round_share(counts[k] / len(values))}" for k in order]
    more = f" and {len(shares) - MAX_CLASSES:,} more" if len(shares) > MAX_CLASSES else ""
    return ", ".join(shares[:MAX_CLASSES]) + more
