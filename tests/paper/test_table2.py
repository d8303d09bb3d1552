"""Table 2 from files in the formats of MovieLens, and from a synthetic stand-in."""

import re
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from paper.movielens import Ratings, factorise, make_standin, read_movielens, representative_users
from paper.replications import Options, read_rows
from paper.table2 import estimate_users
from paper.table2 import reproduce as reproduce_table2

from banditsis import Plan, screen

needs_libmf = pytest.mark.skipif(find_spec("libmf") is None, reason="LIBMF needs a C++ compiler")


@pytest.fixture(scope="module")
def small():
    return make_standin(n_movies=300, n_tags=30, n_users=120, n_ratings=9000)


def write_files(data, folder, compress=()):
    """Write the files of a release, with gaps between ids and scores in random order."""
    folder.mkdir(exist_ok=True)
    (n, m), users, movies = data.X.shape, 7 * data.ratings.users + 1, 3 * data.ratings.movies + 2
    ids, tags = 3 * np.arange(n) + 2, np.arange(m) + 1
    scores = {"movieId": np.repeat(ids, m), "tagId": np.tile(tags, n), "relevance": data.X.ravel()}
    frames = {
        "movies": {"movieId": [*ids, 5000], "title": "Movie, The (1999)", "genres": "Comedy|Drama"},
        "genome-tags": {"tagId": tags, "tag": data.tags},
        "genome-scores": pd.DataFrame(scores).sample(frac=1, random_state=0),
        "ratings": {
            "userId": [*users, 1],
            "movieId": [*movies, 5000],  # which has no tags
            "rating": [*data.ratings.stars, 4.5],
            "timestamp": 1147880044,
        },
    }
    for name, frame in frames.items():
        path = folder / f"{name}.csv{'.gz' if name in compress else ''}"
        pd.DataFrame(frame).to_csv(path, index=False)
    return folder


@pytest.mark.parametrize("compress", [(), ("ratings", "genome-scores")])
def test_files_are_read_as_they_were_written(small, tmp_path, compress):
    data = read_movielens(write_files(small, tmp_path / "ml", compress))
    rated = np.isin(np.arange(300), small.ratings.movies)
    np.testing.assert_allclose(data.X, small.X[rated], atol=1e-6)
    assert (data.label, *data.tags) == ("MovieLens", *small.tags)
    assert len(data.ratings.stars) == 9001  # including that of the movie without tags
    assert data.ratings.movies[-1] == rated.sum()
    np.testing.assert_array_equal(np.flatnonzero(rated)[data.ratings.movies[:-1]], small.ratings.movies)
    np.testing.assert_array_equal(data.ratings.stars[:-1], small.ratings.stars)


