"""Where a command writes: files that are reserved before anything is spent, or standard output, as ``-``."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, TextIO

import attrs

from dpkit_cli.options import STANDARD, aside, note, print_no_more, require_elsewhere
from dpkit_cli.planfile import plan_document
from dpkit_core.errors import InvalidOption
from dpkit_core.files.documents import to_toml
from dpkit_core.files.writing import Output, reserved
from dpkit_core.pipeline.plan import Plan
from dpkit_core.plugins.resources import require_resource
from dpkit_core.release.release import Release


@attrs.frozen
class StandardOutput:
    """Standard output, used like a file that is written once.

    Attributes
    ----------
    called
        What messages call it.
    left
        None: what is not written there is nowhere.
    """

    called: ClassVar[str] = "standard output"
    left: ClassVar[None] = None
    _stream: TextIO = attrs.field(factory=lambda: sys.stdout)  # from now on, whatever is redirected later

    def make_room(self, size: int) -> None:
        """Check, as far as possible in advance, that ``size`` bytes can be written.

        Raises
        ------
        InvalidOption
            If it leads nowhere, has lost its reader, or is a file on a disk without such room.
        """
        try:
            descriptor = self._stream.fileno()
        except (OSError, ValueError):  # a program that calls us has put something else there
            return
        if reason := _unwritable(descriptor, size):
            raise InvalidOption(
                f"cannot write to standard output: {reason}; pipe it to a program that reads it, or name a "
                "file with --output"
            )

    def write(self, content: str) -> None:
        """Write ``content``.

        Raises
        ------
        OSError
            If it cannot be written to the end.
        """
        try:
            self._stream.write(content)
            self._stream.flush()
        except OSError:
            print_no_more(self._stream)
            raise


def _unwritable(descriptor: int, size: int) -> str | None:
    """Return why ``size`` bytes cannot be written to an open file, as far as that can be known."""
    try:
        about = os.fstat(descriptor)
        if stat.S_ISREG(about.st_mode):
            disk = os.statvfs(descriptor)
            return os.strerror(errno.ENOSPC) if disk.f_bavail * disk.f_frsize < size else None
        if stat.S_ISCHR(about.st_mode) and about.st_rdev == os.stat(os.devnull).st_rdev:
            return "it is closed"
        polled = select.poll()
        polled.register(descriptor, select.POLLOUT)
        gone = any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in polled.poll(0))
    except (AttributeError, OSError):  # a system that cannot be asked
        return None
    return "nothing reads from it" if gone else None


@attrs.frozen
class Outputs:
    """The files that a command writes, each reserved before anything is spent; made by ``outputs``.

    Attributes
    ----------
    release
        For the release, a file or standard output; None for a dry run.
    plan
        For the plan; None if it is not to be saved.
    page
        For a page about the release, if there is one.
    """

    release: Output | StandardOutput | None
    plan: Output | None
    page: Output | None
    _page_of: Callable[[Release, str], str] | None

    @property
    def to_standard_output(self) -> bool:
        """Whether standard output is taken by the release, so that all else goes to standard error."""
        return isinstance(self.release, StandardOutput)

    def save(self, plan: Plan) -> None:
        """Write the plan, if requested."""
        if self.plan is not None:
            self.plan.write(to_toml(plan_document(plan)))
            note(f"wrote {self.plan.called}")

    def save_page(self, release: Release) -> None:
        """Write the page, if requested; a failure is reported, and `dpkit report` can write it later."""
        if self.page is None or self._page_of is None or self.release is None:
            return
        path = self.page.called
        try:
            self.page.write(self._page_of(release, Path(self.release.called).name))
        except OSError as error:
            note(
                f"cannot write the page {path}: {error.strerror or error}; `dpkit report` can write it later"
            )
        else:
            note(f"wrote {path}")


@contextmanager
def outputs(
    release: Path | None,
    *,
    plan: Path | None = None,
    page: Path | None = None,
    force: bool = False,
    inputs: Iterable[Path | str | None] = (),
) -> Iterator[Outputs]:
    """Reserve the files of a release, its plan and a page about it, so that no other run takes them.

    A release may go to standard output, as ``-``; what is printed in the block then goes to standard error.

    Raises
    ------
    InvalidOption
        If a file or standard output cannot be written, if a file is written twice or is one of ``inputs``, or
        if it is a release that only ``force`` may overwrite.
    MissingDependency
        If nothing that is installed writes pages.
    """
    _require_apart({"--output": release, "--save": plan, "--report": page}, tuple(inputs))
    if release is not None and release != STANDARD and release.is_file() and not force:
        raise InvalidOption(
            f"{release} exists, and overwriting a release does not refund it; write elsewhere with --output, "
            "or overwrite it with --force"
        )
    page_of = None
    if page is not None:
        page_of = require_resource(
            "pages", "release", of="dpkit-command-report", purpose="a page about a release", extra="report"
        )
    with contextlib.ExitStack() as stack:

        def reserve(path: Path | None, *, replace: bool) -> Output | None:
            return None if path is None else stack.enter_context(reserved(path, replace=replace))

        output: Output | StandardOutput | None
        if release == STANDARD:
            output = StandardOutput()
            output.make_room(0)
            stack.enter_context(aside())
        else:
            output = reserve(release, replace=force)
        yield Outputs(output, reserve(plan, replace=True), reserve(page, replace=force), page_of)


def _require_apart(asked: Mapping[str, Path | None], inputs: Sequence[Path | str | None]) -> None:
    """Raise if two outputs are one file, if one is an input, or if any but a release is standard output."""
    given = [(option, path) for option, path in asked.items() if path is not None]
    for (one, path), (other, same) in itertools.combinations(given, 2):
        if path.resolve() == same.resolve():
            raise InvalidOption(f"{other} and {one} are both {same}; give each its own file")
    for option, path in given:
        if path != STANDARD:
            require_elsewhere(path, inputs)
        elif option != "--output":
            raise InvalidOption(f"{option} is -, but only a release can go to standard output; name a file")
