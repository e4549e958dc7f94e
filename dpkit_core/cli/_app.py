"""The commands together, and what becomes of an error in any of them."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import dpkit_core
from dpkit_core.cli._options import note, unread_is_fine
from dpkit_core.cli.audit import audit
from dpkit_core.cli.bench import bench
from dpkit_core.cli.check import check
from dpkit_core.cli.compose import compose
from dpkit_core.cli.doctor import doctor
from dpkit_core.cli.list import list_parts
from dpkit_core.cli.new import new
from dpkit_core.cli.plot import plot
from dpkit_core.cli.predict import predict
from dpkit_core.cli.run import run
from dpkit_core.cli.schema import schema
from dpkit_core.cli.show import show
from dpkit_core.cli.verify import verify
from dpkit_core.errors import BudgetSpent, DpkitError

_INTERNAL_ERROR = 1
_WRONG_USE = 2
_SPENT = 4


class _Commands(TyperGroup):
    """The built-in commands; those of observers are looked for only when a name is not built in.

    So ``dpkit list`` and ``dpkit --help`` never import an observer.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # People add --debug to the end of the line that failed, so it is understood anywhere.
        if "--debug" in args:
            args = ["--debug", *(argument for argument in args if argument != "--debug")]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or self._command_of_observer(ctx, cmd_name)

    def _command_of_observer(self, ctx: Any, name: str) -> Any:
        from dpkit_core.hooks import Observers

        offered = typer.Typer()
        Observers.installed(report=note).add_commands(offered)
        if not (offered.registered_commands or offered.registered_groups):
            return None
        offered.callback()(lambda: None)  # makes a group of even a single command
        group: Any = typer.main.get_command(offered)
        return group.get_command(ctx, name)

    def invoke(self, ctx: Any) -> Any:
        try:
            with unread_is_fine():
                return super().invoke(ctx)
        except DpkitError as error:
            _report(ctx, str(error))
            raise typer.Exit(_SPENT if isinstance(error, BudgetSpent) else _WRONG_USE) from error
        except OSError as error:
            _report(ctx, f"{error.filename or 'input or output'}: {error.strerror or error}")
            raise typer.Exit(_WRONG_USE) from error
        except Exception as error:
            if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
                raise  # typer's own ways to end
            _report(
                ctx,
                f"internal error ({type(error).__name__}: {error}). This is a fault of dpkit: report it with "
                "what `--debug` shows",
            )
            raise typer.Exit(_INTERNAL_ERROR) from error


def _report(ctx: Any, message: str) -> None:
    if ctx.params.get("debug"):
        traceback.print_exc()
    print(f"dpkit: {message}", file=sys.stderr)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dpkit {dpkit_core.__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _dpkit(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; understood after a command too.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private feature selection and regression, assembled from published parts.

    A first release: dpkit compose DATA --target COLUMN --scorer kendall --selector peel --regressor tukey
    """


app.command("list")(list_parts)
app.command("show")(show)
app.command("schema")(schema)
app.command("compose")(compose)
app.command("run")(run)
app.command("predict")(predict)
app.command("verify")(verify)
app.command("check")(check)
app.command("audit")(audit)
app.command("new")(new)
app.command("bench")(bench)
app.command("plot")(plot)
app.command("doctor")(doctor)
