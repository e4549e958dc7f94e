"""Spark as an engine of dpkit."""

from dpkit_engine_spark.engine import SparkEngine as SparkEngine

__all__ = ["SparkEngine"]
