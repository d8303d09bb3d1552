"""The package as a whole: imports, threads, kernels as plain Python."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed
from benchmarks.shape import count_lines, find_large
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import banditsis

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(code, stderr=subprocess.PIPE, environment=os.environ, **env):
    """What code prints in a new process, in which warnings are errors."""
    command = [sys.executable, "-W", "error", "-c", code]
    env = {**environment, **env}
    result = subprocess.run(command, stdout=-1, stderr=stderr, text=True, env=env, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


PLANS = """
from banditsis import Plan
for plan in (Plan.paper(100, 50, 2), Plan.optimal(100, 50, 2, 0.2), Plan.guaranteed(10**4, 50, 2, 0.2)):
    plan.detection_floor()
"""
#: As long as the response is normal, so p-values are not checked.
GENOTYPES = """
import numpy as np
from banditsis import Plan, open_source, screen
y = np.random.default_rng(0).standard_normal(301)
result = screen(open_source("data.bed"), y, Plan.exact(301, 20, 3), missing="pairwise")
assert result.pvalues.min() > 0
"""
SMALL_FILE = """
from banditsis.cli.app import app
app(["screen", "data.csv", "--target", "y", "--keep", "1", "--quiet"], standalone_mode=False)
"""


NOT_LOADED = {
    "nothing": ("import banditsis", ("numba", "sklearn", "matplotlib", "scipy", "pandas", "numpy")),
    "plans": (PLANS, ("numba",)),
    "complete genotypes": (GENOTYPES, ("numba",)),
    "a small file": (SMALL_FILE, ("sklearn", "pandas", "scipy.stats", "numba.np.linalg")),
}


@pytest.mark.parametrize("name", NOT_LOADED)
def test_what_is_not_loaded(name, tmp_path, monkeypatch):
    code, absent = NOT_LOADED[name]
    monkeypatch.chdir(tmp_path)
    rows = [f"{k % 7},{'' if k % 50 == 4 else k % 11},{k % 7 + k % 3}" for k in range(300)]
    Path("data.csv").write_text("\n".join(["a,b,y", *rows]))
    to_bed("data.bed", np.random.default_rng(0).integers(0, 3, (301, 20)))
    code += f"\nimport sys; print([m for m in {absent} if m in sys.modules])"
    if code.startswith(SMALL_FILE):
        run(code)  # compiles kernels, if no other test has
    assert run(code).splitlines()[-1] == "[]"


def installed_with(*others):
    """What pip installs with the project and with other packages, without extras."""
    found, queue = set(), [*PROJECT["dependencies"], *others]
    while queue:
        requirement = Requirement(queue.pop())
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(name)
            queue.extend(metadata.requires(name) or [])
    return found


def run_with(code, *others):
    """Run code that can import nothing but the project, what it requires, and other packages."""
    installed, modules = installed_with(*others), metadata.packages_distributions()
    names = {module: set(map(canonicalize_name, packages)) for module, packages in modules.items()}
    absent = {module for module in names if not names[module] & {"banditsis", *installed}}
    prefix = f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""
    return run(prefix + code)


def test_the_base_installation_reads_tables(tmp_path):
    frame = pd.DataFrame({"a": np.arange(200.0) % 7, "b": np.arange(200) % 11, "kind": ["u", "v"] * 100})
    frame["y"] = frame["a"] + np.arange(200) % 3
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    frame.to_feather(tmp_path / "x.feather")
    code = f"""
from pathlib import Path
from banditsis import SIS, open_data, open_source
from banditsis.cli.app import app
try:
    import pandas
except ImportError:
    print("alone")
folder = Path({str(tmp_path)!r})
for name in ("x.csv", "x.parquet", "x.feather"):
    source, y, *_ = open_data(folder / name, target="y", one_hot=True)
    print(*SIS(1).fit(source, y).get_feature_names_out())
    out = folder / f"{{name}}.out.parquet"
    options = ["screen", str(folder / name), "--target", "y", "--keep", "1", "--output", str(out), "--quiet"]
    app(options, standalone_mode=False)
    print(open_source(out).shape[0])
"""
    assert run_with(code).split() == ["alone", *["a", "1"] * 3]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_base_installation_takes_frames(library):
    code = f"""
import {library}
from banditsis import SIS
b = [None if k == 3 else k / 3 for k in range(200)]
X = {library}.DataFrame({{"a": [k % 7 for k in range(200)], "b": b}})
y = [k % 7 + k % 3 for k in range(200)]
print(*SIS(1, missing="pairwise").fit(X, y).get_feature_names_out())
"""
    assert run_with(code, library).split() == ["a"]


def test_other_systems_than_linux(tmp_path):
    """Windows and macOS lack some of these modules and functions."""
    code = f"""
