"""Tests of agreement with the published Table 1."""

import numpy as np
import pytest
from paper.published import MODELS, TABLE1, Z99, difference_interval, median_agrees, percentage_agrees
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
    assert [percentage_agrees(100, 500, other) for other in (100, 99.6, 96)] == [True, True, False]
    rng = np.random.default_rng(0)
    x, y = rng.binomial(500, 0.75, 1000), rng.binomial(500, 0.9, 1000)
    assert np.mean([percentage_agrees(a / 5, 500, b / 5) for a, b in zip(x, y, strict=True)]) < 0.01


def test_median_of_few_values():
    for below, at, agrees in ((200, 100, 1), (300, 50, 1), (310, 50, 0), (100, 100, 1), (100, 90, 0)):
        sizes = [10] * below + [61] * at + [2000] * (500 - below - at)
        assert median_agrees(sizes, 61) == agrees


def test_published_table_agrees_with_itself():
    assert check_percentages(TABLE1, 500) == [True] * 60
    rows = {model: {"model": model} for model in MODELS}
    for line in TABLE1:
        key = "SIS_S" if line.alpha is None else f"printed_{line.alpha}_S"
        rows[line.model][key] = round(line.quantiles[2])
    assert check_medians([*rows.values()] * 500, "printed") == [True] * 20


def test_report_marks_differences():
    worse = [k._replace(percentages=(40.0, *k.percentages[1:])) for k in TABLE1]
    text = "\n\n".join(compare({"published": list(TABLE1), "printed": worse}, 500))
    assert [line[4:] for line in text.splitlines() if line.startswith("###")] == ["M1", "M2", "M3", "M4"]
    three_lines = """
| BanditSIS (α=1.5) | **the paper** | 10 | 10 | 10 | 10 | 894 | 89.8 | 94.0 | 95.2 |
|  | as published | 10 | 10 | 10 | 10 | 894 | 89.8 ✓ | 94.0 ✓ | 95.2 ✓ |
|  | as printed | 10 | 10 | 10 | 10 | 894 | 40.0 ✗ | 94.0 ✓ | 95.2 ✓ |
"""
    assert three_lines in text
    assert text.count("✗") == 16  # one for each α and model; SIS is shown once, from the first table
