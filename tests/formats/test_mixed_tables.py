"""Tables as people have them: ids, dates, text, copies of the target, several targets."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner

from banditsis import SIS, BanditSIS, Plan, build_index, open_data, open_source, screen
from banditsis.cli.app import app
from banditsis.formats.opened import ReadOptions, choose_columns
from banditsis.sources.views import Subset

N = 600


def make_table(n=N):
    """A table of customers."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "customer_id": rng.permutation(n) + 10_000,
            "signed_up": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "last_seen": pd.to_datetime("2023-01-01") + pd.to_timedelta(rng.random(n) * 1e6, "s"),
            "city": rng.choice(["Bonn", "Rome", "Oslo"], n),
            "comment": [f"text {k}" for k in range(n)],
            "age": rng.normal(50, 10, n),
            "visits": rng.poisson(3, n),
            "member": rng.random(n) < 0.4,
        }
    )
    noise = pd.DataFrame(rng.standard_normal((n, 30)), columns=[f"noise_{k}" for k in range(30)])
    frame = pd.concat([frame, noise], axis=1)
    spent = 2 * frame["visits"] + (frame["city"] == "Rome") * 4 + frame["age"] / 10 + rng.standard_normal(n)
    return frame.assign(spent=spent)


FRAME = make_table()
CITIES = ["city=Bonn", "city=Oslo", "city=Rome"]
NUMERIC = ["age", "visits", "member", *(f"noise_{k}" for k in range(30))]


@pytest.fixture(params=["parquet", "csv", "feather", "pandas", "polars", "pyarrow"])
def mixed(request, tmp_path):
    frames = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
    if request.param in frames:
        return frames[request.param](FRAME)
    path = tmp_path / f"table.{request.param}"
    getattr(FRAME, f"to_{request.param}")(path, **({"index": False} if request.param == "csv" else {}))
    return path


def test_ids_dates_and_text_are_skipped_with_a_note(mixed):
    source, y, *_ = open_data(mixed, target="spent")
    assert list(source.names) == NUMERIC
    skipped = "skipped customer_id (id), signed_up (dates), last_seen (dates), city (text), comment (text)"
    assert source.contents == f"33 numeric features; {skipped}"
    assert source.notes == [f"{skipped}; to use them: columns=…, dates='numeric', one_hot=True."]
    result = screen(source, y, Plan.exact(N, len(NUMERIC), 3))
    assert result.selected_names[0] == "visits"
    assert result.notes[0] == source.notes[0]


def test_columns_that_are_asked_for(mixed):
    source, *_ = open_data(mixed, target="spent", columns=["customer_id", "noise_1?", 6], drop="*_13")
    noise = [f"noise_{k}" for k in range(10, 20) if k != 13]
    assert list(source.names) == ["customer_id", "age", *noise]
    source, *_ = open_data(mixed, target="spent", dates="numeric", one_hot=True, drop=["noise_*", "comment"])
    assert list(source.names) == ["signed_up", "last_seen", *CITIES, *NUMERIC[:3]]
    days = source.read(slice(0, N), slice(0, 1))[:, 0]
    expected = (FRAME["signed_up"] - pd.Timestamp("1970-01-01")).dt.total_seconds()
    assert np.corrcoef(days, expected)[0, 1] > 1 - 1e-12


def test_names_numbers_patterns_and_lists():
    names = ["a", "b,c", "snp_1", "snp_2", "3"]
    for columns, expected in {
        "b,c": [1],
        "a,snp_*": [0, 2, 3],
        "3": [4],  # a name takes precedence over a number
        "4": [3],
        "snp_[!1]": [3],
        "1, 2": [0, 1],
    }.items():
        assert choose_columns(names, ReadOptions(columns=[columns]), "x") == expected
    for pattern, told in {
        "snp_3": "x has no column 'snp_3': did you mean 'snp_2' or 'snp_1'",
        "gene_*": r"no column of x matches 'gene_\*'",
        "*": "no column of x is left",
    }.items():
        with pytest.raises(ValueError, match=told):
            choose_columns(names, ReadOptions(drop=[pattern]), "x")
    with pytest.raises(TypeError, match=r"columns must be names, 1-based numbers or patterns"):
        open_source(np.zeros((4, 2)), columns=[1.5])
    with pytest.raises(ValueError, match=r"dates must be one of 'skip', 'numeric', got 'yes'"):
        open_source(np.zeros((4, 2)), dates="yes")


