"""Dask arrays and frames, and files that the workers of a Dask cluster read."""

from banditsis.sources.dask.running import connected
from banditsis.sources.dask.source import DaskSource, FileOnWorkers

__all__ = ["DaskSource", "FileOnWorkers", "connected"]
