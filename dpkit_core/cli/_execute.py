"""The end of ``compose`` and ``run``: spend what a plan says, write the release, show it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from dpkit_core.cli import _render
from dpkit_core.cli._models import shown
from dpkit_core.cli._options import Format, note, unread_is_fine
from dpkit_core.cli._words import budget_line, stage_rows
from dpkit_core.composer import Plan
from dpkit_core.dataset import AnyDataset
from dpkit_core.errors import InvalidOption, ReleaseNotWritten
from dpkit_core.hooks import Observers
from dpkit_core.protocols import Model
from dpkit_core.randomness import Randomness
from dpkit_core.release import Release

REFUSED = 3


def require_writable(path: Path, *, inputs: Iterable[Path | None] = ()) -> None:
    """Raise unless ``path`` can be written and is none of ``inputs``, before anything is spent."""
    if path.exists() and any(other and other.exists() and path.samefile(other) for other in inputs):
        raise InvalidOption(f"cannot write {path}: it is also read here; write elsewhere")
    folder = path.parent
    if not folder.is_dir():
        raise InvalidOption(
            f"cannot write {path}: there is no folder {folder}; create it, or write elsewhere"
        )
    if path.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise InvalidOption(f"cannot write {path}: no permission, or it is a folder; write elsewhere")


def require_unpaid(output: Path, *, force: bool) -> None:
    """Raise if there is something at ``output``, most likely a release that was paid for."""
    if output.exists() and not force:
        raise InvalidOption(
            f"{output} exists, and a release that is lost stays paid for; write elsewhere with --output, or "
            "overwrite it with --force"
        )


def execute(plan: Plan, data: AnyDataset, *, seed: int | None, output: Path, format: Format) -> None:
    """Run the plan, write the release to ``output``, print it, and exit with 3 if the mechanism refused."""
    randomness = Randomness.from_os() if seed is None else Randomness.from_seed(seed)
    # Standard output belongs to the result, whatever a part prints.
    with contextlib.redirect_stdout(sys.stderr), _render.progress() as progress:
        observers = Observers.installed(report=note)
        release = plan.run(data, randomness=randomness, observers=observers, progress=progress)
    try:
        release.write(output)
    except OSError as error:  # it is paid for: at least it is shown
        raise ReleaseNotWritten(
            f"cannot write {output}: {error.strerror or error}. The release is paid for; keep what is printed"
        ) from error
    finally:
        with unread_is_fine():  # the release is in its file
            if format is Format.JSON:
                print(json.dumps(release.to_document(), indent=2, allow_nan=False))
            else:
                show_release(release)
    note(f"wrote {output}")
    if release.refusal is not None:
        raise typer.Exit(REFUSED)


def show_plan(plan: Plan) -> None:
    """Print who will spend what."""
    with unread_is_fine():
        _render.heading(f"Plan: {plan.pipeline}, k = {plan.k} of {len(plan.schema.features)} features")
        _render.table(
            ("stage", "part", "releases", "epsilon alone", "share"),
            stage_rows(plan),
            numeric=("epsilon alone", "share"),
        )
        print()
        _render.lines([budget_line(plan)])
        print()


def show_release(release: Release) -> None:
    """Print what was released, and the certificate in words."""
    if release.selected:
        _render.heading("Selected features, in the order released")
        _render.lines([", ".join(release.selected)])
        print()
    if release.model is not None:
        _render.heading("Model")
        _show_model(release.model)
        print()
    if release.refusal is not None:
        _render.heading("Refused: no model is released")
        _render.lines(
            [
                f"{release.refusal}.",
                "This is an honest outcome and counts as spent. More records, a larger epsilon or fewer "
                "features (-k) make it less likely.",
            ]
        )
        print()
    _render.heading("Certificate")
    _render.lines(release.certificate.in_words())


def _show_model(model: Model) -> None:
    text = shown(model)
    if text.header:
        _render.table(text.header, text.rows, numeric=text.header[1:])
    _render.lines(text.sentences)
