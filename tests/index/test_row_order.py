"""Whatever belongs to the rows of an index is in the order of the original data, and meets the right rows."""

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from banditsis import SIS, BanditSIS, Interactions, IterativeSIS, build_index, open_data, open_source
from banditsis.cli.app import app
from banditsis.sources.views import Subset

N, P = 2000, 30
rng = np.random.default_rng(0)
X = rng.standard_normal((N, P))
EFFECTS = X[:, :6] @ np.linspace(0.1, 0.6, 6)
FRAME = pd.DataFrame(X, columns=[f"f{j}" for j in range(P)]).assign(
    y=EFFECTS + rng.standard_normal(N),
    case=np.where(EFFECTS + rng.logistic(size=N) > 3.5, "yes", "no"),
    age=X[:, 1] + rng.standard_normal(N),
    site=np.array(["a", "b", "c"])[rng.integers(0, 3, N)],
    w=rng.random(N) * (np.arange(N) % 7 > 0),
)
Y, W = FRAME["y"].to_numpy(), FRAME["w"].to_numpy()
GAPS = np.where(np.arange(N) % 5 == 0, np.nan, Y)


@pytest.fixture(scope="module", params=["plain", "appended", "several"])
def index(request, tmp_path_factory):
    """The same rows as one index, in two parts, and as two indexes."""
    folder, cells = tmp_path_factory.mktemp("index"), FRAME.iloc[:, :P]
    if request.param == "plain":
        return build_index(cells, folder / "x.index", random_state=0)
    path = build_index(cells[:1200], folder / "x.index", random_state=0)
    if request.param == "appended":
        return build_index(cells[1200:], path, append=True, random_state=1)
    return [path, build_index(cells[1200:], folder / "rest.index", random_state=1)]


PAIRWISE, AGE = {"missing": "pairwise"}, np.where(np.arange(N) % 3, FRAME["age"], np.nan)
GIVEN = {
    "plain": (Y, {}, {}),
    "series": (FRAME["y"], {}, {}),
    "labels": (FRAME["case"], {}, {}),
    "ranks": (Y, {"statistic": "spearman"}, {}),
    "covariates": (Y, {}, {"covariates": FRAME[["age", "site"]]}),
    "weights": (Y, {}, {"sample_weight": W}),
    "weights and covariates": (Y, {}, {"sample_weight": W, "covariates": FRAME["age"]}),
    "missing covariates": (Y, PAIRWISE, {"sample_weight": W, "covariates": AGE}),
    "missing responses": (GAPS, PAIRWISE, {}),
    "several responses": (np.column_stack([Y, -GAPS, X[:, 3]]), PAIRWISE, {}),
    "cox": (np.column_stack([np.exp(-Y), np.arange(N) % 4 > 0]), {"statistic": "cox"}, {}),
}


