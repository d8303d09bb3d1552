"""``banditsis sample-check``: what a random sample of rows would have missed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from banditsis.cli.app import app
from banditsis.cli.output import check_output, summarize_response
from banditsis.cli.screen import check_options, open_target, screen_data
from banditsis.cli.terminal import (
    INTERRUPTED,
    UsageError,
    fail,
    print_message,
    print_output,
    table_of_columns,
)
from banditsis.core.formatting import LINE_WIDTH, count, format_score, format_share, short_labels, wrap
from banditsis.formats.opening import local_path
from banditsis.plans import Plan
from banditsis.results.evidence import is_exact
from banditsis.results.output import to_finite
from banditsis.results.sample_check import SampleCheck
from banditsis.results.sentences import floor_condition
from banditsis.screening import screen
from banditsis.statistics import find_statistic

MAX_LISTED = 20
PICTURES = (".png", ".svg", ".pdf")


def run(
    data: str, target: tuple[str, ...], rows: int, keep: int, plot: Path | None, as_json: bool, **given: Any
) -> None:
    """Screen all rows and a sample of them, and print what the sample misses."""
    defaults = app.commands["screen"].make_context("screen", [data]).params
    options = SimpleNamespace(**defaults | given | {"target": target, "keep": keep, "pvalues": True})
    check_options(options)
    if plot is not None:
        given_file: Any = local_path(data)
        check_output(plot, PICTURES, "--plot", [given_file] if isinstance(given_file, Path) else [])
    opened, names = open_target(options)
    if len(names) > 1 and find_statistic(options.statistic).n_columns == 1:
        raise UsageError("give one --target: a sample is checked for one response.")
    n, p = opened.features.shape
    if rows >= n:
        raise UsageError(f"--rows {rows:,} is not a sample of the {n:,} rows: give a smaller number.")
    (found, *_), interrupted = screen_data(opened, options)
    if interrupted or found is None:
        fail("interrupted.", INTERRUPTED)
    sample: Any = screen(
        opened.features,
        opened.target,
        lambda design: Plan.subsample(design.n_rows, p, min(keep, p), min(rows, design.n_rows)),
        statistic=options.statistic,
        row_order="random",
        missing=found.parameters["missing"],
        covariates=opened.covariates,
        n_jobs=options.n_jobs,
        random_state=options.seed,
    )
    check = SampleCheck(found, sample)
    if plot is not None:
        from banditsis.show.plots import sample_check  # needs Matplotlib

        picture: Any = sample_check(check).figure
        picture.savefig(plot, dpi=150)
    if as_json:
        print_output(json.dumps(to_record(check), indent=2))
        return
    values = np.asarray(opened.target)
    size = f"{count(found.n_rows, 'row')}, {count(p, 'feature')}"
    print_output(f"{data}: {size}\n{', '.join(names)}: {summarize_response(values)}\n", indent=2)
    print_output(describe(check))
    if plot is not None:
        print_message(f"Wrote {plot}.")


def to_record(check: SampleCheck) -> dict[str, Any]:
    """What was found as plain data."""
    columns = {key: list(map(to_finite, values.tolist())) for key, values in check.columns().items()}
    return {
        "n_rows": check.found.n_rows,
        "sample_rows": check.n_rows,
        "n_features": check.found.n_features,
        "n_kept": int(check.kept.sum()),
        "n_missed": len(check.missed),
        "sample_detection_floor": check.floor,
        "fraction_read": check.found.fraction_read,
        "is_exact": is_exact(check.found),
        "features": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    }


def describe(check: SampleCheck) -> str:
    """What the sample keeps and misses, and what such samples can detect, in lines of 80 characters."""
    found, m, n_best = check.found, check.n_rows, len(check.found.selected)
    n_missed, clear = len(check.missed), _count_clear(len(check.associated))
    share = format_share(m / found.n_rows)
    own = check.sample.associated
    alone = "" if own is None else f" By the p-values of the sample, {_count_clear(len(own))}."
    misses = f"misses {n_missed:,} of them" if n_missed else "misses none of them"
    parts = [
        f"A random sample of {count(m, 'row')} ({share}) keeps {int(check.kept.sum()):,} of the best "
        f"{n_best:,} features of all rows. In all rows, {clear}; the sample {misses}"
        f"{':' if n_missed else '.'}\n",
        _table(check),
        _describe_floor(check) + alone,
        _describe_cost(check),
    ]
    return "\n".join(wrap(part, LINE_WIDTH, 0) for part in parts if part)


def _count_clear(number: int) -> str:
    """How many features are clearly associated."""
    return f"{count(number, 'feature')} {'is' if number == 1 else 'are'} clearly associated"


def _table(check: SampleCheck) -> str:
    """The strongest features that the sample missed."""
    if not len(check.missed):
        return ""
    columns = check.columns()
    rows = np.flatnonzero(np.isin(columns["index"], check.missed))
    shown = {name: values[rows[:MAX_LISTED]] for name, values in columns.items()}
    one_sided = check.found.evidence.one_sided
    letter = "r" if check.floor is not None else "score"
    texts = {
        "rank": list(map(str, shown["rank"])),
        "feature": short_labels(shown["name"].tolist(), 28),
        letter: [format_score(score, 4, one_sided) for score in shown["score"]],
        f"{letter} in sample": [format_score(score, 4, one_sided) for score in shown["sample_score"]],
        "rank in sample": [f"{rank:,}" for rank in shown["sample_rank"]],
    }
    if check.floor is not None:
        texts["chance"] = [f"{chance:.0%}" for chance in shown["chance"]]
    more = f"\n… and {len(rows) - MAX_LISTED:,} more: use --json." if len(rows) > MAX_LISTED else ""
    return table_of_columns(texts, left=("feature",)) + more + "\n"


def _describe_floor(check: SampleCheck) -> str:
    """What a sample of this size keeps."""
    if check.floor is None:
        return f"There is no detection floor: {check.sample.evidence.no_floor_reason}."
    strengths = np.abs(check.found.scores[check.associated])
    n_clear, weaker = len(strengths), int(np.count_nonzero(strengths < check.floor))
    expected = check.chances(check.associated).sum()
    return (
        f"Detection floor of such a sample: {check.floor:.4f}. It keeps a feature with |r| at or above the "
        f"floor with probability 95%{floor_condition(check.sample)}; {weaker:,} of the {n_clear:,} are below "
        f"it. Another sample would miss others: {n_clear - expected:.0f} of the {n_clear:,} on average."
    )


def _describe_cost(check: SampleCheck) -> str:
    """How much was read to find the features of all rows, and what that may have missed."""
    found, share = check.found, format_share(check.n_rows / check.found.n_rows)
    if is_exact(found):
        return "All rows were read, so scores and ranks over all rows are exact."
    floor = (
        "" if found.evidence.no_floor_reason else f" Its detection floor is {found.detection_floor():.4f}."
    )
    return (
        f"To find the best of all rows, banditsis read {format_share(found.fraction_read)} of the cells; the "
        f"sample has {share}.{floor} The listed values are those of all rows."
    )
