"""Spark is an extra of its own: without it, its modules cannot be imported for their examples."""

import importlib.util

collect_ignore = [] if importlib.util.find_spec("pyspark") else ["dpkit_engine_spark"]