def test_damaged_and_missing_files_raise(small, tmp_path):
    with pytest.raises(ValueError, match=r"is not a folder.*ml-25m\.zip"):
        read_movielens(tmp_path / "nowhere")

    wrong, nothing = r"\.csv is not a file of ml-25m", "has 0 movies with tags and ratings.*one release"
    truncated = r"every tag for \d+ of 30\d movies, such as movie \d+.*truncated"
    scores = "genome-scores"
    for name, change, message in (
        ("ratings", lambda text: text.replace("rating,", "r,", 1), f"ratings{wrong} with"),
        (scores, lambda text: text + "2,x,0.5\n", scores + wrong),
        (scores, lambda text: text[: len(text) * 9 // 10].rpartition("\n")[0], truncated),
        (scores, lambda text: text + "7000,1,0.5\n", "for 1 of 301 movies, such as movie 7000"),
        ("genome-tags", lambda text: text.replace("\n1,", "\n99,", 1), "for 300 of 300 movies"),
        *(
            (name, lambda text: text.partition("\n")[0] + "\n", nothing)
            for name in (scores, "ratings", "movies")
        ),
    ):
        path = write_files(small, tmp_path / "ml") / f"{name}.csv"
        path.write_text(change(path.read_text("utf-8")), encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_movielens(tmp_path / "ml")
    (tmp_path / "ml/genome-scores.csv").unlink()
    with pytest.raises(ValueError, match=r"has no genome-scores\.csv.*it has genome-tags\.csv"):
        read_movielens(tmp_path / "ml")


@needs_libmf
def test_factors_recover_ratings_of_low_rank():
    rng = np.random.default_rng(0)
    truth = 3 + rng.standard_normal((200, 3)) @ rng.standard_normal((3, 150)) / 3
    users, movies = (grid.ravel() for grid in np.meshgrid(np.arange(200), np.arange(150), indexing="ij"))
    seen = (rng.random(30_000) < 0.5) & (movies != 149) & (users != 5)
    ratings = Ratings(users[seen], movies[seen], truth[users, movies][seen])
    p, q = factorise(ratings, 149)
    np.testing.assert_array_equal(p, factorise(ratings, 149)[0])
    assert (p.shape, q.shape) == ((200, 32), (149, 32))
    assert not p[5].any()  # no ratings
    unseen = ~seen & (movies != 149) & (users != 5)
    error = (p @ q.T)[users[unseen], movies[unseen]] - truth[users, movies][unseen]
    assert np.sqrt(np.mean(error**2)) < 0.4 * truth.std()


def test_missing_libmf_raises_with_install_command(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "libmf", None)
    with pytest.raises(ImportError, match="pip install --group movielens"):
        factorise(small.ratings, 300)


def test_representative_users_are_from_different_clusters():
    rng = np.random.default_rng(0)
    centres = 10 * rng.standard_normal((4, 5))
    cluster = np.repeat(np.arange(4), [50, 20, 90, 40])
    factors = centres[cluster] + rng.standard_normal((200, 5))
    chosen = representative_users(factors, 4)
    assert cluster[chosen].tolist() == [2, 0, 3, 1]
    assert np.abs(factors[chosen] - centres[cluster[chosen]]).mean() < 0.6


def test_standin_resembles_tag_scores():
    data = make_standin(n_movies=2000, n_tags=400, n_users=50, n_ratings=5000)
    assert (data.label, data.X.dtype) == ("stand-in", np.float32)
    assert 0 <= data.X.min() <= data.X.max() <= 1
    np.testing.assert_allclose(data.X / 0.00025, np.round(data.X / 0.00025), atol=1e-2)
    # In 177 real movies the median of the tag means is 0.078, and 90% of them lie in [0.016, 0.29].
    low, median, high = np.quantile(data.X.mean(axis=0), [0.05, 0.5, 0.95])
    assert 0.01 < low < 0.03 < 0.06 < median < 0.11 < 0.22 < high < 0.4
    correlations = np.corrcoef(data.X.T)[np.triu_indices(400, 1)]
    assert 0.3 < np.quantile(correlations, 0.95) < 0.5
    assert set(np.unique(data.ratings.stars)) <= set(np.arange(1, 11) / 2)


@pytest.fixture(scope="module")
def table2(small, tmp_path_factory):
    pytest.importorskip("libmf", reason="LIBMF needs a C++ compiler")
    folder = tmp_path_factory.mktemp("table2")
    return folder, reproduce_table2(Options(replications=3, jobs=1, out=folder), small)


def test_table_and_files(table2):
    folder, result = table2
    text = str(result)
    assert text == (folder / "table2.md").read_text("utf-8")
    assert text.startswith("# Table 2, on a stand-in")
    assert text.count("here (stand-in)") == 4
    assert all(part in text for part in ("Synthetic data", "0.5727 (± 0.1782)", "11,718.9"))
    assert read_rows(folder / "table2.csv") == result.rows
    assert [line.alpha for line in result.summary["lines"]] == [None, 1.5, 1.1, 0.5]
    r2 = [row["BanditSIS_0.5_r2"] for row in result.rows]
    assert result.summary["lines"][3].r2 == pytest.approx((np.mean(r2), np.std(r2, ddof=1)))
    assert {row["data"] for row in result.rows} == {"stand-in"}


def test_a_row_equals_a_regression_by_hand(table2, small):
    result = table2[1]
    stars = estimate_users(small, "", 100).stars
    order = np.random.default_rng([0, 2]).permutation(300)
    training, test = np.sort(order[:210]), np.sort(order[210:])
    y = stars[2].astype(float)
    pairs = [(i, j) for i in range(30) for j in range(i + 1, 30)]
    built = np.column_stack([small.X, *(small.X[:, i] * small.X[:, j] for i, j in pairs)])
    kept = screen(built[training], y[training], Plan.exact(210, 465, 100)).selected
    design = np.column_stack([np.ones(300), built[:, kept]]).astype(float)
    coefficients = np.linalg.lstsq(design[training], y[training])[0]
    error = y[test] - design[test] @ coefficients
    assert result.rows[2]["SIS_mae"] == pytest.approx(np.abs(error).mean(), rel=1e-3)
    r2 = 1 - (error**2).sum() / ((y[test] - y[test].mean()) ** 2).sum()
    assert result.rows[2]["SIS_r2"] == pytest.approx(r2, rel=1e-2, abs=1e-2)


def test_only_finished_users_of_the_same_data_are_not_run_again(table2, small, monkeypatch):
    """Other data have the same counts and the same sum of stars."""
    folder, result = table2

    def rows(replications, data):
        return reproduce_table2(Options(replications=replications, jobs=1, out=folder), data).rows

    with monkeypatch.context() as patch:
        patch.setattr("paper.table2.factorise", None)
        patch.setattr("paper.table2.predict", None)
        assert rows(3, small) == result.rows
    assert rows(4, small)[:3] == result.rows
    swapped, stars = small.X[[1, 0, *range(2, 300)]], small.ratings.stars[::-1].copy()
    for other in (small._replace(X=swapped), small._replace(ratings=small.ratings._replace(stars=stars))):
        assert rows(1, other)[0]["SIS_mae"] != result.rows[0]["SIS_mae"]


@needs_libmf
def test_command(small, tmp_path, command):
    folder = write_files(small, tmp_path / "ml", ("genome-scores",))
    out, options = tmp_path / "out", ("--replications", 1, "--jobs", 1)
    done = command("table2", "--movielens", folder, *options, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Table 2, reproduced")
    assert ("not all of ml-25m" in done.stdout, "libmf" in done.stdout) == (True, False)
    (tmp_path / "file").touch()
    for data, place, message in (
        (tmp_path, out, "error: .*has no movies.csv.*\n"),
        (folder, tmp_path / "file" / "out", f"error: .*{tmp_path / 'file'}.*\n"),
    ):
        done = command("table2", "--movielens", data, "--out", place)
        assert done.returncode == 1
        assert re.fullmatch(message, done.stderr)
    with pytest.raises(ValueError, match="replications must be from 1 to 100, got 101"):
        reproduce_table2(Options(replications=101, out=tmp_path), small)