def same_scores(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_meets_its_rows(index, name):
    y, options, given = GIVEN[name]
    source = open_source(index)
    expected = SIS(5, **options).fit(X, y, **given)
    same_scores(SIS(5, **options).fit(source, y, **given).scores_, expected.scores_)
    found = BanditSIS(5, random_state=0, **options).fit(source, y, **given)
    best = [np.argmax(np.abs(selector.scores_), axis=0).tolist() for selector in (found, expected)]
    assert best[0] == best[1]


def test_views_of_an_index(index):
    source, rows, columns = open_source(index), np.arange(0, N, 3), np.arange(2, 20)
    order = source.original_rows
    kept = np.sort(order[rows])  # which rows of the data these are
    view = Subset(source, rows, columns)
    cells = X[kept][:, columns]
    np.testing.assert_array_equal(view.to_original(view.read(slice(0, len(rows)), None)), cells)
    for given in ({}, {"sample_weight": W[kept]}):
        same_scores(*(SIS(3).fit(data, Y[kept], **given).scores_ for data in (view, cells)))
    some = Subset(source, columns=np.arange(5))
    same_scores(SIS(3).fit(Interactions(some), Y).scores_, SIS(3).fit(Interactions(X[:, :5]), Y).scores_)


def test_batches_and_the_rows_that_are_returned(index):
    source, batches = open_source(index), SIS(4)
    for _ in range(2):
        batches.partial_fit(source, Y)
    same_scores(batches.scores_, SIS(4).fit(X, Y).scores_)
    for fitted in (batches, SIS(4).fit(source, Y)):
        np.testing.assert_array_equal(fitted.transform(source), X[:, fitted.get_support()])
    selector = IterativeSIS(4).fit(source, Y)
    np.testing.assert_array_equal(selector.get_support(), IterativeSIS(4).fit(X, Y).get_support())


def test_row_labels_must_be_the_ids_of_the_index(tmp_path):
    table = pd.DataFrame(X, index=[f"s{k}" for k in range(N)]).add_prefix("f")
    source = open_source(build_index(table, tmp_path / "x.index", random_state=0))
    y = pd.Series(Y, index=table.index)
    expected = SIS(3).fit(X, Y).scores_
    for given in (y, y.reset_index(drop=True), y[::-1].loc[source.row_ids]):
        same_scores(SIS(3).fit(source, given).scores_, expected)
    with pytest.raises(ValueError, match=r"y\.loc\[X\.row_ids\]"):
        SIS(3).fit(source, y[::-1])


def test_a_message_names_the_row_of_the_original_data(tmp_path):
    cells, y = X.copy(), Y.copy()
    cells[123, 4], y[77] = np.inf, np.nan
    for data, response, row in ((cells, Y, 123), (X, y, 77)):
        source = open_source(build_index(data, tmp_path / f"{row}.index", random_state=0))
        with pytest.raises(ValueError, match=f"row {row}"):
            SIS(3).fit(source, response)


def scores_of_command(folder, *command):
    """All scores that the command writes, by name."""
    out = folder / "scores.csv"
    options = ["--exact", "--keep", "5", "--all-features", "--quiet", "--output", str(out)]
    done = CliRunner().invoke(app, ["screen", *map(str, command), *options])
    assert done.exit_code == 0, done.stderr
    return pd.read_csv(out).set_index("name")["score"]


@pytest.mark.parametrize("ids", [False, True])
def test_the_command_joins_files_with_the_right_rows(tmp_path, ids):
    """Targets, covariates and weights of another file: by row order, or by id in another order; with gaps."""
    table = FRAME.set_axis([f"s{k}" for k in range(N)]) if ids else FRAME
    table.iloc[:, :P].to_parquet(tmp_path / "x.parquet")
    side = table.iloc[:, P:].assign(gaps=GAPS, time=np.exp(-Y), event=(np.arange(N) % 4 > 0).astype(int))
    side = side.sample(frac=1, random_state=0) if ids else side
    side.to_csv(tmp_path / "y.csv", index=ids)
    path, file = tmp_path / "x.index", tmp_path / "y.csv"
    build_index(tmp_path / "x.parquet", path, random_state=0)
    for options in (
        ["--target", f"{file}:y"],
        ["--target", f"{file}:gaps"],
        ["--target", f"{file}:gaps", "--covariates", f"{file}:age,site", "--sample-weight", f"{file}:w"],
        ["--target", f"{file}:time", "--target", f"{file}:event", "--statistic", "cox"],
        ["--target", "f3", "--covariates", "f7"],
    ):
        expected = scores_of_command(tmp_path, tmp_path / "x.parquet", *options)
        found = scores_of_command(tmp_path, path, *options)
        same_scores(found[expected.index], expected)
    data = open_data(path, f"{file}:gaps", covariates=f"{file}:site", sample_weight=f"{file}:w")
    known = ~np.isnan(GAPS)
    np.testing.assert_allclose(data.target, GAPS[known])
    np.testing.assert_array_equal(data.covariates["site"], FRAME["site"][known])
    np.testing.assert_allclose(data.sample_weight, W[known])
    np.testing.assert_array_equal(np.sort(data.features.original_rows), np.arange(known.sum()))
    if ids:
        np.testing.assert_array_equal(data.ids, table.index[known])


@pytest.mark.parametrize("target", ["y", "case"])
def test_a_stored_target_is_returned_in_the_original_order(tmp_path, target):
    table = FRAME.set_axis([f"s{k}" for k in range(N)])[[*FRAME.columns[:P], target]]
    path = build_index(table[:1500], tmp_path / "x.index", target=target, random_state=0)
    build_index(table[1500:], path, append=True, random_state=1)
    data = open_data(path, target)
    np.testing.assert_array_equal(data.target, FRAME[target])
    np.testing.assert_array_equal(data.ids, table.index)
    expected = SIS(5).fit(X, FRAME[target]).scores_
    same_scores(scores_of_command(tmp_path, path)[FRAME.columns[:P]], expected)
