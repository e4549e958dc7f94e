"""A place to install distributions, for tests of what finds and loads them."""

import shutil
import signal
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from distributions import Site

# A shell ignores ctrl-C for what it starts in the background; the processes that tests interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

ZOO = Path(__file__).parent / "zoo" / "plugins"


class ZooSite(Site):
    """A site that also takes plugins of the zoo."""

    def install_zoo(self, *animals):
        """Install plugins of the zoo from their own pyproject files."""
        for animal in animals:
            project = tomllib.loads((ZOO / animal / "pyproject.toml").read_text())["project"]
            self.install(
                project["name"],
                version=project["version"],
                summary=project["description"],
                entry_points=project["entry-points"],
            )
            shutil.copy(ZOO / animal / f"zoo_{animal}.py", self.folder)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An empty folder on the search path; what is imported from it is forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    site = ZooSite(tmp_path)
    yield site
    site.forget()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark as slow what follows the first parametrizations of a test marked ``first``."""
    seen = Counter()
    for item in items:
        mark = item.get_closest_marker("first")
        if mark is not None:
            seen[item.parent.nodeid, item.originalname] += 1
            if seen[item.parent.nodeid, item.originalname] > mark.args[0]:
                item.add_marker(pytest.mark.slow)
