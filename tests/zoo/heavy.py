"""A lie that is told when its module is imported."""

import scipy.stats  # noqa: F401 - the lie

from zoo.rows import whole
from zoo.twins import Products


@whole("import_is_cheap", "slow")
class LoadsAtOnce(Products):
    """Its module loads a library that takes longer to import than dpkit, and needs none of it."""
