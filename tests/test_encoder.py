"""Frames in pipelines are encoded as files are, with the same columns in fit and transform."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from banditsis import SIS, TableEncoder, open_source


def table(n=200, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{j}": rng.standard_normal(n) for j in range(5)})
    frame["shop"] = rng.choice(["a", "b", "c"], n)
    frame["sex"] = pd.Categorical(rng.choice(["f", "m"], n))
    frame["size"] = pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"], ordered=True)
    frame["day"] = pd.date_range("2024-01-01", periods=n)
    frame["note"] = [f"note {k}" for k in range(n)]
    return frame


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_frame_is_encoded_as_a_file_is(convert, tmp_path):
    frame = table()
    frame.to_parquet(tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet", one_hot=50, dates="numeric")
    encoder = TableEncoder(dates="numeric").fit(convert(frame))
    names = list(encoder.get_feature_names_out())
    assert {"x0", "shop=a", "shop=b", "shop=c", "sex=m", "day"} <= set(names)
    assert not {"note", "sex=f"} & set(names)
    block = encoder.transform(convert(frame))
    both = [name for name in names if name in source.names]
    expected = source.read(slice(0, len(frame)), None)[:, list(map(source.names.index, both))]
    np.testing.assert_array_equal(block[:, list(map(names.index, both))], expected)


def test_unseen_levels_and_gaps():
    frame = table()
    encoder = TableEncoder().fit(frame)
    names = list(encoder.get_feature_names_out())
    other = table(3, seed=1).assign(shop=["z", "a", "b"])
    other.loc[1, "x0"] = np.nan
    block = pd.DataFrame(encoder.transform(other), columns=names)
    assert block[["shop=a", "shop=b", "shop=c"]].to_numpy().tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert np.isnan(block.loc[1, "x0"])
    assert block["size"].tolist() == other["size"].cat.codes.tolist()
    assert list(encoder.set_output(transform="pandas").transform(other).columns) == names


def test_in_a_pipeline_with_cross_validation():
    frame = table(600)
    y = 2.0 * (frame["shop"] == "b") - 1.5 * (frame["sex"] == "m") + frame["x3"]
    pipeline = make_pipeline(TableEncoder(), SIS(4), LinearRegression())
    assert cross_val_score(pipeline, frame, y).min() > 0.99
    kept = pipeline.fit(frame, y)[:-1].get_feature_names_out()
    assert {"shop=b", "sex=m", "x3"} <= set(kept)


def test_what_cannot_be_encoded_gets_a_message():
    frame = table()
    encoder = TableEncoder().fit(frame)
    for use, data, message in (
        (encoder.transform, frame.drop(columns="shop"), "feature names"),
        (encoder.transform, np.ones((3, 10)), "fitted on a frame, got ndarray"),
        (TableEncoder(one_hot=False).fit, frame[["note", "shop"]], "no column that could be a feature"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            use(data)
