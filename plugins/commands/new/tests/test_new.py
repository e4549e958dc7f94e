"""What ``dpkit new`` writes is correct, complete, and of the shape of the plugins that come with dpkit.

That it also keeps its promises, installs, lists, composes and passes its own tests elsewhere is for
``test_wheels.py``.
"""

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from arguments import assert_argued
from dpkit_cli.app import app
from dpkit_command_new.checkout import register
from dpkit_command_new.leftovers import leftovers
from dpkit_command_new.scaffold import Blueprint, write
from typer.testing import CliRunner

from dpkit_core.plugins.kinds import PARTS, kind_named
from dpkit_core.plugins.registry import Registry

ROOT = Path(__file__).parents[4]
FOLDERS = sorted(path for path in ROOT.glob("plugins/*/*") if path.is_dir())
ROLES = [*PARTS]
EVERY = [*ROLES, "source", "command"]
# Long, with every kind of character, so that lines and classes show what they do.
BLUEPRINTS = {role: Blueprint(role, f"long_{role}_name_2") for role in EVERY}

each_role = pytest.mark.parametrize("role", ROLES)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one new distribution of each kind."""
    folder = tmp_path_factory.mktemp("made")
    for role in EVERY:
        write(BLUEPRINTS[role], folder / role)
    return folder


@pytest.fixture
def part(role: str, made: Path, monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The new part, imported from where it was written."""
    blueprint = BLUEPRINTS[role]
    monkeypatch.syspath_prepend(made / role)
    cls: type[Any] = getattr(importlib.import_module(blueprint.package), blueprint.class_name)
    return cls


def new(*arguments: object, cwd: Path) -> Any:
    before = Path.cwd()
    os.chdir(cwd)
    try:
        return CliRunner().invoke(app, ["new", *map(str, arguments)])
    finally:
        os.chdir(before)


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


# What is written


