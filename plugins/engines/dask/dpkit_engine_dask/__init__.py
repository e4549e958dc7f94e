"""Dask as an engine of dpkit."""

from dpkit_engine_dask.engine import DaskEngine as DaskEngine
from dpkit_engine_dask.records import DaskDataset as DaskDataset

__all__ = ["DaskDataset", "DaskEngine"]
