"""``dpkit new``: a complete distribution with one working part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.cli._options import kinds

_STANDING_ALONE = """\
wrote {folder}

Install it, attack its claims, run its tests:
  python -m pip install -e {folder} 'dpkit[testing]'
  dpkit check {name}
  python -m pytest {folder}

Then change it into your method. What you publish is a wheel:
  python -m pip wheel --no-deps -w dist {folder}"""

_MEMBER = """\
wrote {folder}

In {checkout}, install it, attack its claims, run its tests:
  uv add --optional starter --workspace ./{member}
  uv run dpkit check {name}
  uv run pytest {member}

Then change it into your method. To ship it with dpkit, add {package} to the lists in
[tool.importlinter] of pyproject.toml, {name} to FIRST_PARTY in dpkit_core/registry.py, and its row to the
table of parts in README.md; `uv run pytest tests/repo tests/docs` names whatever is missing."""


def _roles(incomplete: str) -> list[str]:
    return [kind.removesuffix("s") for kind in kinds(incomplete)]


def new(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND", help="scorer, selector, accountant or regressor.", autocompletion=_roles
        ),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the part, such as mutual_information.")],
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="DIR",
            help="The folder to write; by default dpkit-KIND-NAME here, or the part's place under plugins/ "
            "in a checkout of dpkit.",
        ),
    ] = None,
) -> None:
    """Write a new distribution with one part: package, tests, README.

    The part works and keeps its promises; change it into yours.
    """
    from dpkit_core import scaffold

    blueprint = scaffold.blueprint(kind, name)
    checkout = scaffold.repository(Path.cwd()) if directory is None else None
    if checkout is None:
        folder = directory or Path(blueprint.distribution)
        scaffold.write(blueprint, folder)
        print(_STANDING_ALONE.format(folder=folder, name=name))
        return
    member = Path("plugins", blueprint.kind, name)
    scaffold.write(blueprint, checkout / member, stage=checkout)
    print(
        _MEMBER.format(
            folder=os.path.relpath(checkout / member),
            checkout=os.path.relpath(checkout),
            member=member.as_posix(),
            name=name,
            package=blueprint.package,
        )
    )