def test_what_new_says_fits_a_terminal(tmp_path: Path) -> None:
    printed = new("scorer", "mutual_information", cwd=tmp_path).stdout
    assert "What you publish" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_new_code_is_formatted_and_clean_by_the_rules_of_this_repository(made: Path) -> None:
    config = ("--config", ROOT / "pyproject.toml")
    ruff = Path(sys.executable).with_name("ruff")
    ignores = ("--extend-per-file-ignores", "test_*.py:D,long_command_*.py:PLC0415")
    for command in (
        (ruff, "check", *config, *ignores, made),
        (ruff, "format", "--check", *config, made),
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow  # mypy reads numpy first
def test_new_code_and_its_tests_are_completely_typed(made: Path) -> None:
    paths = os.pathsep.join(str(made / role) for role in EVERY)
    sources = [*made.glob("*/dpkit_*"), *made.glob("*/tests/test_*.py")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml", *sources],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_role
def test_a_new_part_says_where_it_is_argued_and_whose_it_is(role: str, part: type[Any]) -> None:
    assert_argued(part)


@each_role
def test_a_new_distribution_has_the_standard_shape(role: str, made: Path) -> None:
    document = tomllib.loads((made / role / "pyproject.toml").read_text(encoding="utf-8"))
    root = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, blueprint = document["project"], BLUEPRINTS[role]
    assert project["name"] == f"dpkit-{role}-long-{role}-name-2"
    assert project["requires-python"] == root["project"]["requires-python"]
    target = f"dpkit_{role}_long_{role}_name_2:Long{role.capitalize()}Name2{role.capitalize()}"
    assert project["entry-points"] == {f"dpkit.{role}s": {blueprint.name: target}}
    assert document["dependency-groups"] == {"dev": ["dpkit[testing]"]}
    plugin = tomllib.loads((FOLDERS[0] / "pyproject.toml").read_text(encoding="utf-8"))
    for table in ("build-system", "tool"):
        assert document[table] == plugin[table]
    # The same floors as everywhere else in the repository.
    known = {*root["project"]["dependencies"], "dpkit>=0.1"}
    assert set(project["dependencies"]) <= known


@pytest.mark.parametrize(
    "folder",
    [folder for folder in FOLDERS if folder.parent.name[:-1] in PARTS],
    ids=lambda folder: folder.name,
)
def test_the_plugins_of_this_repository_have_the_files_of_a_new_one(folder: Path) -> None:
    tracked = files(folder)
    expected = set(Blueprint(kind_named(folder.parent.name).name, folder.name).files())
    assert {path for path in expected if not path.startswith("tests/")} <= tracked
    assert any(path.startswith("tests/test_") and path.endswith(".py") for path in tracked)


# Where it is written


def test_elsewhere_it_stands_alone_and_says_what_to_do_next(tmp_path: Path) -> None:
    done = new("scorer", "own", cwd=tmp_path)
    assert done.exit_code == 0, done.output
    assert {path.name for path in tmp_path.iterdir()} == {"dpkit-scorer-own"}  # nothing temporary is left
    assert "pip install -e dpkit-scorer-own pytest hypothesis\n" in done.output
    assert "dpkit check own\n" in done.output
    assert files(tmp_path / "dpkit-scorer-own") == {
        "pyproject.toml",
        "README.md",
        "dpkit_scorer_own/__init__.py",
        "dpkit_scorer_own/own.py",
        "dpkit_scorer_own/py.typed",
        "tests/test_own.py",
        "LICENSE",
        ".gitignore",
        ".github/workflows/test.yml",
        ".github/workflows/publish.yml",
    }
    project = tomllib.loads((tmp_path / "dpkit-scorer-own/pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE"]
    assert "Typing :: Typed" in project["classifiers"]
    assert set(project["urls"]) == {"Source", "Issues"}
    assert project["entry-points"] == {"dpkit.scorers": {"own": "dpkit_scorer_own:OwnScorer"}}
    workflow = (tmp_path / "dpkit-scorer-own/.github/workflows/test.yml").read_text()
    assert "${{ matrix.python-version }}" in workflow
    assert "dpkit check own --kind scorer" in workflow


@pytest.mark.parametrize(
    ("there", "install", "wheel"),
    [
        ({"uv"}, "  uv pip install -e", "  uv build --wheel -o dist"),
        (set(), "  python -m pip install -e", "  python -m pip wheel --no-deps -w dist"),
        ({"pip", "uv"}, "  python -m pip install -e", "  python -m pip wheel --no-deps -w dist"),
    ],
)
def test_what_to_do_next_is_said_in_terms_of_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: set[str], install: str, wheel: str
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name: (there & {"pip"} or None) if name == "pip" else found(name),
    )
    monkeypatch.setattr("shutil.which", lambda name: "/bin/uv" if "uv" in there else None)
    printed = new("scorer", "own", cwd=tmp_path).output.splitlines()
    assert f"{install} dpkit-scorer-own pytest hypothesis" in printed
    assert f"{wheel} dpkit-scorer-own" in printed


def test_the_license_of_a_new_distribution_is_that_of_this_repository(tmp_path: Path) -> None:
    write(Blueprint("scorer", "own"), tmp_path / "own", alone=True)
    assert (tmp_path / "own/LICENSE").read_text() == (ROOT / "LICENSE").read_text()


# What is left of it


def installed(folder: Path, blueprint: Blueprint, monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """Return the part of a folder as if it had been installed from there."""
    announce(folder, blueprint, monkeypatch)
    cls: type[Any] = getattr(importlib.import_module(blueprint.package), blueprint.class_name)
    return cls


def announce(folder: Path, blueprint: Blueprint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a folder on the path, with metadata as if it had been installed from there."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{blueprint.package}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: 0.1.0\nSummary: {project['description']}\n"
        + "".join(f"Project-URL: {name}, {url}\n" for name, url in project["urls"].items())
        + "\n"
        + (folder / "README.md").read_text()
    )
    entry = f"{blueprint.name} = {blueprint.target}"
    (info / "entry_points.txt").write_text(f"[dpkit.{blueprint.kind}]\n{entry}\n")
    monkeypatch.syspath_prepend(folder)


@each_role
def test_a_new_part_has_no_stale_text(role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blueprint = Blueprint(role, f"fresh_{role}")
    write(blueprint, tmp_path / "fresh", alone=True)
    assert leftovers(installed(tmp_path / "fresh", blueprint, monkeypatch)) == []


@each_role
def test_text_that_stays_when_the_code_changes_is_noticed(
    role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blueprint, folder = Blueprint(role, f"stale_{role}"), tmp_path / "stale"
    write(blueprint, folder, alone=True)
    module = folder / blueprint.package / f"{blueprint.name}.py"
    module.write_text(module.read_text() + "\nCHANGED = True\n")
    found = leftovers(installed(folder, blueprint, monkeypatch))
    for number, what in enumerate(("the description", "the docstring", "a paragraph", "an address")):
        assert found[number].startswith(what)


def test_what_the_author_has_rewritten_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blueprint, folder = Blueprint("scorer", "rewritten"), tmp_path / "own"
    write(blueprint, folder, alone=True)
    module, pyproject = folder / blueprint.package / "rewritten.py", folder / "pyproject.toml"
    changed = (
        module.read_text().replace('    """Scores', '    """Chatterjee\'s xi: scores') + "\nCHANGED = True\n"
    )
    module.write_text(changed)
    text = pyproject.read_text().replace(blueprint.summary, "Chatterjee's xi")
    pyproject.write_text(text.replace("https://example.com", "https://xi.example"))
    readme = (folder / "README.md").read_text().split("\n\n")
    commands = [text for text in readme if text.startswith(("    ", "`dpkit"))]
    (folder / "README.md").write_text("\n\n".join(["# Chatterjee's xi", *commands]))
    assert leftovers(installed(folder, blueprint, monkeypatch)) == []


@pytest.mark.parametrize("name", ["kendall", "correlation"])
def test_the_parts_of_this_repository_have_no_leftovers(name: str) -> None:
    registry = Registry()
    assert leftovers(registry.load(registry.find("scorer", name))) == []


def test_it_goes_where_it_is_told(tmp_path: Path) -> None:
    done = new("selectors", "own", "--directory", "deep/down", cwd=tmp_path)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "deep/down/dpkit_selector_own/own.py").is_file()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What of this repository ``dpkit new`` reads and writes."""
    for path in (ROOT / "pyproject.toml", ROOT / "README.md", *ROOT.glob("plugins/*/*/pyproject.toml")):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


@pytest.mark.parametrize("start", [".", "plugins", "plugins/scorers"])
def test_in_a_checkout_it_joins_the_plugins(checkout: Path, start: str) -> None:
    before = files(checkout)
    done = new("accountant", "my_own", cwd=checkout / start)
    assert done.exit_code == 0, done.output
    assert "uv run dpkit check my_own\n" in done.output
    written = files(checkout) - before
    assert {path.rpartition("my_own/")[0] for path in written} >= {"plugins/accountants/"}
    assert all(path.startswith("plugins/accountants/my_own/") for path in written)


def test_in_a_checkout_it_is_registered_in_order(checkout: Path) -> None:
    assert new("accountant", "my_own", cwd=checkout).exit_code == 0
    lines = {name: (checkout / name).read_text().splitlines() for name in ("pyproject.toml", "README.md")}
    added = {
        name: {
            number: line
            for number, line in enumerate(text)
            if line not in (ROOT / name).read_text().splitlines()
        }
        for name, text in lines.items()
    }
    pyproject, readme = added["pyproject.toml"], added["README.md"]
    assert list(pyproject.values()) == [
        '    "dpkit-accountant-my-own",',
        "dpkit-accountant-my-own = { workspace = true }",
    ]
    assert list(readme.values()) == ["| accountant | `my_own` | Sums of the epsilons of pure events |"]
    for name, found in added.items():
        for number in found:  # between an accountant and another one or a regressor
            assert "accountant" in lines[name][number - 1]
            assert "accountant" in lines[name][number + 1] or "regressor" in lines[name][number + 1]
        kept = [line for number, line in enumerate(lines[name]) if number not in found]
        assert kept == (ROOT / name).read_text().splitlines()
    assert register(checkout) == []


def test_what_was_forgotten_is_registered_later(checkout: Path) -> None:
    shutil.rmtree(checkout / "plugins/selectors/peel")
    write(Blueprint("scorer", "own"), checkout / "plugins/scorers/own")
    assert register(checkout) == [checkout / "pyproject.toml", checkout / "README.md"]
    for name in ("pyproject.toml", "README.md"):
        text = (checkout / name).read_text()
        assert "own" in text
        assert "selector-peel" not in text
        assert "| `peel` |" not in text


def test_a_checkout_without_a_place_for_it_is_left_alone(checkout: Path) -> None:
    (checkout / "README.md").write_text("# dpkit\n")
    before = files(checkout)
    done = new("scorer", "own", cwd=checkout)
    assert done.exit_code == 2
    assert "README.md lacks the place for plugins" in done.output
    assert files(checkout) == before


def test_a_distribution_that_cannot_be_completed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path.write_text

    def fail_late(path: Path, *arguments: Any, **options: Any) -> int:
        if path.name == "py.typed":
            raise OSError(28, "No space left on device")
        return text(path, *arguments, **options)

    monkeypatch.setattr(Path, "write_text", fail_late)
    done = new("scorer", "own", cwd=tmp_path)
    assert done.exit_code == 2
    assert "No space left" in done.output
    assert not list(tmp_path.iterdir())


# What is refused


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("scorer", "Covariance", "cannot name a scorer; use lower-case letters"),
        ("scorer", "2nd", "starting with a letter"),
        ("scorer", "mutual-information", "single underscores between words"),
        ("scorer", "double__score", "single underscores"),
        ("scorer", "trailing_", "single underscores"),
        ("scorer", "../up", "cannot name a scorer"),
        ("scorer", "", "cannot name a scorer"),
        ("selector", "lambda", "is a Python keyword"),
        ("scorer", "kendall", "is installed already"),
        ("command", "report", "is installed already"),
        ("ranker", "own", "no kind 'ranker'"),
    ],
)
def test_impossible_names_are_refused(tmp_path: Path, kind: str, name: str, words: str) -> None:
    done = new(kind, name, cwd=tmp_path)
    assert done.exit_code == 2
    assert words in done.output
    assert not list(tmp_path.iterdir())


def test_names_of_another_kind_are_free(tmp_path: Path) -> None:
    assert new("selector", "kendall", cwd=tmp_path).exit_code == 0


def test_first_party_names_are_taken_where_the_part_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpkit_core.plugins.registry.Registry.refs", lambda self, kind=None: ())
    done = new("scorer", "kendall", cwd=tmp_path)
    assert done.exit_code == 2
    assert "scorer 'kendall' comes with dpkit" in done.output


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    (tmp_path / "dpkit-scorer-own").mkdir()
    done = new("scorer", "own", cwd=tmp_path)
    assert done.exit_code == 2
    assert "dpkit-scorer-own exists; choose another name or --directory" in done.output
    assert not list((tmp_path / "dpkit-scorer-own").iterdir())


# Sources


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a new distribution of a source."""
    folder = tmp_path_factory.mktemp("source") / "bars"
    write(Blueprint("source", "bars"), folder)
    return folder


def run_python(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_new_source_is_named_by_the_end_of_its_files(source: Path) -> None:
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "dpkit-source-bars"
    assert project["entry-points"] == {"dpkit.sources": {".bars": "dpkit_source_bars:open_bars"}}


@pytest.mark.slow
def test_a_new_source_passes_its_own_tests_and_the_kits_attack(source: Path) -> None:
    assert "4 passed" in run_python("pytest", "-q", "-p", "no:cacheprovider", folder=source)


def test_new_says_of_a_source_what_there_is_to_do_and_of_another_word_what_there_is(tmp_path: Path) -> None:
    printed = new("source", "bars", cwd=tmp_path).stdout
    assert "run its tests" in printed
    assert "dpkit check" not in printed
    assert "is installed already" in new("source", "csv", cwd=tmp_path).output
    assert "accountant, source, command" in new("flavor", "bars", cwd=tmp_path).output


# Commands


@pytest.fixture(params=["dear", "json"])  # the second like a module that it imports
def added(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a new command, which counts as installed."""
    blueprint, folder = Blueprint("command", request.param), tmp_path / request.param
    write(blueprint, folder, alone=True)
    announce(folder, blueprint, monkeypatch)
    return folder


def test_a_new_command_is_listed_with_its_sentence(added: Path) -> None:
    printed = CliRunner().invoke(app, ["list", "commands"]).stdout
    assert "List the RELEASES that spent more than an epsilon" in printed


@pytest.mark.slow
def test_a_new_command_passes_its_own_tests(added: Path) -> None:
    assert "3 passed" in run_python("pytest", "-q", "-p", "no:cacheprovider", folder=added)


def test_in_a_checkout_a_command_joins_the_others(checkout: Path) -> None:
    done = new("command", "dear", cwd=checkout)
    assert done.exit_code == 0, done.output
    assert "Then turn it into your command." in done.output
    assert "dpkit check" not in done.output
    assert (checkout / "plugins/commands/dear/dpkit_command_dear/dear.py").is_file()
    assert '"dpkit-command-dear",' in (checkout / "pyproject.toml").read_text()


def test_the_names_of_dpkits_commands_are_taken_where_they_are_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpkit_command_new.scaffold.resources", lambda kind: ())
    assert "command 'plot' comes with dpkit" in new("command", "plot", cwd=tmp_path).output