def test_columns_of_matrices_count_the_target(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 6))
    np.save(tmp_path / "x.npy", X)
    for data in (X, tmp_path / "x.npy", build_index(X, tmp_path / "x.index", random_state=0)):
        source, y, *_ = open_data(data, target="2", columns=["1", "2", "4"])
        assert [source.name(j) for j in range(2)] == ["x0", "x3"]
        assert source.shape == (50, 2)
        assert sorted(y) == sorted(X[:, 1])
    path = build_index(FRAME, tmp_path / "frame.index", target="spent", drop="noise_*", one_hot=True)
    assert open_source(path).names == [*CITIES, *NUMERIC[:3]]


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_ids_are_chosen_by_name(tmp_path, ending):
    who, path, X = FRAME["customer_id"].to_numpy(), tmp_path / f"x.{ending}", FRAME[["age", "visits"]]
    if ending == "npz":
        np.savez(path, X=X.to_numpy(), who=who, number=who[::-1])
    else:
        getattr(X.assign(who=who, number=who[::-1]), f"to_{ending}")(path, index=False)
    target = pd.DataFrame({"who": who, "spent": FRAME["spent"]}).sample(frac=1, random_state=0)
    target.to_csv(tmp_path / "y.csv", index=False)
    source, y, *_ = open_data(path, target=f"{tmp_path / 'y.csv'}:spent", id_column="who")
    np.testing.assert_allclose(y, FRAME["spent"], rtol=1e-12)
    assert "who" not in (source.names or ())
    target.rename(columns={"who": "id"}).to_csv(tmp_path / "z.csv", index=False)
    _, backwards, *_ = open_data(path, target=f"{tmp_path / 'z.csv'}:spent", id_column="number")
    np.testing.assert_allclose(backwards[::-1], FRAME["spent"], rtol=1e-12)
    with pytest.raises(ValueError, match="no column 'whom'"):
        open_source(path, id_column="whom")


def test_frames_with_text_are_transformed_as_they_were_fitted():
    frame, y = FRAME.drop(columns="spent"), FRAME["spent"]
    source = open_source(frame, one_hot=True, dates="numeric", drop="comment")
    for selector in (SIS(4), BanditSIS(4, random_state=0)):
        selector.fit(source, y)
        assert {"visits", "city=Rome"} <= set(selector.get_feature_names_out())
        kept = selector.transform(source)
        np.testing.assert_allclose(selector.transform(frame), kept)
        part = frame[frame["city"] != "Rome"]  # a level that does not occur is 0 everywhere
        expected = kept[(frame["city"] != "Rome").to_numpy()]
        again = open_source(part, one_hot=True, dates="numeric", drop="comment")
        assert again.shape[1] < source.shape[1]
        np.testing.assert_allclose(selector.transform(part), expected)
        np.testing.assert_allclose(selector.transform(again), expected)
        np.testing.assert_allclose(selector.transform(pl.from_pandas(part)), expected)
        with pytest.raises(ValueError, match="no column 'visits', which the selector was fitted on"):
            selector.transform(frame.drop(columns="visits"))
    output = SIS(2).set_output(transform="pandas").fit(source, y).transform(frame)
    assert list(output.columns) == ["city=Rome", "visits"]


@pytest.mark.parametrize("gaps", [False, True])
def test_two_levels_are_one_feature(gaps):
    """In the fit and in transform, also of a frame that has one of the levels alone."""
    rng = np.random.default_rng(5)
    sex = rng.choice(["F", "M"], 80).astype(object)
    if gaps:
        sex[::9] = None
    frame = pd.DataFrame({"sex": sex, "age": rng.normal(50, 10, 80)})
    y = (frame["sex"] == "M") + 0.1 * rng.standard_normal(80)
    source = open_source(frame, one_hot=True)
    assert source.names == ["sex=M", "age"]
    assert source.contents == "1 numeric feature and sex (2 levels)"
    selector = SIS(1).fit(source, y)
    for part in (frame, *(frame[frame["sex"] == level] for level in "MF"), frame.astype(object)[:1]):
        np.testing.assert_array_equal(selector.transform(part)[:, 0], part["sex"] == "M")


def test_options_may_be_numbers():
    X = np.arange(40.0).reshape(10, 4)
    assert open_source(X, columns=1).names == ["x0"]
    assert open_source(X, id_column=2, drop=[1]).names == ["x2", "x3"]
    part = Subset(open_source(X), columns=np.array([2, 3]))
    assert open_source(part, columns=["1"]).names == ["x2"]  # numbers count the columns that the user has
    with pytest.raises(TypeError, match=r"na must be the text of missing values, such as '-9', got -9\.5"):
        open_source("x.csv", na=-9.5)


