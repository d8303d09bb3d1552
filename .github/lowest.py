"""Print the lowest versions of what the project imports, as constraints for pip."""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Extras that users install. Those for tests and documentation may need newer versions.
EXTRAS = "frames", "plots", "zarr", "hdf5", "dask", "s3"

for requirement in PROJECT["dependencies"] + [
    requirement for extra in EXTRAS for requirement in PROJECT["optional-dependencies"][extra]
]:
    name, version = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
    print(f"{name}=={version}")
