"""Dask as an engine of dpkit."""

from dpkit_engine_dask.engine import DaskEngine as DaskEngine

__all__ = ["DaskEngine"]
