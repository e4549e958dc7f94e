"""Which parametrizations are slow; and what all tests ask for again and again is found once.

These are the installed distributions, and the command line.
"""

import functools
import gc
import sysconfig
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main
import typer.testing

INSTALLED = Path(sysconfig.get_path("purelib"))


def _read_once(cls, name):
    """Let a property of distributions be read once where no test installs or removes anything."""
    read = getattr(cls, name).fget
    known = {}

    @functools.wraps(read)
    def remembered(distribution):
        path = getattr(distribution, "_path", None)
        if not isinstance(path, Path) or path.parent != INSTALLED:
            return read(distribution)
        if path not in known:
            known[path] = read(distribution)
        return known[path]

    setattr(cls, name, property(remembered))


# Dask imports the second, by which distributions are found from then on.
for module in ("importlib.metadata", "importlib_metadata"):
    if find_spec(module):
        for name in ("entry_points", "metadata"):
            _read_once(import_module(module).Distribution, name)

# Typer reads the signatures of all commands anew for each command line.
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)


def pytest_addoption(parser):
    """Add ``--once``, for ``.ci/run lowest``: each call of a library is tried, and not again and again."""
    told = "Run the first parametrization of each test alone, and all of sources, which read many formats."
    parser.addoption("--once", action="store_true", help=told)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep what is collected: looking for garbage among it again and again takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what follows the first parametrizations of a test marked ``first``.

    It is slow; of a slow test, exhaustive.
    """
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("first")
        if mark is not None and item.get_closest_marker("exhaustive") is None:
            test = (item.parent.nodeid, item.originalname)
            seen[test] += 1
            if seen[test] > mark.args[0]:
                slow = item.get_closest_marker("slow")
                rare = slow is not None and slow not in item.callspec.marks  # all are slow, not this one
                item.add_marker(pytest.mark.exhaustive if rare else pytest.mark.slow)
    if config.getoption("once"):
        items[:] = _once(items)


def _once(items):
    """Yield of each test the first parametrization that is neither slow nor exhaustive, of a source's all."""
    tests = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        new = test not in tests or test.startswith("plugins/sources/")
        if new and not any(map(item.get_closest_marker, ("slow", "exhaustive"))):
            tests.add(test)
            yield item
