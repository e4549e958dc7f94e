"""Who may import whom.

The rules for plugins are here, so that a new folder under ``plugins`` is held to them at once. The floors of
the core need a graph and are in ``[tool.importlinter]`` of the root pyproject.
"""

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dpkit_core
from dpkit_core.release.kinds import OWN_KINDS

ROOT = Path(__file__).parents[2]
CORE = sorted(ROOT.glob("dpkit_core/**/*.py"))
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())
PUBLIC_MODULES = {
    line.split("`")[1]
    for line in (ROOT / "docs/reference/python.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("- `dpkit_core.")
}
each_plugin = pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}/{folder.name}"
)
# Each costs seconds at import; scipy.special and scipy.linalg have what the methods need.
SLOW_TO_IMPORT = ("scipy.stats", "sklearn", "pandas", "dp_accounting")
ALLOWED = {
    ("dp_accounting.py", "dp_accounting"),  # a conversion that the user asks for
    ("pld.py", "dp_accounting"),  # imported when the first total is asked for
    # Fits that the library does better than we would, imported when the first one is asked for.
    ("lasso_votes.py", "sklearn"),
    ("sources.py", "sklearn"),  # tables that a suite asks for
    # Estimators, which nobody imports who does not use scikit-learn.
    ("classifier.py", "sklearn"),
    ("export.py", "sklearn"),
    ("notices.py", "sklearn"),
    ("pipeline.py", "sklearn"),
    ("regressor.py", "sklearn"),
    ("search.py", "sklearn"),
    ("select_k_best.py", "sklearn"),
}
# Distribution -> module, where the names differ; or whose compiled half it is.
IMPORTED_AS = {
    "grpcio": "grpc",
    "pyspark[sql]": "pyspark",
    "psycopg-binary": "psycopg",
    "scikit-learn": "sklearn",
}
# What reads models, found by their kind: a release is verified with its model.
READ_BY_KIND = {f"dpkit_model_{folder.partition('/')[2]}" for folder in OWN_KINDS.values()}


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return the nodes of a file that may import something; each file is asked for by several tests."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for each import anywhere in the file; name is empty for ``import module``."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((str(node.module), alias.name) for alias in node.names)


def imports_by_name(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the same for each call of ``import_module`` or ``__import__`` that spells the module out."""
    for node in nodes(path):
        match node:
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module, ""


def sources(folder: Path) -> list[Path]:
    return sorted(folder.glob("dpkit_*/**/*.py"))


def test_import_contracts_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_core_imports_no_plugin() -> None:
    for path in CORE:
        for module, _ in (*imports(path), *imports_by_name(path)):
            package = module.partition(".")[0]
            assert package == "dpkit_core" or not package.startswith("dpkit_"), f"{path} imports {module}"


def import_graph(paths: Iterable[Path], root: Path) -> dict[str, set[str]]:
    """Return module -> the modules among ``paths`` that it imports: anywhere, for type checkers included."""
    modules = {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }
    return {
        importer: {
            imported
            for module, name in imports(path)
            for imported in [f"{module}.{name}" if f"{module}.{name}" in modules else module]
            if imported in modules
        }
        - {importer}
        for importer, path in modules.items()
    }


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one cycle, the first one again at the end; none if there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_of_the_core_import_each_other() -> None:
    graph = import_graph(CORE, ROOT)
    assert sum(map(len, graph.values())) > len(graph)
    assert not cycle(graph)


@each_plugin
def test_no_modules_of_a_plugin_import_each_other(folder: Path) -> None:
    assert not cycle(import_graph(sources(folder), folder))


@pytest.mark.parametrize(
    "source",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from box.shown import Shown",
        "def f():\n    from box import shown",
        "import box.shown",
    ],
)
def test_a_cycle_is_found_wherever_it_is_closed(tmp_path: Path, source: str) -> None:
    paths = [tmp_path / "box" / name for name in ("__init__.py", "data.py", "shown.py")]
    paths[0].parent.mkdir()
    for path, text in zip(paths, ["", source, "from box.data import Data"], strict=True):
        path.write_text(text, encoding="utf-8")
    assert set(cycle(import_graph(paths, tmp_path))) == {"box.data", "box.shown"}


@each_plugin
def test_plugins_import_none_of_each_other_but_models_and_libraries(folder: Path) -> None:
    places = (folder, *ROOT.glob("plugins/models/*"), *ROOT.glob("plugins/libraries/*"))
    own = {path.name for place in places for path in place.glob("dpkit_*")}
    for path in sources(folder):
        for module, _ in (*imports(path), *imports_by_name(path)):
            package = module.partition(".")[0]
            assert package in {"dpkit_core", *own} or not package.startswith("dpkit_"), (
                f"{path} imports {module}"
            )


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import dpkit_scorer_kendall.kendall", "dpkit_scorer_kendall.kendall"),
        ("def f():\n    from dpkit_selector_peel import PeelSelector", "dpkit_selector_peel"),
        ('importlib.import_module("dpkit_accountant_rdp")', "dpkit_accountant_rdp"),
        ('__import__("dpkit_accountant_rdp")', "dpkit_accountant_rdp"),
    ],
)
def test_imports_are_found_wherever_they_are(tmp_path: Path, source: str, imported: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    assert imported in {module for module, _ in (*imports(path), *imports_by_name(path))}


@each_plugin
def test_plugins_use_only_the_public_names_of_the_core(folder: Path) -> None:
    for path in sources(folder):
        for module, name in imports(path):
            if module == "dpkit_core":
                public = {*dpkit_core.__all__, "__version__"}
                assert name in public, f"{path}: dpkit_core.{name} is not public"
            elif module.startswith("dpkit_core."):
                assert {module, f"{module}.{name}"} & PUBLIC_MODULES, f"{path}: {module} is not public"
                assert not name.startswith("_"), f"{path}: {module}.{name} is private"


@each_plugin
def test_plugins_declare_what_they_import(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    def modules(dependencies: list[str]) -> set[str]:
        names = (dependency.partition(">=")[0] for dependency in dependencies)
        return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}

    declared = modules(project["dependencies"])
    optional = modules(
        [each for extra in project.get("optional-dependencies", {}).values() for each in extra]
    )
    own = {path.name for path in folder.glob("dpkit_*")}
    known = {*sys.stdlib_module_names, *own, *((declared | optional) - {"dpkit"}), "dpkit_core"}
    used = {module.partition(".")[0] for path in sources(folder) for module, _ in imports(path)}
    assert used <= known
    found = READ_BY_KIND if folder.name == "verify" else set()
    found |= {"dpkit_cli"} if "dpkit.commands" in project.get("entry-points", {}) else set()  # runs them
    assert declared - {"dpkit"} <= used | found, "declared but never imported"


def test_no_source_imports_a_library_that_takes_seconds() -> None:
    every = [*CORE, *(path for folder in FOLDERS for path in sources(folder))]
    for path, (module, name) in [(each, found) for each in every for found in imports(each)]:
        for slow in SLOW_TO_IMPORT:
            spelled = f"{module}.{name}"
            if spelled == slow or spelled.startswith(f"{slow}."):
                assert (path.name, slow) in ALLOWED, f"{path} imports {slow}"


def test_importing_the_package_loads_no_numerical_library() -> None:
    code = (
        "import sys, dpkit_core; print(*({'numpy', 'scipy', 'pyarrow', 'rich', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
