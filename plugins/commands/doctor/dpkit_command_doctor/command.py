"""``dpkit doctor``: how each installed part, source, observer and command fares when it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from dpkit_cli.options import Format, FormatOption, note

from dpkit_core.errors import install
from dpkit_core.plugins.kinds import PARTS

if TYPE_CHECKING:
    from dpkit_command_doctor.examine import Diagnosis


def doctor(
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 unless there are parts and everything is ok.")
    ] = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Load each installed part, source, observer and command in its own process, and print a line on it."""
    import json

    from dpkit_command_doctor.examine import examine

    diagnoses = examine()
    parts = any(diagnosis.ref.role in PARTS for diagnosis in diagnoses)
    if format is Format.JSON:
        print(json.dumps([_document(diagnosis) for diagnosis in diagnoses], indent=2))
    for diagnosis in diagnoses if format is Format.TABLE else ():
        print(_line(diagnosis))
    if not parts:
        note(f"no parts are installed; this installs the first ones: {install('[starter]')}")
    if strict and not (parts and all(diagnosis.status == "ok" for diagnosis in diagnoses)):
        raise typer.Exit(1)


def _line(diagnosis: Diagnosis) -> str:
    seconds = "" if diagnosis.seconds is None else f"{diagnosis.seconds:.2f} s"
    ref = diagnosis.ref
    who = f"{ref.role} {ref.name} ({ref.distribution} {ref.version})"
    return f"{diagnosis.status:12}  {seconds:>7}  {who}: {diagnosis.detail.removeprefix(f'{ref} ')}"


def _document(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "kind": diagnosis.ref.kind,
        "name": diagnosis.ref.name,
        "distribution": diagnosis.ref.distribution,
        "version": diagnosis.ref.version,
        "status": diagnosis.status,
        "detail": diagnosis.detail,
        "seconds": diagnosis.seconds,
    }
