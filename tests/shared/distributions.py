"""A place to install small distributions, for tests of what finds and loads them."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
import pytest

ZOO = Path(__file__).parents[1] / "zoo" / "plugins"


@attrs.frozen
class Site:
    """A folder into which distributions are installed as an installer would do it.

    It has to be on the search path; the fixture ``site`` puts it there.
    """

    folder: Path

    def install(
        self,
        name: str,
        *,
        version: str = "1.0",
        summary: str = "",
        entry_points: Mapping[str, Mapping[str, str]],
        modules: Mapping[str, str] | None = None,
    ) -> None:
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
        for module, source in (modules or {}).items():
            (self.folder / f"{module}.py").write_text(source)

    def install_zoo(self, *animals: str) -> None:
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

    def forget(self) -> None:
        """Forget every module that was imported from here."""
        folder = str(self.folder)
        for name, module in list(sys.modules.items()):
            if folder in (getattr(module, "__file__", None) or ""):
                del sys.modules[name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder on the search path; what is imported from it is forgotten after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    site = Site(tmp_path)
    yield site
    site.forget()