import mmap, os, sys
import numba, pyarrow.csv, pyarrow.parquet, sklearn.feature_selection  # which know the system they are on
sys.modules["fcntl"] = sys.modules["resource"] = None
for name in ("sched_getaffinity", "sysconf", "getuid", "posix_fadvise", "fork"):
    if hasattr(os, name):
        delattr(os, name)
for name in [name for name in vars(mmap) if name.startswith("MADV_")]:
    delattr(mmap, name)
import numpy as np
from pathlib import Path
from banditsis import BanditSIS, open_source, build_index
from banditsis.formats import files
files.PROC = Path("nowhere")
folder = Path({str(tmp_path)!r})
X = np.random.default_rng(0).standard_normal((6000, 2000), dtype=np.float32)
np.save(folder / "x.npy", X)
np.savetxt(folder / "x.csv", X[:500, :5], delimiter=",", header="a,b,c,d,e", comments="")
store = open_source(build_index(folder / "x.npy", folder / "x.zarr", random_state=0))
for source, y in (
    (open_source(folder / "x.npy"), X[:, 3]),
    (open_source(folder / "x.csv"), X[:500, 3]),
    (store, X[:, 3]),
):
    print(BanditSIS(1, random_state=0).fit(source, y).result_.selected[0])
"""
    assert run(code).split() == ["3", "3", "3"]


def test_compilation_is_not_counted_and_announced_once(tmp_path):
    code = """
import time, numpy as np
from banditsis import Plan, screen
from banditsis.core.progress import compilation
X = np.random.default_rng(0).standard_normal((500, 40))
for verbose, statistic in ((False, "pearson"), (True, "spearman"), (True, "kendall")):
    started, before = time.perf_counter(), compilation.seconds
    result = screen(X, X[:, 3], Plan.paper(500, 40, 4), statistic=statistic, random_state=0, progress=verbose)
    seconds = sum(r.seconds for r in result.rounds) + compilation.seconds - before
    print(seconds <= time.perf_counter() - started)
"""
    printed = run(code, subprocess.STDOUT, NUMBA_CACHE_DIR=str(tmp_path))
    assert printed.count("True") == 3
    assert printed.count("compiling kernels") == 1


def test_damaged_machine_code_is_compiled_again(tmp_path):
    code = """
