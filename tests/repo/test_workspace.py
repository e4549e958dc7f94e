"""Every plugin folder looks like what a third party would publish, and the root knows each of them."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())
KINDS = {"accountants", "regressors", "scorers", "selectors"}


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def root() -> dict[str, Any]:
    return read(ROOT / "pyproject.toml")


def singular(folder: Path) -> str:
    return folder.parent.name.removesuffix("s")


def distribution(folder: Path) -> str:
    return f"dpkit-{singular(folder)}-{folder.name}".replace("_", "-")


def package(folder: Path) -> str:
    return f"dpkit_{singular(folder)}_{folder.name}"


each_plugin = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


def test_there_is_one_folder_for_each_kind() -> None:
    assert {folder.parent.name for folder in FOLDERS} == KINDS


@each_plugin
def test_pyproject_has_the_standard_shape(folder: Path, root: dict[str, Any]) -> None:
    document = read(folder / "pyproject.toml")
    project = document["project"]
    free = {key: project.pop(key) for key in ("description", "dependencies")}
    project.pop("optional-dependencies", None)
    (target,) = project["entry-points"][f"dpkit.{folder.parent.name}"].values()
    for group in ("dpkit.recipes", "dpkit.suites"):  # experiments that ship with the part
        assert all(
            value.startswith(f"{package(folder)}.")
            for value in project["entry-points"].pop(group, {}).values()
        )

    assert document == {
        "build-system": root["build-system"],
        "project": {
            "name": distribution(folder),
            "version": root["project"]["version"],
            "readme": "README.md",
            "requires-python": root["project"]["requires-python"],
            "license": root["project"]["license"],
            "entry-points": {f"dpkit.{folder.parent.name}": {folder.name: target}},
        },
        "dependency-groups": {"dev": ["dpkit[testing]"]},
        "tool": {"hatch": {"build": {"targets": {"wheel": {"packages": [package(folder)]}}}}},
    }
    assert target.partition(":")[0] == package(folder)
    assert free["description"]
    assert free["dependencies"][0] == "dpkit>=0.1"


@each_plugin
def test_dependencies_have_a_floor_and_no_cap(folder: Path) -> None:
    for dependency in read(folder / "pyproject.toml")["project"]["dependencies"]:
        assert re.fullmatch(r"[a-z-]+>=[0-9.]+", dependency), dependency


@each_plugin
def test_folder_holds_one_package_a_readme_and_tests(folder: Path) -> None:
    source = folder / package(folder)
    assert (source / "__init__.py").is_file()
    assert (source / "py.typed").is_file()
    assert sorted(folder.glob("tests/test_*.py")), "no tests"
    assert [path.name for path in folder.glob("dpkit_*")] == [source.name]
    assert (folder / "README.md").read_text(encoding="utf-8").startswith(f"# {distribution(folder)}\n")


def test_the_root_lists_exactly_the_plugins_that_exist(root: dict[str, Any]) -> None:
    plugins = {distribution(folder) for folder in FOLDERS}
    starter = set(root["project"]["optional-dependencies"]["starter"])
    sources = root["tool"]["uv"]["sources"]
    assert starter == {"dpkit[tables]", *plugins}
    assert sources == {name: {"workspace": True} for name in {"dpkit", *plugins}}
    assert root["tool"]["importlinter"]["root_packages"] == ["dpkit_core", *map(package, FOLDERS)]


def test_the_core_has_the_version_of_its_distribution(root: dict[str, Any]) -> None:
    import dpkit_core

    assert dpkit_core.__version__ == root["project"]["version"]


def test_the_changelog_has_an_entry_for_this_version(root: dict[str, Any]) -> None:
    assert f"\n## {root['project']['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_uv_lock_is_not_tracked() -> None:
    command = ["git", "ls-files", "uv.lock"]
    assert subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout == b""
