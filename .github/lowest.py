"""Print constraints for pip: the lowest versions of what the project imports, the usual ones of the rest."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras that users install. Those for tests and documentation may need newer versions.
EXTRAS = "frames", "plots", "zarr", "hdf5", "dask", "s3"
#: Packages whose version depends on that of another one.
DEPENDENT = "distributed", "llvmlite", "numpy-typing-compat", "optype", "scipy-stubs"

requirements = [*PROJECT["dependencies"]]
for extra in EXTRAS:
    requirements += PROJECT["optional-dependencies"][extra]
lowest = dict(re.findall(r"([\w-]+)(?:\[.*?\])?>=([\d.]+)", " ".join(requirements)))
for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
    name = line.partition("==")[0]
    if name not in lowest and name not in DEPENDENT:
        print(line)
for name, version in lowest.items():
    print(f"{name}=={version}")
