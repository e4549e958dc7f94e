"""``dpkit verify``: whether the certificate's total follows from its events."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.cli._options import Format, FormatOption, names_of
from dpkit_core.privacy import rounded_up


def verify(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A release written by `dpkit compose` or `dpkit run`.")
    ],
    accountant: Annotated[
        str | None,
        typer.Option(
            "--accountant",
            metavar="NAME",
            help="Recompute with this one. Default: the one that the certificate names.",
            autocompletion=names_of("accountants"),
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Recompute the total of a RELEASE from its events. Exit code 0 if it is confirmed, 2 if not."""
    import contextlib
    import json
    import sys

    import attrs

    from dpkit_core.release import Release
    from dpkit_core.release import verify as recompute

    certificate = Release.read(release).certificate
    with contextlib.redirect_stdout(sys.stderr):
        verification = recompute(Release.read(release), accountant)
    if format is Format.JSON:
        print(json.dumps(attrs.asdict(verification), indent=2))
    else:
        print(
            f"claimed:    {_guarantee(certificate.epsilon, certificate.delta)}, by {certificate.accountant}"
        )
        print(
            f"recomputed: {_guarantee(verification.epsilon, certificate.delta)}, by {verification.accountant}"
        )
        for problem in verification.problems:
            print(f"problem:    {problem}")
        for reason in certificate.reasons:
            print(f"not private: {reason}")
        print("confirmed" if verification.confirmed else "NOT confirmed")
    if not verification.confirmed:
        raise typer.Exit(2)


def _guarantee(epsilon: float | None, delta: float) -> str:
    return (
        "no guarantee"
        if epsilon is None
        else f"epsilon {rounded_up(epsilon, 9)} at delta {rounded_up(delta, 3)}"
    )
