"""Every plugin folder looks like what a third party would publish, and the root knows each of them."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from dpkit_command_new.checkout import members, registration

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())
KINDS = {
    "accountants",
    "commands",
    "engines",
    "estimators",
    "ledgers",
    "libraries",
    "models",
    "regressors",
    "scorers",
    "selectors",
    "sources",
}
# No entry point announces them.
LIBRARIES = {"estimators", "libraries"}
# uv builds these itself, without an environment for each. A plugin's tests go with its source.
BUILD = {"requires": ["uv_build>=0.9,<1"], "build-backend": "uv_build"}
TOOL = {"uv": {"build-backend": {"module-root": "", "source-include": ["tests/**"]}}}
# What is compiled where there is a compiler, in the wheel alone.
COMPILED = {
    "hatch": {
        "build": {
            "targets": {
                "wheel": {
                    "packages": ["dpkit_kernels"],
                    "exclude": ["_kernels.*"],
                    "hooks": {"custom": {}},
                }
            }
        }
    },
    "uv": {
        "cache-keys": [
            {"file": name} for name in ("pyproject.toml", "hatch_build.py", "dpkit_kernels/kernels.c")
        ]
    },
}
# Announced by no entry point of its kind: what is reached by a command of another name.
REACHED = {"federation"}
# Groups of what a distribution offers besides what it is named for.
SHIPPED_ALONG = {
    "commands",
    "generators",
    "models",
    "pages",
    "recipes",
    "remarks",
    "reports",
    "signers",
    "suites",
}
# The program, and the one library whose next version is known to be worse.
PROGRAM, CAPPED = {"dpkit": "dpkit_cli:main"}, "typer>=0.20,<0.29"
# Imported by name, which does without the kind.
SHORT = {"check", "cli", "fences", "kernels", "sklearn"}


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def root() -> dict[str, Any]:
    return read(ROOT / "pyproject.toml")


def singular(folder: Path) -> str:
    return folder.parent.name.removesuffix("s")


def distribution(folder: Path) -> str:
    if folder.name in SHORT:
        return f"dpkit-{folder.name}"
    return f"dpkit-{singular(folder)}-{folder.name}".replace("_", "-")


def package(folder: Path) -> str:
    return distribution(folder).replace("-", "_")


each_plugin = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def test_there_is_one_folder_for_each_kind() -> None:
    assert {folder.parent.name for folder in FOLDERS} == KINDS


@each_plugin
def test_pyproject_has_the_standard_shape(folder: Path, root: dict[str, Any]) -> None:
    document = read(folder / "pyproject.toml")
    project = document["project"]
    # Other folders than its tests may go with its source, too.
    built = document["tool"]["uv"].get("build-backend", {})
    for path in {*built.get("source-include", ())} - {"tests/**"}:
        assert list(folder.glob(path)), path
        built["source-include"].remove(path)
    # Tests may need libraries that what they test does without, such as a client that writes to a server.
    del document.get("dependency-groups", {}).get("dev", [])[1:]
    free = {key: project.pop(key) for key in ("description", "dependencies")}
    project.pop("optional-dependencies", None)
    points = project.setdefault("entry-points", {})
    for kind in SHIPPED_ALONG - {folder.parent.name}:
        for value in points.pop(f"dpkit.{kind}", {}).values():
            assert value.startswith(f"{package(folder)}.")
    if folder.parent.name in LIBRARIES or folder.name in REACHED:
        assert not points
        points[f"dpkit.{folder.parent.name}"] = {folder.name: package(folder)}
    own = points[f"dpkit.{folder.parent.name}"]
    assert project.pop("scripts", {}) == (PROGRAM if folder.name == "cli" else {})

    expected = {
        "build-system": BUILD,
        "project": {
            "name": distribution(folder),
            "version": root["project"]["version"],
            "readme": "README.md",
            "requires-python": root["project"]["requires-python"],
            "license": root["project"]["license"],
            "entry-points": {f"dpkit.{folder.parent.name}": own},
        },
        "dependency-groups": {"dev": ["dpkit[testing]"]},
        "tool": TOOL,
    }
    if folder.name == "kernels":
        expected |= {"build-system": root["build-system"], "tool": COMPILED}
    where = (folder / "pyproject.toml").relative_to(ROOT)
    for table in {*document, *expected} - {"project"}:
        assert document.get(table) == expected.get(table), f"[{table}] in {where}"
    for key in {*project, *expected["project"]}:
        assert project.get(key) == expected["project"].get(key), f"{key} of [project] in {where}"
    # A source is named by what it reads, suffixes and schemes, a model by its kind; the command of `sign` is
    # `key`.
    if folder.parent.name not in {"models", "sources"} and folder.name != "sign":
        assert folder.name in own
    # The modules of a command load when it runs, and those of a source when it is asked for.
    if folder.parent.name not in {"commands", "sources"}:
        assert {target.partition(":")[0] for target in own.values()} == {package(folder)}
    assert free["description"]
    assert free["dependencies"][0] == "dpkit>=0.1"


@each_plugin
def test_dependencies_have_a_floor_and_no_cap(folder: Path) -> None:
    for dependency in read(folder / "pyproject.toml")["project"]["dependencies"]:
        floor = r"[a-z0-9-]+(\[[a-z]+\])?>=[0-9.]+"
        assert dependency == CAPPED or re.fullmatch(floor, dependency), dependency


@each_plugin
def test_folder_holds_one_package_a_readme_and_tests(folder: Path) -> None:
    source = folder / package(folder)
    for path in (source / "__init__.py", source / "py.typed", folder / "README.md"):
        assert path.is_file(), f"add {path.relative_to(ROOT)}"
    assert sorted(folder.glob("tests/test_*.py")), f"add tests/test_*.py to {folder.relative_to(ROOT)}"
    assert [path.name for path in folder.glob("dpkit_*")] == [source.name]
    head = f"# {distribution(folder)}\n"
    readme = folder / "README.md"
    assert readme.read_text(encoding="utf-8").startswith(head), f"{readme} has to begin with {head!r}"


def test_what_repeats_the_plugins_is_up_to_date() -> None:
    for path, text in registration(ROOT, members(ROOT)).items():
        assert path.read_text(encoding="utf-8") == text, f"run .ci/register, which writes {path.name} anew"


def test_installing_with_starter_installs_every_part(root: dict[str, Any]) -> None:
    extras = root["project"]["optional-dependencies"]
    starter = extras["starter"]
    # What needs too much, or is needed by few, is in an extra of its own.
    others = {name for extra, names in extras.items() if extra != "starter" for name in names}
    assert set(starter) == {*map(distribution, FOLDERS)} - others
    assert starter == sorted(starter)


def test_every_plugin_is_in_an_extra_and_every_extra_is_installed_for_development(
    root: dict[str, Any],
) -> None:
    extras = root["project"]["optional-dependencies"]
    named = {name for names in extras.values() for name in names}
    for name in map(distribution, FOLDERS):
        assert name in named, f"pyproject.toml: put {name} into an extra of [project.optional-dependencies]"
    (line,) = (entry for entry in root["dependency-groups"]["dev"] if str(entry).startswith("dpkit["))
    installed = set(re.split(r"[][,]", line)[1:-1]) | {"tables", "spark"}  # empty; 400 MB
    assert set(extras) == installed, "pyproject.toml: name each extra in [dependency-groups], dev"


def test_the_core_has_the_version_of_its_distribution(root: dict[str, Any]) -> None:
    import dpkit_core

    assert dpkit_core.__version__ == root["project"]["version"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_uv_lock_is_not_tracked() -> None:
    command = ["git", "ls-files", "uv.lock"]
    assert subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout == b""
