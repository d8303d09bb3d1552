"""Files about the project that name its version, its Pythons or its tools."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import banditsis

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
YAML_FILES = sorted([*ROOT.glob(".*.yaml"), *ROOT.glob(".github/*/*.yml"), ROOT / "CITATION.cff"])


def read(name):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_files_are_valid(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_the_citation_and_the_changelog_have_the_version():
    citation = read("CITATION.cff")
    heading = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert citation["version"] == heading[1] == banditsis.__version__
    assert citation["license"] == PROJECT["license"]
    authors = [author["family-names"] for author in citation["references"][0]["authors"]]
    assert authors == ["Ouyang", "He", "Meng"]


def test_every_declared_python_and_system_is_tested():
    declared = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: 3." in name]
    matrix = read(".github/workflows/tests.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"
    assert len(matrix["os"]) == sum(name.startswith("Operating System") for name in PROJECT["classifiers"])


def test_pre_commit_uses_the_formatter_of_the_tests():
    pinned = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text(), re.M)
    repos = {repo["repo"]: repo for repo in read(".pre-commit-config.yaml")["repos"]}
    assert repos["https://github.com/astral-sh/ruff-pre-commit"]["rev"] == f"v{pinned[1]}"
