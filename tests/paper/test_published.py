"""Tests of agreement with the published Table 1."""

from __future__ import annotations

import numpy as np
import pytest
from paper.published import (
    MODELS,
    TABLE1,
    Z99,
    difference_interval,
    median_agrees,
    percentage_agrees,
)
from paper.table1 import check_medians, check_percentages, compare
from scipy import stats


def test_interval_covers_zero_with_probability_99_percent():
    rng = np.random.default_rng(0)
    for p in (0.5, 0.9, 0.99, 0.999):
        x, y = rng.binomial(500, p, (2, 4000))
        intervals = [difference_interval(a, 500, b, 500) for a, b in zip(x, y, strict=True)]
        covered = np.mean([low <= 0 <= high for low, high in intervals])
        assert covered > 0.985  # at least nominal, within three standard errors


def test_percentages_that_agree():
    assert pytest.approx(stats.norm.ppf(0.995)) == Z99
    assert percentage_agrees(100, 500, 100)
    assert percentage_agrees(100, 500, 99.6)
    assert not percentage_agrees(100, 500, 96)
    rng = np.random.default_rng(0)
    x, y = rng.binomial(500, 0.75, 1000), rng.binomial(500, 0.9, 1000)
    assert np.mean([percentage_agrees(a / 5, 500, b / 5) for a, b in zip(x, y, strict=True)]) < 0.01


@pytest.mark.parametrize(
    ("share_below", "share_at", "verdict"),
    [(0.4, 0.2, True), (0.6, 0.1, True), (0.62, 0.1, False), (0.2, 0.2, True), (0.2, 0.18, False)],
)
def test_median_of_few_values(share_below, share_at, verdict):
    below, at = round(500 * share_below), round(500 * share_at)
    sizes = [10] * below + [61] * at + [2000] * (500 - below - at)
    assert median_agrees(sizes, 61) is verdict


def test_published_table_agrees_with_itself():
    assert check_percentages(TABLE1, 500) == [True] * 60
    rows = [{"model": model} for model in MODELS for _ in range(500)]
    for row in rows:
        for line in TABLE1:
            if line.model == row["model"]:
                key = "SIS" if line.alpha is None else f"printed_{line.alpha}"
                row[f"{key}_S"] = round(line.quantiles[2])
    assert check_medians(rows, "printed") == [True] * 20


def test_report_marks_differences():
    worse = [k._replace(percentages=(40.0, *k.percentages[1:])) for k in TABLE1]
    text = "\n\n".join(compare({"published": list(TABLE1), "printed": worse}, 500))
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("###")] == ["### M1", "### M2", "### M3", "### M4"]
    first = lines.index(
        "| BanditSIS (α=1.5) | **the paper** | 10 | 10 | 10 | 10 | 894 | 89.8 | 94.0 | 95.2 |"
    )
    assert lines[first + 1] == "|  | as published | 10 | 10 | 10 | 10 | 894 | 89.8 ✓ | 94.0 ✓ | 95.2 ✓ |"
    assert lines[first + 2] == "|  | as printed | 10 | 10 | 10 | 10 | 894 | 40.0 ✗ | 94.0 ✓ | 95.2 ✓ |"
    assert text.count("✗") == 16  # one for each α and model; SIS is shown once, from the first table
