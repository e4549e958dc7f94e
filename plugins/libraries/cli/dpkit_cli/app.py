"""All commands together, and how an error in any of them is reported."""

from __future__ import annotations

import inspect
import itertools
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from dpkit_cli.installed import Announced, InstalledCommands, is_own
from dpkit_cli.options import note, print_json, until_nobody_reads
from dpkit_cli.process import Stopped
from dpkit_core import __version__
from dpkit_core.errors import BudgetSpent, CannotCompose, DpkitError, ReleaseNotShown, ReleaseNotWritten
from dpkit_core.plugins.kinds import ComponentRef

_INTERNAL_ERROR = 1
_WRONG_USE = 2
_SPENT = 4
_AS_JSON = "dpkit: as JSON"

# What a first release and its model need, in the order of the work; the other commands follow.
_FIRST = ("list", "show", "schema", "compose", "run", "predict", "evaluate", "verify")

# Keys of what a run of the command line knows of commands that are installed.
_FOUND = f"{__name__}.found"
_RUNNING = f"{__name__}.running"


class _Commands(TyperGroup):
    """All commands, each of which is imported when it runs: ``dpkit --help`` imports none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_AS_JSON] = _wants_json(args)
        # Users add --debug at the end of the line that failed, so it is accepted anywhere.
        if "--debug" in args:
            args = ["--debug", *(argument for argument in args if argument != "--debug")]
        with _told_as_json(ctx):
            for argument in args:
                if "\0" in argument:  # of a program that calls us: no shell can pass one
                    raise typer.BadParameter(f"{argument!r} contains a zero byte, which no name can contain")
            if not args and not ctx.resilient_parsing:
                typer.echo(ctx.get_help())  # typer itself would drop what is not in boxes
                ctx.exit(_WRONG_USE)
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        names = self._installed(ctx).names()
        return sorted(names, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self._installed(ctx).announced(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        # Boxes and colors take as long as everything else, and a program or a pager needs none.
        self.rich_markup_mode = self.rich_markup_mode if sys.stdout.isatty() else None
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return self._resolved(ctx, args)
        except DpkitError:
            if ctx.resilient_parsing:  # a shell completes words, and cannot show the reason
                return None, None, args
            raise

    def _resolved(self, ctx: Any, args: list[str]) -> Any:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise self._installed(ctx).unknown(args[0])
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, Announced):
            ctx.meta[_RUNNING] = None if is_own(command.ref) else command.ref
            command = command.loaded()
        _reflow(command)
        return name, command, rest

    def _installed(self, ctx: Any) -> InstalledCommands:
        found: InstalledCommands = ctx.meta.setdefault(_FOUND, None) or InstalledCommands()
        ctx.meta[_FOUND] = found
        return found

    def invoke(self, ctx: Any) -> Any:
        try:
            with until_nobody_reads(), _told_as_json(ctx):
                return super().invoke(ctx)
        except Stopped as stop:
            raise typer.Exit(stop.exit_code) from stop
        except Exception as error:
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
                raise  # typer's own ways to end
            message, code = _in_words(error, ctx.meta.get(_RUNNING))
            _report(ctx, error, message, code)


def _in_words(error: Exception, running: ComponentRef | None) -> tuple[str, int]:
    """Return what the user reads about an error, and the exit code; ``running`` is an installed command."""
    match error:
        case DpkitError():
            return str(error), _SPENT if isinstance(error, BudgetSpent) else _WRONG_USE
        case OSError():
            return f"{error.filename or 'reading or writing'}: {error.strerror or error}", _WRONG_USE
        case MemoryError():
            return "there is not enough memory; use a smaller table", _WRONG_USE
    what, whose = ("internal error", "dpkit") if running is None else (running, running.distribution)
    return (
        f"{what} ({type(error).__name__}: {error}). This is a bug in {whose}: report it with the "
        "traceback that `--debug` shows",
        _INTERNAL_ERROR,
    )


def _wants_json(args: list[str]) -> bool:
    return "--format=json" in args or ("--format", "json") in itertools.pairwise(args)


@contextmanager
def _told_as_json(ctx: Any) -> Iterator[None]:
    """Print for programs what typer prints for people on standard error when a command is misused."""
    try:
        yield
    except Exception as error:
        if ctx.meta[_AS_JSON] and callable(getattr(error, "format_message", None)):
            _print_error(error, error.format_message(), error.exit_code)  # type: ignore[attr-defined]
        raise


def _report(ctx: Any, error: Exception, message: str, code: int) -> NoReturn:
    """Report an error, to people on standard error and to programs on standard output, and end."""
    if ctx.params.get("debug"):
        with suppress(OSError):
            traceback.print_exception(error)
    note(message)
    # Where a release was printed, that is the one object on standard output.
    if ctx.meta[_AS_JSON] and not isinstance(error, ReleaseNotWritten | ReleaseNotShown):
        _print_error(error, message, code)
    raise typer.Exit(code) from error


def _print_error(error: Exception, message: str, code: int) -> None:
    facts: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": message,
        "exit_code": code,
        "spent": isinstance(error, BudgetSpent),
    }
    if isinstance(error, CannotCompose):
        facts["reasons"] = list(error.problems)
    with suppress(OSError), until_nobody_reads():
        print_json({"error": facts})


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dpkit {__version__}")
        raise typer.Exit


def _reflow(command: Any) -> None:
    """Make one line of each paragraph of a help text, which typer breaks where the terminal ends.

    It keeps the ends of source lines in all paragraphs but the first, and so would break each line twice.
    """
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(p if "\n " in p else p.replace("\n", " ") for p in paragraphs)
    for inner in getattr(command, "commands", {}).values():
        _reflow(inner)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _dpkit(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may also come after the command.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private feature selection and regression, assembled from published parts.

    A first release: dpkit compose DATA --target COLUMN
    """
