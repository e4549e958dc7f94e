"""``dpkit new``: a complete distribution with one working part, source or command."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.plugins.kinds import PARTS

_STANDING_ALONE = """\
wrote {folder}

Install it{attack}, run its tests:
  {install} -e {folder} pytest hypothesis
{check}  python -m pytest {folder}

Then turn it into your {what}, and change the description and the addresses
in pyproject.toml. What you publish is a wheel, which
.github/workflows/publish.yml builds for a tag:
  {wheel} dist {folder}"""

_MEMBER = """\
wrote {folder}, and listed it in {lists}

In {checkout}{attack}, run its tests and those of the repository:
{check}  uv run pytest {member} tests/repo tests/docs

Then turn it into your {what}.{summary}"""

_SUMMARY = " When its description changes,\n`.ci/register` brings the new one into the README."

#: For a part. The tests of a source attack it, as they know how its records are written.
_ATTACK = ", attack its claims"


def _installer() -> tuple[str, str]:
    """Return the commands that install here and build a wheel: environments made by uv have no pip."""
    if importlib.util.find_spec("pip") is None and shutil.which("uv") is not None:
        return "uv pip install", "uv build --wheel -o"
    return "python -m pip install", "python -m pip wheel --no-deps -w"


def _roles(incomplete: str) -> list[str]:
    return [role for role in (*PARTS, "source", "command") if role.startswith(incomplete)]


def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="scorer, selector, accountant, regressor, source or command.",
            autocompletion=_roles,
        ),
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Its name, such as mutual_information; for a source, the suffix of its files.",
        ),
    ],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="DIR",
            help="Folder to write; by default dpkit-KIND-NAME here, or its folder under plugins/ in a "
            "checkout of dpkit.",
        ),
    ] = None,
) -> None:
    """Write a new distribution with one part, source or command: package, tests, README, license, workflows.

    It works and passes all checks; turn it into your own.
    """
    from dpkit_command_new import scaffold
    from dpkit_command_new.checkout import repository

    blueprint = scaffold.blueprint(kind, name)
    is_part = blueprint.role in PARTS
    what = {"source": "format", "command": "command"}.get(blueprint.role, "method")
    words = {"attack": _ATTACK if is_part else "", "what": what}
    checkout = repository(Path.cwd()) if directory is None else None
    if checkout is None:
        folder = directory or Path(blueprint.distribution)
        scaffold.write(blueprint, folder, alone=True)
        install, wheel = _installer()
        check = f"  dpkit check {name}\n" if is_part else ""
        print(_STANDING_ALONE.format(folder=folder, check=check, install=install, wheel=wheel, **words))
        return
    member = scaffold.join(blueprint, checkout)
    print(_MEMBER.format(**_of_member(checkout, member, name if is_part else None), **words))


def _of_member(checkout: Path, member: Path, part: str | None) -> dict[str, str]:
    """Return what is said about a member of a checkout; ``part`` is its name, if it is one."""
    return {
        "folder": os.path.relpath(checkout / member),
        "checkout": os.path.relpath(checkout),
        "member": member.as_posix(),
        "lists": "pyproject.toml" if part is None else "pyproject.toml and README.md",
        "summary": "" if part is None else _SUMMARY,
        "check": "" if part is None else f"  uv run dpkit check {part}\n",
    }
