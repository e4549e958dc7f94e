"""Each plugin works from its wheel alone, beside the core's, in a plain virtual environment filled by pip."""

import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())

pytestmark = pytest.mark.slow


def command(*words: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel for the core and for each plugin."""
    folder = tmp_path_factory.mktemp("wheels")
    command("uv", "build", "--all-packages", "--wheel", "--out-dir", folder, cwd=ROOT)
    assert len(list(folder.glob("*.whl"))) == 1 + len(FOLDERS)
    return folder


def install(folder: Path, wheels: Path, *names: str) -> Path:
    """Return the scripts of a new virtual environment with the wheels of these distributions.

    pip installs the wheels and whatever they need beyond the core's dependencies. Those come first, by uv,
    which has them in its cache: pip alone took a minute for each environment.
    """
    venv.create(folder, with_pip=True)
    command("uv", "pip", "install", "-q", "--python", folder / "bin/python", "-r", ROOT / "pyproject.toml")
    chosen = [wheel for name in names for wheel in wheels.glob(f"{name.replace('-', '_')}-[0-9]*.whl")]
    assert len(chosen) == len(names)
    command(folder / "bin/python", "-m", "pip", "install", "-q", "--find-links", wheels, *chosen)
    return folder / "bin"


def listed(scripts: Path) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = json.loads(command(scripts / "dpkit", "list", "--format", "json"))
    return parts


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_plugin_installs_alone_and_loads(folder: Path, wheels: Path, tmp_path: Path) -> None:
    role = folder.parent.name.removesuffix("s")
    distribution = f"dpkit-{role}-{folder.name}".replace("_", "-")
    scripts = install(tmp_path, wheels, "dpkit", distribution)
    assert [part["distribution"] for part in listed(scripts)] == [distribution]
    assert folder.name in command(scripts / "dpkit", "show", role, folder.name)


def test_all_wheels_together_make_a_release(wheels: Path, tmp_path: Path) -> None:
    scripts = install(
        tmp_path / "venv", wheels, *(wheel.name.split("-")[0] for wheel in wheels.glob("*.whl"))
    )
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
