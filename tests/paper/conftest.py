"""A small Table 1, run once for all tests that need it."""

from __future__ import annotations

import pytest

from banditsis.paper import reproduce_table1


@pytest.fixture(scope="session")
def table1(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    return folder, reproduce_table1(replications=3, jobs=1, out=folder)
