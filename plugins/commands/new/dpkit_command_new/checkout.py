"""The lists of plugins in a checkout of dpkit, written from the plugins' own pyproject files.

A plugin is registered by its folder, ``plugins/<kind>/<name>``: the workspace finds it there. Three lists are
derived from these folders: uv needs every member of a workspace by name in ``[tool.uv.sources]``, an
installer every distribution by name in the extra ``starter``, unless another extra names it, and the README
has a table of parts. ``dpkit new`` writes them; after a manual change, ``.ci/register`` does. The metadata
made from the extras say which parts come with dpkit.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import attrs

from dpkit_core.errors import InvalidOption
from dpkit_core.plugins.kinds import PARTS

_STARTER = re.compile(r"(?<=^starter = \[\n)(?:.+\n)*?(?=^\])", re.MULTILINE)
_SOURCES = re.compile(r"(?<=^\[tool\.uv\.sources\]\n)(?:.+\n)*", re.MULTILINE)
_TABLE = re.compile(r"(?<=^\| kind \| name \| what it is \|\n\|---\|---\|---\|\n)(?:\|.+\n)*", re.MULTILINE)
# A line about a plugin: its distribution, or a row of the table of parts.
_OWN = re.compile(r'\s*"?dpkit-|\|')


@attrs.frozen(order=True)
class Member:
    """A plugin of the checkout: its kind, name, distribution and summary."""

    kind: str
    name: str
    distribution: str
    summary: str

    @classmethod
    def read(cls, kind: str, pyproject: str) -> Member:
        """Return the plugin in the folder of ``kind`` whose pyproject file has this text."""
        project = tomllib.loads(pyproject)["project"]
        # Estimators are imported by name, and no entry point announces them.
        name, *_ = project.get("entry-points", {}).get(
            f"dpkit.{kind}", [project["name"].removeprefix("dpkit-")]
        )
        return cls(kind, name, project["name"], project["description"])

    @property
    def role(self) -> str:
        """The kind in the singular."""
        return self.kind.removesuffix("s")


def repository(start: Path) -> Path | None:
    """Return the checkout of dpkit that contains ``start``, or None."""
    for folder in (start, *start.parents):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        except (OSError, ValueError, KeyError):
            continue
        if project.get("name") == "dpkit":
            return folder
    return None


def members(checkout: Path) -> list[Member]:
    """Return the plugins under ``plugins``, by kind and name."""
    found = sorted(checkout.glob("plugins/*/*/pyproject.toml"))
    return [Member.read(path.parts[-3], path.read_text(encoding="utf-8")) for path in found]


def registration(checkout: Path, plugins: Iterable[Member]) -> dict[Path, str]:
    """Return the text of each file that lists all plugins, updated for these.

    Raises
    ------
    InvalidOption
        If a file lacks the place for its list.
    """
    plugins = sorted(plugins)
    elsewhere = _in_other_extras(checkout)
    starter = sorted({plugin.distribution for plugin in plugins} - elsewhere)
    sources = sorted(plugin.distribution for plugin in plugins)
    pyproject, readme = checkout / "pyproject.toml", checkout / "README.md"
    return {
        pyproject: _filled(
            pyproject,
            (_STARTER, [f'    "{name}",\n' for name in starter]),
            (_SOURCES, [f"{name} = {{ workspace = true }}\n" for name in sources]),
        ),
        readme: _filled(readme, (_TABLE, _rows(plugins))),
    }


def register(checkout: Path) -> list[Path]:
    """Update the lists of plugins in the checkout; return the files that were out of date."""
    texts = registration(checkout, members(checkout))
    stale = [path for path, text in texts.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        path.write_text(texts[path], encoding="utf-8")
    return stale


def _in_other_extras(checkout: Path) -> set[str]:
    """Return the distributions in extras other than ``starter``: with large dependencies, or few users."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    return {name for extra, names in extras.items() if extra != "starter" for name in names}


def _rows(plugins: Sequence[Member]) -> list[str]:
    order = tuple(PARTS)
    parts = (plugin for plugin in plugins if plugin.role in PARTS)
    return [
        f"| {part.role} | `{part.name}` | {part.summary} |\n"
        for part in sorted(parts, key=lambda part: (order.index(part.role), part))
    ]


def _filled(path: Path, *places: tuple[re.Pattern[str], list[str]]) -> str:
    """Return the text of a file, with the list of plugins in each place replaced by ``lines``."""
    text = path.read_text(encoding="utf-8")
    for place, lines in places:
        found = place.search(text)
        if found is None:
            raise InvalidOption(f"{path} lacks the place for plugins; restore it from version control")
        kept = [line for line in found.group().splitlines(keepends=True) if not _OWN.match(line)]
        text = text[: found.start()] + "".join([*kept, *lines]) + text[found.end() :]
    return text
