"""``dpkit key``: keys for signing releases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from dpkit_cli.options import note

key = typer.Typer(help="Make keys for signing releases: compose --sign, verify --key.", no_args_is_help=True)


@key.callback()
def _key() -> None:
    """Make keys for signing releases: compose --sign, verify --key."""


@key.command("new")
def new(
    name: Annotated[
        Path,
        typer.Argument(
            metavar="NAME", help="Writes NAME.key, to be kept secret, and NAME.pub, to be published."
        ),
    ],
) -> None:
    """Make a pair of keys: NAME.key signs, and NAME.pub lets others verify."""
    from dpkit_command_sign.keys import SigningKey
    from dpkit_core.errors import InvalidOption

    private, public = (name.with_name(f"{name.name}.{suffix}") for suffix in ("key", "pub"))
    made = SigningKey.new()
    if taken := [path for path in (private, public) if os.path.lexists(path)]:
        raise InvalidOption(f"{taken[0]} exists; a lost key cannot be recovered, so choose another NAME")
    for path, content, mode in ((public, made.public.to_pem(), 0o644), (private, made.to_pem(), 0o600)):
        _write(path, content, mode)
    note(f"wrote {private}, which signs: keep it secret")
    note(f"wrote {public}, which verifies: publish it where readers trust that it is yours")
    print(made.public.id)


def _write(path: Path, content: bytes, mode: int) -> None:
    # Exclusively, and never readable by others, not even for a moment.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
