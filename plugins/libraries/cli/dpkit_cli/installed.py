"""All commands: listed from metadata and source files, and imported only when they are run.

Commands are isolated like parts. A command is imported when it is called, alone, and one that fails then is
a ``BrokenPlugin`` that stops no other. The commands of dpkit cannot be replaced, installed or not: another of
the same name is called by its qualified name, ``my-distribution:compose``. Among other distributions none has
precedence, as with parts.
"""

from __future__ import annotations

import difflib
import inspect
from collections import Counter
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dpkit_core.errors import IncompatiblePlugin, UnknownName, install
from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import described, find_resource, resources

#: The commands of dpkit: the distribution that has each, and the extra that installs it.
OWN: Mapping[str, tuple[str, str]] = {
    "list": ("dpkit-cli", "starter"),
    "compose": ("dpkit-cli", "starter"),
    "run": ("dpkit-cli", "starter"),
    "show": ("dpkit-command-show", "starter"),
    "schema": ("dpkit-command-schema", "starter"),
    "predict": ("dpkit-command-predict", "starter"),
    "evaluate": ("dpkit-command-evaluate", "starter"),
    "verify": ("dpkit-command-verify", "starter"),
    "categories": ("dpkit-command-categories", "starter"),
    "ledger": ("dpkit-command-ledger", "starter"),
    "key": ("dpkit-command-sign", "signing"),
    "new": ("dpkit-command-new", "testing"),
    "check": ("dpkit-check", "testing"),
    "audit": ("dpkit-check", "testing"),
    "doctor": ("dpkit-command-doctor", "starter"),
    "report": ("dpkit-command-report", "report"),
    "bench": ("dpkit-command-bench", "bench"),
    "plot": ("dpkit-command-bench", "bench"),
    "federate": ("dpkit-engine-federation", "federation"),
}


def is_own(ref: ComponentRef) -> bool:
    """Return whether something installed is the command of dpkit that has this name."""
    return ref.kind == "commands" and ref.name in OWN and ref.answers_to(f"{OWN[ref.name][0]}:{ref.name}")


class Announced(TyperCommand):
    """A command before it is loaded: its name and one sentence, all that a list of commands needs."""

    def __init__(self, ref: ComponentRef, name: str) -> None:
        super().__init__(name, help=f"{described(ref).summary}.")
        self.ref = ref

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the sentence, whole in a list, and short beside a name that a shell completes."""
        return str(self.help) if limit else super().get_short_help_str()

    def loaded(self) -> Any:
        """Return the command itself.

        Raises
        ------
        BrokenPlugin
            If importing it fails in any way.
        IncompatiblePlugin
            If it is not a command.
        """
        return admit(self.ref, load_target(self.ref))


class InstalledCommands:
    """The commands that distributions offer, found when this is made."""

    def __init__(self) -> None:
        self._refs = resources("commands")

    def names(self) -> list[str]:
        """Return what each command is called: its plain name where that means it alone, else qualified.

        Those of dpkit come first.
        """
        own = {ref.name for ref in self._refs if is_own(ref)}
        others = [ref for ref in self._refs if not is_own(ref)]
        names = Counter([*OWN, *(ref.name for ref in others)])
        return [
            *(name for name in OWN if name in own),
            *(ref.name if names[ref.name] == 1 else ref.qualified for ref in others),
        ]

    def announced(self, name: str) -> Announced | None:
        """Return the one command that ``name``, plain or qualified, means; None where there is none.

        Raises
        ------
        AmbiguousName
            If several distributions offer the name.
        """
        refs = [ref for ref in self._refs if ref.answers_to(name) and (name not in OWN or is_own(ref))]
        return Announced(find_resource("commands", name, among=refs), name) if refs else None

    def unknown(self, name: str) -> UnknownName:
        """Return the error for a name that no command has, with the nearest one or what to install."""
        sentence = f"there is no command {name!r}."
        known = [*self.names(), *OWN]
        for meant in difflib.get_close_matches(name, known, n=1):
            guess = "" if meant == name else f" Did you mean {meant!r}?"
            if meant not in OWN or any(is_own(ref) for ref in self._refs if ref.name == meant):
                return UnknownName(sentence + guess)
            _, extra = OWN[meant]
            return UnknownName(f"{sentence}{guess} Install {meant!r} with: {install(f'[{extra}]')}")
        return UnknownName(f"{sentence} `dpkit --help` lists the installed commands")


def admit(ref: ComponentRef, target: object) -> TyperCommand | TyperGroup:
    """Return the command that ``target``, loaded for ``ref``, is.

    A function becomes a command, whose help text ends with its attribute ``epilog``, if it has one; and a
    ``typer.Typer`` a group of its commands.

    Raises
    ------
    IncompatiblePlugin
        If it is neither, or has a parameter that typer cannot make an option or argument of.
    """
    together = typer.Typer(add_completion=False)
    together.callback()(lambda: None)  # makes a group of even a single command
    if isinstance(target, typer.Typer):
        together.add_typer(target, name=ref.name)
    elif inspect.isroutine(target):
        together.command(ref.name, epilog=getattr(target, "epilog", None))(target)
    else:
        raise IncompatiblePlugin(
            f"{ref} points to {ref.target}, a {type(target).__name__}; an entry point of a command must "
            "point to a function or a typer.Typer"
        )
    try:
        commands: Any = typer.main.get_command(together)
        command: TyperCommand | TyperGroup = commands.commands[ref.name]
    except Exception as error:
        raise IncompatiblePlugin(
            f"{ref} cannot become a command: {type(error).__name__}: {error}. Upgrade {ref.distribution}, "
            "or tell its authors"
        ) from error
    return command
