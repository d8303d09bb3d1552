"""Files that several tests screen."""

import numpy as np
import pytest
from command_line import X, Y, rng


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Data with a target in a file of its own, and with one as the last column."""
    place = tmp_path_factory.mktemp("data")
    np.save(place / "x.npy", X)
    np.save(place / "y.npy", Y)
    np.save(place / "both.npy", np.column_stack([X, Y]))
    np.save(place / "gaps.npy", np.where(rng.random(X.shape) < 0.05, np.nan, X))
    np.save(place / "short.npy", Y[:100])
    (place / "torn.npy").write_bytes((place / "x.npy").read_bytes()[:1000])
    (place / "picture.parquet").write_bytes(b"\x89PNG and so on")
    return place
