"""What counts as agreeing with the published table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from banditsis.paper.comparison import (
    Z99,
    agrees,
    check_medians,
    check_percentages,
    compare,
    difference_interval,
    median_agrees,
)
from banditsis.paper.published import TABLE1, Line


def test_quantile():
    assert pytest.approx(stats.norm.ppf(0.995)) == Z99


def test_interval_covers_a_difference_of_zero_99_times_of_a_hundred():
    rng = np.random.default_rng(0)
    for p in (0.5, 0.9, 0.99, 0.999):
        x, y = rng.binomial(500, p, (2, 4000))
        intervals = [difference_interval(a, 500, b, 500) for a, b in zip(x, y, strict=True)]
        covered = np.mean([low <= 0 <= high for low, high in intervals])
        assert covered > 0.985  # at least nominal, three standard errors given


def test_interval_misses_a_real_difference():
    rng = np.random.default_rng(0)
    x, y = rng.binomial(500, 0.75, 1000), rng.binomial(500, 0.9, 1000)
    assert np.mean([agrees(a / 5, 500, b / 5) for a, b in zip(x, y, strict=True)]) < 0.01


def test_interval_is_the_textbook_one_in_large_samples():
    low, high = difference_interval(60_000, 100_000, 50_000, 100_000)
    half = Z99 * math.sqrt((0.6 * 0.4 + 0.5 * 0.5) / 1e5)
    assert low == pytest.approx(0.1 - half, abs=1e-5)
    assert high == pytest.approx(0.1 + half, abs=1e-5)


def test_proportions_of_one_have_an_interval():
    assert agrees(100, 500, 100)
    assert agrees(100, 500, 99.6)
    assert not agrees(100, 500, 96)


@pytest.mark.parametrize(
    ("share_below", "share_at", "verdict"),
    [(0.4, 0.2, True), (0.6, 0.1, True), (0.62, 0.1, False), (0.2, 0.2, True), (0.2, 0.18, False)],
)
def test_median_of_few_values(share_below, share_at, verdict):
    below, at = round(500 * share_below), round(500 * share_at)
    sizes = [10] * below + [61] * at + [2000] * (500 - below - at)
    assert median_agrees(sizes, 61) is verdict


def test_published_table_agrees_with_itself():
    assert check_percentages(TABLE1, 500) == (60, 60)
    medians = [[round(line.quantiles[2])] * 500 for line in TABLE1]
    assert check_medians(medians) == (20, 20)
    assert str(check_medians(medians)) == "20 of 20"


def test_markdown_marks_what_differs():
    worse = [Line(k.model, k.alpha, k.quantiles, (40.0, *k.percentages[1:])) for k in TABLE1]
    text = compare({"published": list(TABLE1), "printed": worse}, 500)
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("###")] == ["### M1", "### M2", "### M3", "### M4"]
    first = lines.index(
        "| BanditSIS (α=1.5) | **the paper** | 10 | 10 | 10 | 10 | 894 | 89.8 | 94.0 | 95.2 |"
    )
    assert lines[first + 1] == "|  | as published | 10 | 10 | 10 | 10 | 894 | 89.8 ✓ | 94.0 ✓ | 95.2 ✓ |"
    assert lines[first + 2] == "|  | as printed | 10 | 10 | 10 | 10 | 894 | 40.0 ✗ | 94.0 ✓ | 95.2 ✓ |"
    assert text.count("✗") == 16  # one for each α and model; SIS is shown once, from the first table
