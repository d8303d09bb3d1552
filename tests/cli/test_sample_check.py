"""What a sample of the rows misses, by the command and by its parts."""

import numpy as np
import pandas as pd
import pytest
from command_line import read_json, run, said

from banditsis import Plan, screen
from banditsis.results import SampleCheck

N, P, N_SIGNALS = 20_000, 120, 24


def simulated(seed):
    """Features with correlations from 0.02 to 0.35, and others without any."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, P))
    return X, X[:, :N_SIGNALS] @ np.geomspace(0.02, 0.4, N_SIGNALS) + rng.standard_normal(N)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample")
    X, y = simulated(0)
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(P)])
    frame.assign(y=y, high=y > 1.5).to_parquet(path / "x.parquet")
    return path


def test_what_a_sample_misses_is_named_with_its_exact_correlation(folder, tmp_path):
    X, y = simulated(0)
    command = ("sample-check", folder / "x.parquet", "--target", "y", "--rows", 1500, "--keep", 40)
    record = read_json(*command)
    assert (record["n_rows"], record["sample_rows"], record["n_features"]) == (N, 1500, P + 1)
    best = {feature["name"]: feature for feature in record["features"]}
    for name, feature in list(best.items())[1:]:
        if name != "high":
            j = int(name[1:])
            assert feature["score"] == pytest.approx(np.corrcoef(X[:, j], y)[0, 1], abs=1e-9)
            assert feature["kept"] == (feature["sample_rank"] <= 40)
    missed = {name for name, feature in best.items() if feature["associated"] and not feature["kept"]}
    assert record["n_missed"] == len(missed) > 2
    assert missed <= {f"g{j}" for j in range(N_SIGNALS)}
    assert record["n_kept"] == sum(feature["kept"] for feature in best.values())
    # At the floor the chance is 95%, and it falls with the correlation.
    floor = record["sample_detection_floor"]
    assert all((feature["chance"] >= 0.95) == (abs(feature["score"]) >= floor) for feature in best.values())
    result = run(*command, "--plot", tmp_path / "missed.svg")
    assert all(name in result.stdout for name in missed)
    assert f"misses {len(missed)} of them" in " ".join(result.stdout.split())
    assert "All rows were read" in result.stdout
    assert max(map(len, result.stdout.splitlines()[1:])) <= 80  # below the path
    assert "<svg" in (tmp_path / "missed.svg").read_text()


def test_chances_are_right_on_average():
    """Of many samples, the share that keeps a feature is its chance, on average over the features."""
    X, y = simulated(1)
    found = screen(X, y, 40, pvalues=True, random_state=0)
    checks = [
        SampleCheck(found, screen(X, y, Plan.subsample(N, P, 40, 1000), random_state=seed))
        for seed in range(100)
    ]
    kept = np.mean([check.kept for check in checks], axis=0)
    chances = np.mean([check.chances(found.selected) for check in checks], axis=0)
    clear = np.isin(found.selected, found.associated)
    assert np.abs(kept - chances)[clear].mean() < 0.05
    assert abs((kept - chances)[clear].mean()) < 0.03
    strong = np.abs(found.scores[found.selected]) >= np.median([check.floor for check in checks])
    assert strong.any()
    assert kept[strong].mean() > 0.95


def test_other_statistics_have_no_floor_but_the_same_table(folder):
    command = ("sample-check", folder / "x.parquet", "--target", "y", "--drop", "high", "--rows", 1000)
    text = " ".join(run(*command, "--keep", 30, "--statistic", "spearman").stdout.split())
    assert "There is no detection floor: it is only known for correlations" in text
    assert "score in sample" in text
    assert "chance" not in text
    everything = run(*command[:-1], N - 1, "--keep", 10).stdout
    assert "the sample misses none of them." in " ".join(everything.split())


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--target", "y", "--rows", N), 2, f"--rows {N:,} is not a sample of the {N:,} rows"),
        (("--target", "y", "--rows", 100, "--plot", "x.bmp"), 2, "must end in .png or .svg or .pdf"),
        (("--target", "y", "--target", "g1", "--rows", 100), 2, "give one --target"),
        (("--target", "y", "--rows", 100, "--statistic", "distance"), 1, "null distribution"),
        (("--target", "y", "--rows", 100, "--statistic", "cox"), 2, "needs two targets"),
        (("--rows", 100), 2, "no target"),
    ],
)
def test_what_cannot_be_checked_gets_a_message(folder, options, code, message):
    result = run("sample-check", folder / "x.parquet", *options)
    assert result.exit_code == code
    assert message in said(result)
