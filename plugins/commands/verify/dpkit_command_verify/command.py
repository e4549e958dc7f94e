"""``dpkit verify``: whether totals follow from their events, and whether the releases are private."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import attrs
import typer
from dpkit_cli.options import Format, FormatOption, aside, grouped, keys, names_of, print_json

from dpkit_core.errors import DpkitError, InvalidOption, InvalidRelease
from dpkit_core.privacy.budget import rounded_up

if TYPE_CHECKING:
    from dpkit_command_verify.replan import Replanned
    from dpkit_core.release.certificate import Certificate
    from dpkit_core.release.release import Release
    from dpkit_core.release.verify import Verification

_NOT_CONFIRMED = 2
_NOT_PRIVATE = 5


@attrs.frozen
class _Verified:
    """A file and what was found out about it; ``error`` if it cannot be read.

    ``objection`` is what contradicts its signature: empty if nothing does, None if no key was given;
    ``replanned`` is the result of planning again, None without --replan.
    """

    path: Path
    release: Release | None = None
    verification: Verification | None = None
    objection: str | None = None
    error: str = ""
    replanned: Replanned | None = None

    @property
    def certificate(self) -> Certificate | None:
        return None if self.release is None else self.release.certificate

    @property
    def confirmed(self) -> bool:
        return self.verification is not None and self.verification.confirmed and not self.problems

    @property
    def private(self) -> bool:
        return self.confirmed and self.verification is not None and self.verification.private

    @property
    def problems(self) -> list[str]:
        """What contradicts the release besides its own arithmetic: its signature, and its parts."""
        objections = [self.objection] if self.objection else []
        return [*objections, *(() if self.replanned is None else self.replanned.problems)]

    @property
    def why(self) -> list[str]:
        """Why the answer is not a plain yes."""
        if self.verification is None:
            return [self.error]
        return [*self.problems, *self.verification.problems, *self.verification.reasons]

    def to_document(self) -> dict[str, Any]:
        if self.verification is None:
            return {"file": str(self.path), "confirmed": False, "private": False, "problems": [self.error]}
        document = {"file": str(self.path), **attrs.asdict(self.verification)}
        document |= {"confirmed": self.confirmed, "private": self.private}
        if self.objection is not None:
            document["signed"] = not self.objection
        if self.replanned is not None:
            document |= {"replanned": not self.replanned.problems, "notes": list(self.replanned.notes)}
        document["problems"] = [*self.problems, *self.verification.problems]
        return document


@attrs.frozen
class VerificationOptions:
    """What a release is compared with, apart from its own events."""

    panel: ClassVar[None] = None
    accountant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Accountant to recompute with. Default: the one that the certificate names.",
            autocompletion=names_of("accountants"),
        ),
    ] = None
    allow_non_private: Annotated[
        bool,
        typer.Option(
            "--allow-non-private",
            help="Exit with 0 if the arithmetic is confirmed, even if the release is not private.",
        ),
    ] = False
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY.pub",
            help="Also check that the holder of this public key has signed each RELEASE as it is.",
        ),
    ] = None
    replan: Annotated[
        bool,
        typer.Option(
            "--replan",
            help="Also make the plan again with the installed parts and compare it event by event.",
        ),
    ] = False
    select_share: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="For --replan: the selection's share of the budget, if the release does not record it.",
        ),
    ] = None


@grouped
def verify(
    releases: Annotated[
        list[Path],
        typer.Argument(metavar="RELEASE...", help="Releases written by `dpkit compose` or `dpkit run`."),
    ],
    *,
    options: VerificationOptions,
    format: FormatOption = Format.TABLE,
) -> None:
    """Recompute the total of each RELEASE from its events; with --key, check its signature.

    With --replan, the installed parts make the plan again from the public facts in the release. This detects
    events that they would not have planned, even if the total is right.

    Exit codes: 0 all are confirmed and private; 5 all are confirmed, but one is not private or its guarantee
    says nothing; 2 one is not confirmed, was not signed by the key, is not what its parts plan, or cannot be
    read.
    """
    if options.select_share is not None and not options.replan:
        raise InvalidOption("--select-share applies only with --replan")
    key = None if options.key is None else keys("--key").VerifyingKey.read(options.key)
    if len(releases) == 1:
        verified = [_verified(releases[0], options, key)]
    else:
        verified = [_verified_or_error(path, options, key) for path in releases]
    confirmed, private = (all(one.confirmed for one in verified), all(one.private for one in verified))
    documents = [one.to_document() for one in verified]
    match format, verified:
        case Format.JSON, [_]:
            print_json(documents[0])
        case Format.JSON, _:
            print_json({"confirmed": confirmed, "private": private, "releases": documents})
        case _, [one]:
            _show(one)
        case _:
            _show_all(verified)
    if not confirmed:
        raise typer.Exit(_NOT_CONFIRMED)
    if not (private or options.allow_non_private):
        raise typer.Exit(_NOT_PRIVATE)


def _verified_or_error(path: Path, options: VerificationOptions, key: Any) -> _Verified:
    """Verify one file among several; if it cannot be read, the others are verified all the same."""
    try:
        return _verified(path, options, key)
    except DpkitError as error:
        return _Verified(path, error=str(error))


def _verified(path: Path, options: VerificationOptions, key: Any) -> _Verified:
    from dpkit_core.files.documents import read_json
    from dpkit_core.release.release import Release
    from dpkit_core.release.verify import verify as recompute

    # Read once: what is signed is the file as it is, and not as this dpkit would write it.
    document = read_json(path, "release", InvalidRelease)
    try:
        release = Release.from_document(document)
    except InvalidRelease as error:
        raise InvalidRelease(f"cannot read {path}: {error}") from error
    objection = None if key is None else key.objection(document) or ""
    with aside():
        verification = recompute(release, options.accountant)
        replanned = _replanned(release, options.select_share) if options.replan else None
    return _Verified(path, release, verification, objection, replanned=replanned)


def _replanned(release: Release, select_share: float | None) -> Replanned:
    from dpkit_command_verify.replan import replan

    try:
        return replan(release, select_share=select_share)
    except DpkitError as error:
        raise InvalidRelease(f"cannot plan the release again: {error}") from error


def _show(one: _Verified) -> None:
    from dpkit_cli import render

    certificate, verification, replanned = one.certificate, one.verification, one.replanned
    if certificate is None or verification is None:
        return
    print(f"claimed:    {_guarantee(certificate.epsilon, certificate.delta)}, by {certificate.accountant}")
    print(f"recomputed: {_guarantee(verification.epsilon, certificate.delta)}, by {verification.accountant}")
    render.lines(_signed(one))
    if replanned is not None:
        if not replanned.problems:
            print("replanned:  the installed parts plan the same events")
        render.lines(f"problem: {problem}" for problem in replanned.problems)
        render.lines(f"note: {note}" for note in replanned.notes)
    render.lines(f"problem: {problem}" for problem in verification.problems)
    render.lines(f"not private: {reason}" for reason in verification.reasons)
    print(_verdict(one))


def _signed(one: _Verified) -> list[str]:
    """Return what a signature, or its absence, says and does not say."""
    signature = None if one.release is None else one.release.signature
    if one.objection:
        return [f"signature:  NOT valid: {one.objection}"]
    if signature is None:
        return []
    if one.objection is None:
        return [f"signature:  by key {signature.key[:16]}, not checked; give that key with --key"]
    return [
        f"signature:  valid, by key {signature.key[:16]}. Its holder has signed this file, values and "
        "certificate, as it is. No signature can prove who the holder is, when it was signed, whether the "
        "run took place as the certificate says, or whether there are other releases"
    ]


def _show_all(verified: list[_Verified]) -> None:
    from dpkit_cli import render

    rows = []
    for one in verified:
        guarantee = ""
        if one.certificate is not None:
            guarantee = _guarantee(one.certificate.epsilon, one.certificate.delta)
        rows.append((str(one.path), _verdict(one), "\n".join(filter(None, [guarantee, *one.why]))))
    render.table(("release", "verdict", "claimed, and why not"), rows, whole=("verdict",))


def _verdict(one: _Verified) -> str:
    if not one.confirmed:
        return "NOT confirmed"
    return "confirmed" if one.private else "confirmed, NOT PRIVATE"


def _guarantee(epsilon: float | None, delta: float) -> str:
    return (
        "no guarantee"
        if epsilon is None
        else f"epsilon {rounded_up(epsilon, 9)} at delta {rounded_up(delta, 3)}"
    )
