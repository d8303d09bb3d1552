"""Time of screening 200,000 rows × 1,000 features, each once as a library and once from files.

asv run --python=same --quick
"""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from banditsis import SIS, BanditSIS, build_index, open_source

N, P, D = 200_000, 1_000, 50


def simulate() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P), dtype=np.float32)
    return X, X[:, :20] @ np.linspace(0.05, 0.5, 20, dtype=np.float32) + rng.standard_normal(N)


class InMemory:
    """Screening of an array."""

    timeout = 300

    def setup_cache(self) -> tuple[np.ndarray, np.ndarray]:
        return simulate()

    def setup(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        SIS(D).fit(*data)  # compiles the kernels

    def time_exact(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        SIS(D).fit(*data)

    def time_adaptive(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        BanditSIS(D, random_state=0).fit(*data)

    def time_100_responses(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        X, _ = data
        SIS(D).fit(X, X[:, :100])

    def time_spearman(self, data: tuple[np.ndarray, np.ndarray]) -> None:
        BanditSIS(D, statistic="spearman", random_state=0).fit(*data)


class Files:
    """Screening of a Parquet file and of its index."""

    timeout = 300

    def setup(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        X, self.y = simulate()
        table = pa.table({f"x{k}": column for k, column in enumerate(X.T)})
        pq.write_table(table, self.folder / "data.parquet")
        build_index(self.folder / "data.parquet", self.folder / "data.index", random_state=0)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def time_parquet(self) -> None:
        SIS(D).fit(open_source(self.folder / "data.parquet"), self.y)

    def time_index(self) -> None:
        BanditSIS(D, random_state=0).fit(open_source(self.folder / "data.index"), self.y)
