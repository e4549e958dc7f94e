"""What all tests ask for again and again is found once: the installed distributions, and the command line."""

import functools
import sysconfig
from importlib.metadata import Distribution
from pathlib import Path

import typer.main
import typer.testing

INSTALLED = Path(sysconfig.get_path("purelib"))


def _read_once(name):
    """Let a property of distributions be read once where no test installs or removes anything."""
    read = getattr(Distribution, name).fget
    known = {}

    @functools.wraps(read)
    def remembered(distribution):
        path = getattr(distribution, "_path", None)
        if not isinstance(path, Path) or path.parent != INSTALLED:
            return read(distribution)
        if path not in known:
            known[path] = read(distribution)
        return known[path]

    setattr(Distribution, name, property(remembered))


_read_once("entry_points")
_read_once("metadata")

# Typer reads the signatures of all commands anew for each command line.
typer.main.get_command = typer.testing._get_command = functools.cache(typer.main.get_command)
