"""``banditsis sample-check``: what a random sample of rows would have missed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np

from banditsis.cli import app, output, terminal
from banditsis.cli.screen import check_options, open_target, screen_data, screen_once
from banditsis.core.formatting import LINE_WIDTH, count, format_score, format_share, short_labels, wrap
from banditsis.results import SampleCheck, is_exact, sentences, to_lists

MAX_LISTED = 20


def run_sample_check(data: str, rows: int, **given: Any) -> None:
    """Screen all rows and a sample of them, and print what the sample misses."""
    defaults = app.app.commands["screen"].make_context("screen", [data]).params
    options = SimpleNamespace(**defaults | given | {"pvalues": True, "max_samples": None})
    check_options(options)
    opened, names = open_target(options)
    if len(names) > 1 and options.statistic != "cox":
        raise terminal.UsageError("give one --target: a sample is checked for one response.")
    n, p = opened.features.shape
    if rows >= n:
        raise terminal.UsageError(f"--rows {rows:,} is not a sample of the {n:,} rows: give fewer.")
    (found, *_), interrupted = screen_data(opened, options)
    if interrupted or found is None:
        terminal.fail("interrupted.")
    options.max_samples, options.row_order = min(rows, found.n_rows), "random"
    options.exact = options.pvalues = False
    check = SampleCheck(found, *screen_once(opened, options, found.parameters["missing"]))
    if options.plot is not None:
        from banditsis.show.plots import sample_check  # needs Matplotlib

        picture: Any = sample_check(check).figure
        picture.savefig(options.plot, dpi=150)
    if options.as_json:
        terminal.print_output(json.dumps(to_record(check), indent=2))
        return
    size = f"{count(found.n_rows, 'row')}, {count(p, 'feature')}"
    response = f"{', '.join(names)}: {output.summarize_response(np.asarray(opened.target))}"
    terminal.print_output(f"{data}: {size}\n{response}\n", indent=2)
    terminal.print_output("\n".join(wrap(part, LINE_WIDTH, 0) for part in describe(check) if part))
    if options.plot is not None:
        terminal.print_message(f"Wrote {options.plot}.")


def to_record(check: SampleCheck) -> dict[str, Any]:
    """What was found as plain data."""
    columns = to_lists(check.columns())
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


def describe(check: SampleCheck) -> list[str]:
    """What the sample keeps and misses, what such samples can detect, and what the answer is based on."""
    found, n_clear, n_missed = check.found, len(check.associated), len(check.missed)
    share = format_share(check.n_rows / found.n_rows)
    clear = f"{count(n_clear, 'feature')} {'is' if n_clear == 1 else 'are'} clearly associated"
    misses = f"misses {n_missed:,} of them:" if n_missed else "misses none of them."
    based_on = "All rows were read, so scores and ranks over all rows are exact."
    if not is_exact(found):
        floor = "" if found.evidence.no_floor_reason else f" Its floor is {found.detection_floor():.4f}."
        based_on = (
            f"To find the best of all rows, banditsis read {format_share(found.fraction_read)} of the cells; "
            f"the sample has {share}.{floor} The listed values are those of all rows."
        )
    return [
        f"A random sample of {count(check.n_rows, 'row')} ({share}) keeps {int(check.kept.sum()):,} of the "
        f"best {len(found.selected):,} features of all rows. In all rows, {clear}; the sample {misses}\n",
        _table(check) if n_missed else "",
        _describe_floor(check),
        based_on,
    ]


def _table(check: SampleCheck) -> str:
    """The strongest features that the sample missed."""
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
    return terminal.table_of_columns(texts, left=("feature",)) + more + "\n"


def _describe_floor(check: SampleCheck) -> str:
    """What a sample of this size keeps."""
    if check.floor is None:
        return f"There is no detection floor: {check.sample.evidence.no_floor_reason}."
    strengths = np.abs(check.found.scores[check.associated])
    n_clear, weaker = len(strengths), int(np.count_nonzero(strengths < check.floor))
    expected = check.chances(check.associated).sum()
    return (
        f"Detection floor of such a sample: {check.floor:.4f}. It keeps a feature with |r| at or above the "
        f"floor with probability 95%{sentences.floor_condition(check.sample)}; {weaker:,} of the {n_clear:,} "
        f"are below it. Another sample would miss others: {n_clear - expected:.0f} of the {n_clear:,} on "
        "average."
    )
