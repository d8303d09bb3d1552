"""A small Table 1, run once for all tests that need it."""

import sys
from types import SimpleNamespace

import pytest
from paper.__main__ import main
from paper.replications import Options
from paper.table1 import reproduce


@pytest.fixture(scope="session")
def table1(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    return folder, reproduce(Options(replications=2, jobs=1, out=folder))


@pytest.fixture
def command(monkeypatch, capsys):
    """A function that does what ``python -m paper`` does, without a new process."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["paper", *map(str, arguments)])
        capsys.readouterr()
        code = main()
        said = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=said.out, stderr=said.err)

    return run