def test_ordered_categories_are_numbers_and_others_are_classes():
    sizes = pd.Categorical(["S", "L", "M", None] * 20, categories=["S", "M", "L"], ordered=True)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": sizes, "a": rng.standard_normal(80), "year": pd.Categorical([1, 2] * 40)})
    source = open_source(frame)
    assert source.names == ["size", "a", "year"]
    np.testing.assert_array_equal(source.read(slice(0, 4), slice(0, 1))[:, 0], [0, 2, 1, np.nan])
    np.testing.assert_array_equal(source.read(slice(0, 4), slice(2, 3))[:, 0], [1, 2, 1, 2])
    assert set(open_data(frame, target="size")[1]) == {"S", "M", "L"}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_line_chooses_columns(tmp_path):
    FRAME.to_parquet(tmp_path / "x.parquet")
    command = ("screen", tmp_path / "x.parquet", "--target", "spent", "--exact", "--keep", 2, "--json")
    record = json.loads(run(*command).stdout)
    assert record["n_features"] == len(NUMERIC) + 3
    assert record["notes"][0] == (
        "skipped customer_id (id), signed_up (dates), last_seen (dates), comment (over 50 levels); "
        "to use them: --columns …, --dates numeric, a larger --one-hot."
    )
    dropped = ("--dates", "numeric", "--drop", "comment,noise_*", "--drop", "customer_id")
    for options, number in ((("--one-hot", 0), len(NUMERIC)), (dropped, 8)):
        assert json.loads(run(*command, *options).stdout)["n_features"] == number
    result = run(*command, "--columns", "nois_1")
    assert result.exit_code == 1
    assert "did you mean 'noise_1'" in result.output
    assert "36 features" in run("info", tmp_path / "x.parquet", "--drop", "age").output


def test_ten_targets_in_one_run(tmp_path):
    rng = np.random.default_rng(0)
    X, path, output = rng.standard_normal((400, 40)), tmp_path / "x.parquet", tmp_path / "best.csv"
    targets, best = [f"t{k}" for k in range(10)], [f"g{k}" for k in range(10)]
    frame = pd.DataFrame(X, columns=[f"g{j}" for j in range(40)])
    frame[targets] = X[:, :10] + 0.3 * rng.standard_normal((400, 10))
    frame.loc[:49, "t3"] = np.nan
    frame.to_parquet(path)
    wanted = [part for target in targets for part in ("--target", target)]
    command = ("screen", path, *wanted, "--exact", "--keep", 2)
    assert "\nt1: mean " in run(*command).stdout
    records = json.loads(run(*command, "--json", "--output", output).stdout)["responses"]
    assert list(records) == targets
    assert [record["features"][0]["name"] for record in records.values()] == best
    assert records["t3"]["n_rows"] == 350
    table = pd.read_csv(output)
    assert list(table["target"]) == [target for target in targets for _ in range(2)]
    assert list(table.loc[table["rank"] == 1, "name"]) == best
    source, Y, *_ = open_data(path, target=targets[:4])
    assert Y.shape == (400, 4)
    assert np.isnan(Y[:, 3]).sum() == 50
    assert source.shape == (400, 46)  # without the four
    alone = screen(*open_data(path, target="t3", drop="t*")[:2], Plan.exact(350, 40, 2))
    assert [f["score"] for f in records["t3"]["features"]] == pytest.approx(alone.scores[alone.selected])


def test_a_covariate_of_text_in_the_data(tmp_path):
    """A categorical confounder is no feature, and the scores are correlations within its levels."""
    FRAME[[*NUMERIC, "city", "spent"]].to_csv(tmp_path / "x.csv", index=False)
    command = ("screen", tmp_path / "x.csv", "--target", "spent", "--covariates", "city", "--exact", "--json")
    record = json.loads(run(*command, "--keep", 5).stdout)
    assert any("'city' was expanded into 2 indicator columns" in note for note in record["notes"])
    assert not any("skipped" in note for note in record["notes"])
    numbers = FRAME[[*NUMERIC, "spent"]].astype(float)
    r = (numbers - numbers.groupby(FRAME["city"]).transform("mean")).corr()["spent"].drop("spent")
    best = r[r.abs().sort_values(ascending=False).index[:5]]
    assert {f["name"]: f["score"] for f in record["features"]} == pytest.approx(best.to_dict(), abs=1e-12)


def test_rows_without_a_response_have_no_covariates_or_weights():
    rng = np.random.default_rng(0)
    X, z, w = rng.standard_normal((300, 5)), rng.standard_normal((300, 2)), rng.random(300)
    y = np.where(rng.random(300) < 0.2, np.nan, X[:, 2] + z[:, 0] + rng.standard_normal(300))
    X[rng.random(X.shape) < 0.05], z[:7, 1], w[50:60] = np.nan, np.nan, 0
    known = np.isfinite(y) & np.isfinite(z).all(axis=1) & (w > 0)
    found, expected = (
        SIS(2, missing="pairwise").fit(X[rows], y[rows], covariates=z[rows], sample_weight=w[rows]).scores_
        for rows in (slice(None), known)
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
