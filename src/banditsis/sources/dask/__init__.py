"""Dask arrays and frames, and files that the workers of a Dask cluster read."""

from banditsis.sources.dask.source import DaskSource

__all__ = ["DaskSource"]
