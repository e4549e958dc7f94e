"""Each plugin works from its wheel alone, beside the core's, in a plain virtual environment."""

import json
import shutil
import subprocess
import venv
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpkit_core.plugins.kinds import PARTS, kind_named

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())

ROLES = [*PARTS]


def command(*words: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel for the core and for each plugin."""
    folder = tmp_path_factory.mktemp("wheels")
    command("uv", "build", "-q", "--wheel", "--all-packages", "--out-dir", folder, cwd=ROOT)
    assert len(list(folder.glob("*.whl"))) == 1 + len(FOLDERS)
    return folder


def by_uv(scripts: Path) -> tuple[str | Path, ...]:
    return ("uv", "pip", "install", "--python", scripts / "python")


def install(folder: Path, wheels: Path, *names: str, extras: tuple[str, ...] = ()) -> Path:
    """Return the scripts of a new virtual environment with the wheels of these distributions.

    The core's dependencies come first, then the wheels and whatever they need beyond. By uv, since pip takes
    a minute for all of them; pip installs distributions on the pages for authors, see tests/docs.
    """
    venv.create(folder)
    wanted = [word for extra in extras for word in ("--extra", extra)]
    command(*by_uv(folder / "bin"), "-q", "-r", ROOT / "pyproject.toml", *wanted)
    chosen = [wheel for name in names for wheel in wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")]
    assert len(chosen) == len(names)
    command(*by_uv(folder / "bin"), "-q", "--find-links", wheels, *chosen)
    return folder / "bin"


def listed(scripts: Path) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = json.loads(command(scripts / "dpkit", "list", "--format", "json"))
    return parts


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(
            folder,
            id=folder.name,
            # In CI one that needs several others; all are installed together by the test below.
            marks=pytest.mark.slow if folder.name == "boosted_trees" else pytest.mark.exhaustive,
        )
        for folder in FOLDERS
        if folder.parent.name[:-1] in PARTS
    ],
)
def test_a_plugin_installs_alone_and_loads(folder: Path, wheels: Path, tmp_path: Path) -> None:
    role = kind_named(folder.parent.name).name
    distribution = f"dpkit-{role}-{folder.name}".replace("_", "-")
    scripts = install(tmp_path, wheels, "dpkit", "dpkit-command-show", distribution)
    assert [part["distribution"] for part in listed(scripts)] == [distribution]
    assert folder.name in command(scripts / "dpkit", "show", role, folder.name)
    other = "peel" if folder.name != "peel" else "joint"
    missing = subprocess.run(
        [scripts / "dpkit", "show", "selector", other], capture_output=True, text=True, check=False
    )
    assert f"'CLONE/plugins/selectors/{other}'" in " ".join(
        missing.stderr.split()
    )  # known from the metadata of the core's wheel


@pytest.mark.slow
def test_a_wheel_holds_every_file_of_its_package(wheels: Path) -> None:
    for package in ROOT.glob("plugins/*/*/dpkit_*"):
        files = {
            path.relative_to(package.parent).as_posix()
            for path in package.rglob("*")
            if path.is_file() and path.suffix not in {".pyc", ".so", ".dll", ".dylib"}
        }
        (wheel,) = wheels.glob(f"{package.name}-[0-9]*.whl")
        assert files <= {*zipfile.ZipFile(wheel).namelist()}, package.name


@pytest.mark.slow
def test_the_command_of_an_extra_comes_with_it(wheels: Path, tmp_path: Path) -> None:
    scripts = install(tmp_path, wheels, "dpkit", "dpkit-command-bench")
    document = json.loads(command(scripts / "dpkit", "list", "commands", "--format", "json"))
    rows = [row["qualified"] for row in document if row["distribution"] != "dpkit-cli"]
    assert rows == ["dpkit-command-bench:bench", "dpkit-command-bench:plot"]
    assert "SUITE" in command(scripts / "dpkit", "bench", "--help")


@pytest.mark.slow
def test_all_wheels_together_make_a_release(wheels: Path, tmp_path: Path) -> None:
    names = {wheel.name.split("-")[0] for wheel in wheels.glob("*.whl")}
    # Spark is 400 MB, built from source: `.ci/run spark` installs it.
    scripts = install(tmp_path / "venv", wheels, *(names - {"dpkit_engine_spark"}))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    np.savez(tmp_path / "table.npz", X=X, y=X @ [3.0, 0.0, 2.0, 0.0] + rng.normal(size=20_000))
    printed = command(
        *(
            scripts / "dpkit",
            "compose",
            "table.npz",
            "--target",
            "y",
            "--scorer",
            "kendall",
            "--selector",
            "peel",
        ),
        *("-k", 2, "--regressor", "tukey", "--epsilon", 1, "--delta", 1e-6, "--format", "json"),
        cwd=tmp_path,
    )
    release = json.loads(printed)
    # The two other features are noise; at this size a wrong pick has probability below 1e-6.
    assert sorted(release["selected"]) == ["x1", "x3"]
    assert release["certificate"]["private"] is True


# What ``dpkit new`` writes


@pytest.fixture(scope="module")
def published(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of a new distribution of each kind, and the scripts where their wheels are installed."""
    folder = tmp_path_factory.mktemp("new")
    scripts = install(folder / "venv", wheels, "dpkit", "dpkit-command-verify", extras=("testing",))
    for role in ROLES:
        command(scripts / "dpkit", "new", role, "own", cwd=folder)
        command("uv", "build", "--wheel", "--out-dir", folder / "dist", folder / f"dpkit-{role}-own")
    # And what reads the table that they are tried on.
    made = [*sorted((folder / "dist").glob("*.whl")), *wheels.glob("dpkit_source_npz-*.whl")]
    command(*by_uv(scripts), "-q", *made)
    return folder, scripts


@pytest.mark.slow
def test_new_parts_install_from_their_wheels_and_are_listed(published: tuple[Path, Path]) -> None:
    _, scripts = published
    found = [(part["kind"], part["name"], part["distribution"]) for part in listed(scripts)]
    assert found == [(f"{role}s", "own", f"dpkit-{role}-own") for role in ROLES]


@pytest.mark.slow
def test_the_tests_of_new_parts_pass_on_their_wheels(published: tuple[Path, Path], tmp_path: Path) -> None:
    folder, scripts = published
    for role in ROLES:
        shutil.copytree(folder / f"dpkit-{role}-own/tests", tmp_path / role)
    # The kit, which tries one kind here, tries the others on the pages that publish them: see tests/docs.
    left = [
        word
        for role in ROLES
        if role != "accountant"
        for word in ("--deselect", f"{role}/test_own.py::test_conforms")
    ]
    printed = command(
        *(
            scripts / "python",
            "-W",
            "error",
            "-m",
            "pytest",
            "-q",
            "--import-mode=importlib",
            "--rootdir",
            tmp_path,
        ),
        *(*left, *ROLES),
        cwd=tmp_path,
    )
    assert " passed" in printed


@pytest.mark.slow
def test_new_parts_make_a_release(published: tuple[Path, Path], tmp_path: Path) -> None:
    _, scripts = published
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(5000, 4))
    np.savez(tmp_path / "table.npz", X=X, y=X @ [1.0, 0.0, -1.0, 0.0])
    columns = [f"[columns.{name}]\nlower = -1\nupper = 1\n" for name in ("x1", "x2", "x3", "x4")]
    facts = 'target = "y"\n' + "".join(columns) + "[columns.y]\nlower = -2\nupper = 2\n"
    (tmp_path / "table.schema.toml").write_text(facts)
    parts = [word for role in ROLES for word in (f"--{role}", "own")]
    printed = command(
        *(scripts / "dpkit", "compose", "table.npz", *parts),
        *("-k", 2, "--epsilon", 4, "--delta", 0, "--select-share", 0.2, "--format", "json"),
        cwd=tmp_path,
    )
    release = json.loads(printed)
    # Scores of about 830 and 0, noise of scale 5: a wrong pick has probability below 1e-60.
    assert sorted(release["selected"]) == ["x1", "x3"]
    # Noise of scale below 3 on sums of about 1700: an error of 0.1 has probability below 1e-20.
    assert release["model"]["coefficients"]["x1"] == pytest.approx(1, abs=0.1)
    assert release["certificate"]["private"] is True
    assert "\nconfirmed\n" in command(scripts / "dpkit", "verify", "release.json", cwd=tmp_path)
