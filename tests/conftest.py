"""A place to install distributions, for tests of what finds and loads them."""

import signal
from collections import Counter

import pytest
from distributions import site

__all__ = ["site"]

# A shell ignores ctrl-C for what it starts in the background; the processes that tests interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what follows the first parametrizations of a test marked ``first``."""
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("first")
        if mark is not None:
            test = (item.parent.nodeid, item.originalname)
            seen[test] += 1
            if seen[test] > mark.args[0]:
                item.add_marker(pytest.mark.slow)
