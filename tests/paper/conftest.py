"""A small Table 1, run once for all tests that need it."""

from __future__ import annotations

import pytest
from paper.replications import Options
from paper.table1 import reproduce


@pytest.fixture(scope="session")
def table1(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    return folder, reproduce(Options(replications=3, jobs=1, out=folder))
