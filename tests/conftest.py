"""Memory layouts that every computation must not depend on."""

import signal

import numpy as np
import pytest
from hypothesis import settings

# Processes that a shell starts in the background ignore Ctrl-C; tests of it must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def _sliced(X):
    n, p = X.shape
    wide = np.full((n + 3, 2 * p + 1), 7, X.dtype)
    wide[2 : n + 2, 1::2] = X
    return wide[2 : n + 2, 1::2]


def _mapped(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


def _field(X):
    """A field of packed records: cells neither aligned nor a multiple of their size apart."""
    records = np.zeros(X.shape, np.dtype([("tag", "i1"), ("x", X.dtype)]))
    records["x"] = X
    return records["x"]


LAYOUTS = {
    "row-major": lambda X, tmp: np.ascontiguousarray(X),
    "column-major": lambda X, tmp: np.asfortranarray(X),
    "sliced": lambda X, tmp: _sliced(X),
    "sliced column-major": lambda X, tmp: _sliced(X.T).T,
    "rows reversed": lambda X, tmp: np.ascontiguousarray(X[::-1])[::-1],
    "columns reversed": lambda X, tmp: np.ascontiguousarray(X[:, ::-1])[:, ::-1],
    "read-only map": _mapped,
    "byte-swapped": lambda X, tmp: X.astype(X.dtype.newbyteorder()),
    "field of records": lambda X, tmp: _field(X),
}


@pytest.fixture(params=LAYOUTS)
def layout(request, tmp_path):
    """A function that copies an array into a memory layout."""
    return lambda X: LAYOUTS[request.param](X, tmp_path)
