"""A place to install distributions, for tests of what finds and loads them."""

import shutil
import sys
import tomllib
from pathlib import Path

import attrs
import pytest

ZOO = Path(__file__).parent / "zoo" / "plugins"


@attrs.frozen
class Site:
    """A folder on the search path, into which distributions are installed as an installer would do it."""

    folder: Path

    def install(self, name, *, version="1.0", summary="", entry_points, modules=()):
        """Install ``entry_points`` (group -> name -> target) and ``modules`` (name -> source)."""
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata + (f"Summary: {summary}\n" if summary else ""))
        sections = (
            "\n".join([f"[{group}]", *(f"{name} = {target}" for name, target in points.items())])
            for group, points in entry_points.items()
        )
        (info / "entry_points.txt").write_text("\n".join(sections) + "\n")
        for module, source in dict(modules).items():
            (self.folder / f"{module}.py").write_text(source)

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
    yield Site(tmp_path)
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]
