"""Who may import whom. Contracts that need a graph are in ``[tool.importlinter]`` of the root pyproject."""

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpkit_core

ROOT = Path(__file__).parents[2]
CORE = sorted(ROOT.glob("dpkit_core/**/*.py"))
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())
PUBLIC_MODULES = {
    "dpkit_core.errors",
    "dpkit_core.events",
    "dpkit_core.moments",
    "dpkit_core.quantiles",
    "dpkit_core.sampling",
    "dpkit_core.validators",
    "dpkit_core.testing",
}
# Each costs seconds at import; scipy.special and scipy.linalg have what the methods need.
SLOW_TO_IMPORT = ("scipy.stats", "sklearn", "pandas", "dp_accounting")
# A conversion that the user asks for.
# Fits that the library does better than we would, imported when the first one is asked for.
ALLOWED = {("dp_accounting_bridge.py", "dp_accounting"), ("lasso_votes.py", "sklearn")}
IMPORTED_AS = {"scikit-learn": "sklearn"}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, name) for each import anywhere in the file; name is empty for ``import module``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from ((str(node.module), alias.name) for alias in node.names)


def sources(folder: Path) -> list[Path]:
    return sorted(folder.glob("dpkit_*/**/*.py"))


def test_import_contracts_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plugins_use_only_the_public_names_of_the_core(folder: Path) -> None:
    for path in sources(folder):
        for module, name in imports(path):
            if module == "dpkit_core":
                assert name in dpkit_core.__all__, f"{path}: dpkit_core.{name} is not public"
            elif module.startswith("dpkit_core."):
                assert module in PUBLIC_MODULES, f"{path}: {module} is not public"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_plugins_declare_what_they_import(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    distributions = (dependency.partition(">=")[0] for dependency in project["dependencies"])
    declared = {IMPORTED_AS.get(name, name.replace("-", "_")) for name in distributions}
    own = {path.name for path in folder.glob("dpkit_*")}
    known = {*sys.stdlib_module_names, *own, *(declared - {"dpkit"}), "dpkit_core"}
    used = {module.partition(".")[0] for path in sources(folder) for module, _ in imports(path)}
    assert used <= known
    assert declared - {"dpkit"} <= used, "declared but never imported"


@pytest.mark.parametrize(
    "path", [*CORE, *(path for folder in FOLDERS for path in sources(folder))], ids=lambda path: path.stem
)
def test_no_source_imports_a_library_that_takes_seconds(path: Path) -> None:
    for module, name in imports(path):
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