import warnings
from banditsis.kernels.compile import range_scale
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    print(range_scale(0.0, 3.0), len(range_scale.stats.cache_hits), *(str(w.message) for w in warned))
"""
    compiled = ["0.25", "0"]
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == compiled
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert {path.suffix for path in files} == {".nbi", ".nbc"}
    for damage in (
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-100] + bytes([content[-100] ^ 8]) + content[-99:],
    ):
        for path in files:
            path.write_bytes(damage(path.read_bytes()))
        *words, warned = run(code, NUMBA_CACHE_DIR=str(tmp_path)).split(maxsplit=2)
        assert words == compiled
        assert warned.count("were damaged: they are compiled again") == 1
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["0.25", "1"]


def test_public_names():
    assert len(banditsis.__all__) <= 15
    assert set(banditsis.__all__) <= set(dir(banditsis))
    assert all(getattr(banditsis, name).__doc__ for name in banditsis.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = banditsis.nothing
    assert banditsis.__version__ == metadata.version("banditsis")


PACKAGE = ROOT / "src/banditsis"
#: Most lines of each package, and of the modules at the top. To add lines, simplify first.
BUDGET = {
    "(top)": 1471,
    "cli": 1149,
    "core": 1077,
    "engine": 2337,
    "formats": 2731,
    "index": 1112,
    "kernels": 2127,
    "plans": 1509,
    "results": 1127,
    "show": 803,
    "sources": 2576,
    "statistics": 3270,
}


def test_packages_keep_to_their_budget_of_lines():
    lines = {folder.name: count_lines(folder) for folder in PACKAGE.iterdir() if folder.is_dir()}
    lines["(top)"] = count_lines(PACKAGE) - sum(lines.values())
    over = {name: n for name, n in lines.items() if n > BUDGET.get(name, 0)}
    assert not over, f"more lines than the budget allows: {over}"


#: What exceeds the limits of benchmarks/shape.py: methods of a class, lines of a function, and modules that a
#: module imports. Numbers only go down; what no longer exceeds a limit is taken out.
LARGE = {
    "__init__.py": 12,
    "engine/batches.py": 12,
    "engine/rounds.py": 18,
    "formats/opening.py": 10,
    "screening.py": 14,
    "sources/dask.py": 9,
    "statistics/__init__.py": 12,
}


def test_nothing_grows_larger_than_it_should():
    found = {place: number for _, place, number in find_large()}
    assert {place: number for place, number in found.items() if number > LARGE.get(place, 0)} == {}
    assert LARGE.keys() <= found.keys()


def test_the_route_through_the_code_is_short():
    """The files that CONTRIBUTING.md names can be read in an hour."""
    names = re.findall(r"^\| `([\w/]+\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert len(names) == 7
    assert sum((PACKAGE / name).read_text("utf-8").count("\n") for name in names) <= 2500


#: Packages and modules from the bottom up; a module imports only from its own layer and those below.
LAYERS = (
    "__init__ core kernels < statistics sources datasets < formats < plans < results < engine index"
    " < screening < show < encoder single_cell < estimators < iterative < cli"
)
#: Imports inside functions that point up, to be removed; but results show themselves.
UPWARD = {("sources", "formats"), ("core", "sources"), ("results", "show")}


def imported_packages(path):
    """Packages and modules at the top that a file imports, also inside functions, but not for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    branches = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    of_types = [node for node in branches if ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {id(inner) for node in of_types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in for_types and node.module is not None:
            if node.module.startswith("banditsis."):
                yield node.module.split(".")[1]
            elif node.module == "banditsis":
                homes = {**banditsis._HOME, **banditsis._MODULES}
                yield from (homes.get(name.name, "__init__").split(".")[0] for name in node.names)


def test_imports_point_one_way():
    layer_of = {name: k for k, names in enumerate(LAYERS.split(" < ")) for name in names.split()}
    upward = set()
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in imported_packages(path) if own != "__init__" else ():
            if layer_of[name] > layer_of[own]:
                upward.add((own, name))
    assert upward == UPWARD


def test_the_loop_names_no_backend_and_no_statistic():
    files = "screening.py", "engine/rounds.py", "engine/runs.py"
    text = "".join((ROOT / "src/banditsis" / file).read_text() for file in files)
    for word in ("numba", "sklearn", "kernels", "Pearson", "Anova", "ArraySource"):
        assert word not in text


def test_the_same_answer_without_compilation():
    """Kernels as plain Python give what compiled ones give."""
    code = """
import numpy as np
from banditsis import Plan, screen
rng = np.random.default_rng(0)
X = rng.standard_normal((150, 40))
y = X[:, 3] + rng.standard_normal(150)
gaps = np.where(rng.random(X.shape) < 0.1, np.nan, X)
plan = Plan.paper(150, 40, 4)
for order in "CF":
    for x, option in ((X, "raise"), (gaps, "pairwise")):
        x = np.asarray(x, order=order)
        for response, statistic in ((y, "pearson"), (y > 0, "anova")):
            r = screen(x, response, plan, missing=option, statistic=statistic, random_state=0)
            print(r.selected.tolist(), [f"{s:.9f}" for s in r.scores])
        print([r.selected.tolist() for r in screen(x, np.c_[y, -y, x[:, 0] > 0], plan,
               missing=option, random_state=0)])
    for response, statistic in ((y, "pearson"), (y > 0, "logistic"), (np.c_[np.exp(y), y > -1], "cox")):
        r = screen(np.asarray(X, order=order), response, Plan.exact(150, 40, 4), statistic=statistic,
                   covariates=np.c_[X[:, 7], X[:, 9] ** 2], random_state=0)
        print(r.selected.tolist(), [f"{s:.9f}" for s in r.scores])
"""
    assert run(code) == run(code, NUMBA_DISABLE_JIT="1")


FIRST_FIT = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    from banditsis import BanditSIS
    X = np.random.default_rng(0).standard_normal((500, 20))
    print(BanditSIS(2, random_state=0).fit(X, X[:, 3]).result_.selected[0])
print([str(w.message) for w in caught if "kernels" in str(w.message)])
"""


def test_a_first_fit_without_a_writable_folder(tmp_path):
    """As in a container; the test must also hold for root, who may write everywhere."""
    package = tmp_path / "banditsis"
    shutil.copytree(ROOT / "src/banditsis", package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")  # a file, so no folder of this name can be created
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    environment |= {"PYTHONPATH": str(tmp_path), "HOME": str(package / "__init__.py" / "home")}
    best, warned = run(FIRST_FIT, environment=environment).splitlines()
    assert best == "3"
    assert warned.count("cannot store its compiled kernels") == 1
    assert "NUMBA_CACHE_DIR" in warned
