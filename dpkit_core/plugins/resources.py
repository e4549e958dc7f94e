"""What distributions offer apart from parts: sources, recipes, suites, models, commands, observers, pages.

Each is an entry point, so third parties add theirs next to the parts that need them::

    [project.entry-points."dpkit.recipes"]
    k-tukey = "dpkit_regressor_tukey.recipes"           the file recipes/k-tukey.toml of that package

    [project.entry-points."dpkit.suites"]
    dpkendall = "dpkit_regressor_tukey.suites"          the file suites/dpkendall.toml

    [project.entry-points."dpkit.sources"]
    ".csv" = "dpkit_source_text:open_text"              a function that opens tables whose names end so

    [project.entry-points."dpkit.generators"]
    waves = "my_package:waves"                          a function that makes a table

    [project.entry-points."dpkit.models"]
    step = "my_package:StepModel"                       a class that reads models of the kind ``step``

    [project.entry-points."dpkit.commands"]
    bench = "dpkit_command_bench.commands:bench"        a function or a Typer app: ``dpkit bench``

    [project.entry-points."dpkit.hooks"]
    ledger = "my_package:Ledger"                        an observer of releases

    [project.entry-points."dpkit.pages"]
    release = "dpkit_command_report.page:page"          a page about a release: ``dpkit compose --report``

    [project.entry-points."dpkit.reports"]
    bench = "dpkit_command_bench.page:report"           what a page about a folder shows: ``dpkit report``

    [project.entry-points."dpkit.remarks"]
    leftovers = "dpkit_command_new.leftovers:leftovers" sentences about a class, at the end of ``dpkit check``

    [project.entry-points."dpkit.ledgers"]
    postgresql = "dpkit_ledger_postgresql:PostgresqlStore"      a backend of the ledger, by scheme

    [project.entry-points."dpkit.signers"]
    ed25519 = "dpkit_command_sign.keys"                 a module with the keys of an algorithm

A recipe or suite is data: it is read where its package lies, and the package's code is not imported. A list
shows the first sentence of the docstring of any other, read from its source file.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.errors import BrokenPlugin, MissingDependency, install
from dpkit_core.plugins import registry
from dpkit_core.plugins.kinds import ComponentRef, kind_named
from dpkit_core.plugins.registry import load_target, the_one

FILES = ("recipes", "suites")


def resources(kind: str) -> tuple[ComponentRef, ...]:
    """Return the installed resources of a kind, by name; nothing is imported."""
    return registry.installed(kind_named(kind).group)


def find_resource(kind: str, name: str, *, among: Sequence[ComponentRef] | None = None) -> ComponentRef:
    """Return the one resource that ``name``, plain or qualified by its distribution, means.

    Parameters
    ----------
    kind
        In the singular or plural, such as ``suite``.
    name
        As an entry point has it, or ``distribution:name``.
    among
        Where to look instead of the environment.

    Raises
    ------
    UnknownName, AmbiguousName
        As ``dpkit_core.plugins.registry.the_one``.
    """
    return the_one(kind_named(kind).name, name, resources(kind) if among is None else among)


def require_resource(kind: str, name: str, *, of: str, purpose: str, extra: str) -> Any:
    """Return what a resource that a distribution of dpkit offers points to.

    Parameters
    ----------
    kind, name
        As ``find_resource`` takes them.
    of
        The distribution of dpkit that offers it.
    purpose
        What it is needed for, as in "signing needs dpkit-command-sign".
    extra
        The extra of dpkit that installs the distribution.

    Raises
    ------
    MissingDependency
        If nothing that is installed offers it.
    AmbiguousName, BrokenPlugin
        If several distributions offer it, or it cannot be imported.
    """
    refs = resources(kind)
    if not any(ref.answers_to(name) for ref in refs):
        raise MissingDependency(of, purpose, install(f"[{extra}]"))
    return load_target(find_resource(kind, name, among=refs))


def resource_file(ref: ComponentRef) -> Path:
    """Return the TOML file of a recipe or suite, found without importing its package.

    Raises
    ------
    BrokenPlugin
        If the distribution does not hold the file that its entry point promises.
    """
    package, *folders = ref.module.split(".")
    for location in _locations(package):
        path = Path(location, *folders, f"{ref.name}.toml")
        if path.is_file():
            return path
    raise BrokenPlugin(
        f"{ref} is installed, but {ref.target} holds no file {ref.name}.toml. Reinstall "
        f"{ref.distribution}, or tell its authors"
    )


def read_resource(ref: ComponentRef) -> dict[str, Any]:
    """Return the content of a recipe or suite."""
    from dpkit_core.files.documents import read_toml  # noqa: PLC0415 - a list of commands reads none

    return read_toml(resource_file(ref), ref.role, BrokenPlugin)


def described(ref: ComponentRef) -> ComponentRef:
    """Return ``ref`` with its own summary, where it has one, instead of its distribution's.

    That of a recipe or suite is in its file. That of anything else is the first sentence of the docstring,
    or the ``help`` of ``typer.Typer(...)``, read from the source without running it: it is found where the
    entry point names the module that defines the object. A source of tables has its distribution's.

    Raises
    ------
    BrokenPlugin, DpkitError
        If the file of a recipe or suite is missing or damaged.
    """
    if ref.kind == "sources":  # many names open what one distribution reads
        return ref
    own = str(read_resource(ref).get("summary", "")) if ref.kind in FILES else _first_sentence(ref)
    return attrs.evolve(ref, summary=own) if own or ref.kind in FILES else ref


def _first_sentence(ref: ComponentRef) -> str:
    try:
        source = _source(ref.module)
        tree = _parsed(source.read_bytes(), ref.attribute) if source else ast.Module([], [])
    except (ImportError, OSError, SyntaxError, ValueError):  # damage is reported when it is used
        return ""
    found = _described_node(tree, ref.attribute.split(".")) if ref.attribute else _docstring(tree)
    paragraph = " ".join(inspect.cleandoc(found).partition("\n\n")[0].split())
    sentence, stop, _ = paragraph.partition(". ")
    return (sentence if stop else paragraph.removesuffix(".")).replace("``", "")


def _parsed(source: bytes, attribute: str) -> ast.Module:
    """Return a module as far as it defines ``attribute``: to parse all of it takes ten times as long."""
    name = re.escape(attribute.partition(".")[0]).encode()
    found = re.search(rb"^(def|class) %b\b.*\n([ )#].*\n|\n)*" % name, source, re.MULTILINE) if name else None
    with contextlib.suppress(SyntaxError):  # a text within it may begin a line
        return ast.parse(found[0] if found else source)
    return ast.parse(source)


def _described_node(tree: ast.AST, path: list[str]) -> str:
    name, *rest = path
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.ClassDef() if node.name == name:
                return _described_node(node, rest) if rest else _docstring(node)
            case ast.Assign(targets=[ast.Name(id=assigned)], value=ast.Call(keywords=keywords)):
                if assigned == name:
                    return next(_texts(keywords, "help"), "")
    return ""


def _docstring(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    return ast.get_docstring(node) or ""


def _texts(keywords: list[ast.keyword], name: str) -> Iterator[str]:
    for keyword in keywords:
        match keyword:
            case ast.keyword(arg=given, value=ast.Constant(value=str() as text)) if given == name:
                yield text


def _source(module: str) -> Path | None:
    """Return the source file of a module, found without importing the packages above it."""
    package, *folders = module.split(".")
    if not folders:
        spec = importlib.util.find_spec(package)
        return Path(spec.origin) if spec and spec.origin else None
    paths = (Path(location, *folders) for location in _locations(package))
    files = (file for path in paths for file in (path / "__init__.py", path.with_suffix(".py")))
    return next((file for file in files if file.is_file()), None)


def _locations(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list((spec.submodule_search_locations or ()) if spec else ())
