"""What a sample of the rows misses, by the command and by its parts."""

import numpy as np
import pandas as pd
import pytest
from command_line import printed, read_json, run

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
    for name in list(best)[1:]:
        if name != "high":
            r = np.corrcoef(X[:, int(name[1:])], y)[0, 1]
            assert best[name]["score"] == pytest.approx(r, abs=1e-9)
            assert best[name]["kept"] == (best[name]["sample_rank"] <= 40)
    missed = {name for name, feature in best.items() if feature["associated"] and not feature["kept"]}
    assert record["n_missed"] == len(missed) > 2
    assert missed <= {f"g{j}" for j in range(N_SIGNALS)}
    assert record["n_kept"] == sum(feature["kept"] for feature in best.values())
    floor = record["sample_detection_floor"]  # where the chance is 95%; it falls with the correlation
    assert all((feature["chance"] >= 0.95) == (abs(feature["score"]) >= floor) for feature in best.values())
    text = run(*command, "--plot", tmp_path / "missed.svg").stdout
    for part in (*missed, f"misses {len(missed)} of them", "All rows were read"):
        assert part in " ".join(text.split())
    assert max(map(len, text.splitlines()[1:])) <= 80  # below the path
    assert "<svg" in (tmp_path / "missed.svg").read_text()


def test_chances_are_right_on_average():
    """Of many samples, the share that keeps a feature is its chance, on average over the features."""
    X, y = simulated(1)
    found = screen(X, y, 40, pvalues=True, random_state=0)
    plan = Plan.subsample(N, P, 40, 1000)
    checks = [SampleCheck(found, screen(X, y, plan, random_state=seed)) for seed in range(100)]
    kept = np.mean([check.kept for check in checks], axis=0)
    chances = np.mean([check.chances(found.selected) for check in checks], axis=0)
    clear = np.isin(found.selected, found.associated)
    assert np.abs(kept - chances)[clear].mean() < 0.05
    assert abs((kept - chances)[clear].mean()) < 0.03
    strong = np.abs(found.scores[found.selected]) >= np.median([check.floor for check in checks])
    assert kept[strong].mean() > 0.95


def test_other_statistics_have_no_floor_but_the_same_table(folder):
    command = ("sample-check", folder / "x.parquet", "--target", "y", "--drop", "high", "--rows", 1000)
    text = printed(*command, "--keep", 30, "--statistic", "spearman")
    assert "There is no detection floor: it is only known for correlations" in text
    assert ("score in sample" in text, "chance" in text) == (True, False)
    assert "the sample misses none of them." in printed(*command[:-1], N - 1, "--keep", 10)
