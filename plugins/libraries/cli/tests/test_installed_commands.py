"""Commands of other distributions: listed without an import, isolated, never in the way of dpkit's own."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from dpkit_cli.installed import OWN

ROOT = Path(__file__).parents[4]
FOLDERS = [ROOT / "plugins/libraries/cli", *sorted(ROOT.glob("plugins/commands/*"))]

GREETING = '''
"""Greets."""
import typer
from dpkit_core.errors import InvalidOption

print("imported")

def greet(name: str, loud: bool = False):
    """Say hello to NAME. Loudly, if asked.

    There is more to say.
    """
    if name == "nobody":
        raise InvalidOption("there is nobody to greet; give a name")
    if name == "zero":
        1 / 0
    print(f"hello {name.upper() if loud else name}")
'''

APP = '''
import typer

app = typer.Typer(help="Keep a diary of releases. It is a file.")

@app.command()
def show(page: int = 1):
    """Show a page."""
    print(f"page {page}")

class Table:
    pass

def odd(table: Table):
    """Take what no command line can give."""
'''


@pytest.fixture
def install(site):
    def install(name, distribution="dpkit-greeting", target="greeting:greet", **modules):
        site.install(
            distribution,
            version="2.0",
            summary="Greetings for all",
            entry_points={"dpkit.commands": {name: target}},
            modules=modules or {"greeting": GREETING},
        )

    return install


def test_a_function_becomes_a_command(install, dpkit):
    install("greet")
    assert dpkit("greet", "you", "--loud").stdout == "hello YOU\n"
    assert "There is more to say." in dpkit("greet", "--help").stdout


def test_a_typer_app_becomes_a_group_of_commands(install, dpkit):
    install("diary", target="diary:app", diary=APP)
    assert dpkit("diary", "show", "--page", "3").stdout == "page 3\n"


def test_help_and_list_have_the_sentence_of_a_command_and_import_nothing(install, dpkit):
    install("greet")
    install("diary", distribution="dpkit-diary", target="diary:app", diary=APP)
    install("broken", distribution="dpkit-broken", target="broken:run", broken="def run(:")
    shown = dpkit("--help").stdout
    for sentence in ("Say hello to NAME.", "Keep a diary of releases.", "Greetings for all."):
        assert sentence in shown
    assert "Loudly" not in shown
    rows = json.loads(dpkit("list", "commands", "--format", "json").stdout)
    summaries = {row["name"]: row["summary"] for row in rows}
    assert summaries["greet"] == "Say hello to NAME"
    assert summaries["diary"] == "Keep a diary of releases"
    assert summaries["broken"] == "Greetings for all"  # its source cannot be read: what the distribution says
    assert not {"greeting", "diary", "broken"} & set(sys.modules)


def test_what_is_printed_while_a_command_is_imported_stays_out_of_its_output(install, dpkit):
    install("greet")
    result = dpkit("greet", "you")
    assert (result.stdout, result.stderr) == ("hello you\n", "imported\n")


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("import a_library_that_nobody_has", "bad:run", "is installed but failed while importing bad"),
        ("raise SystemExit(0)", "bad:run", "SystemExit: 0"),
        ("x = 1", "bad:run", "failed while looking up run in bad"),
        ("run = 3", "bad:run", "must point to a function or a typer.Typer"),
        (APP, "bad:odd", "cannot become a command"),
        ("import typer\napp = typer.Typer()", "bad:app", ""),
    ],
)
def test_a_broken_command_breaks_only_itself(source, target, words, install, dpkit):
    install("bad", distribution="dpkit-bad", target=target, bad=source)
    install("greet")
    result = dpkit("bad")
    assert result.exit_code == 2
    assert words in result.stderr
    if words:
        assert "command 'bad' (dpkit-bad 2.0)" in result.stderr
    assert "Traceback" not in result.stderr
    assert dpkit("--help").exit_code == 0
    assert dpkit("greet", "you").stdout == "hello you\n"


def test_errors_of_a_command_are_reported_like_those_of_dpkit(install, dpkit):
    install("greet")
    result = dpkit("greet", "nobody")
    assert result.exit_code == 2
    assert result.stderr.endswith("dpkit: there is nobody to greet; give a name\n")
    result = dpkit("greet", "zero")
    assert result.exit_code == 1
    assert "command 'greet' (dpkit-greeting 2.0) (ZeroDivisionError: division by zero)" in result.stderr
    assert "This is a bug in dpkit-greeting" in result.stderr


def test_two_distributions_with_one_name_are_both_called_by_their_own(install, dpkit):
    install("greet")
    install("greet", distribution="dpkit-other", target="other:greet", other=GREETING.replace("hello", "bye"))
    result = dpkit("greet", "you")
    assert result.exit_code == 2
    assert "dpkit-greeting:greet (2.0, " in result.stderr
    assert "dpkit-other:greet (2.0, " in result.stderr
    assert dpkit("dpkit-other:greet", "you").stdout == "bye you\n"
    shown = dpkit("--help").stdout
    assert "dpkit-greeting:greet" in shown
    assert "dpkit-other:greet" in shown


def test_a_command_of_dpkit_cannot_be_replaced(install, dpkit):
    install("run")
    assert "Run a saved PLAN" in dpkit("run", "--help").stdout
    assert "greeting" not in sys.modules
    assert "dpkit-greeting:run" in dpkit("--help").stdout
    assert dpkit("dpkit-greeting:run", "you").stdout == "hello you\n"


@pytest.mark.parametrize("installed", [True, False])
def test_a_command_in_a_distribution_of_dpkit_cannot_be_replaced(installed, install, dpkit, without):
    install("doctor")
    if not installed:
        without("dpkit-command-doctor")
    shown = dpkit("doctor", "--help")
    assert ("Load each installed part" if installed else "CLONE[starter]") in shown.output
    assert "greeting" not in sys.modules
    assert "dpkit-greeting:doctor" in dpkit("--help").stdout
    assert dpkit("dpkit-greeting:doctor", "you").stdout == "hello you\n"


def test_help_lists_commands_in_the_order_of_the_work_and_those_of_others_last(install, dpkit):
    install("greet")
    shown = dpkit("--help").stdout
    named = [line.split()[0] for line in shown.partition("Commands")[2].splitlines() if line[2:3].isalpha()]
    first = ["list", "show", "schema", "compose", "run", "predict", "evaluate", "verify"]
    assert named == [*first, *(name for name in OWN if name not in first), "greet"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_each_distribution_of_commands_is_known_where_it_is_missing(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in project["entry-points"]["dpkit.commands"]:
        distribution, extra = OWN[name]
        assert distribution == project["name"]
        assert distribution in extras[extra]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("compoze", "there is no command 'compoze'. Did you mean 'compose'?"),
        ("gret", "Did you mean 'greet'?"),
        ("xyzzy", "`dpkit --help` lists the installed commands"),
    ],
)
def test_a_command_that_nobody_has_is_wrong_use(typed, words, install, dpkit):
    install("greet")
    result = dpkit(typed)
    assert result.exit_code == 2
    assert words in result.stderr


@pytest.mark.parametrize(("typed", "guess"), [("bench", ""), ("plto", " Did you mean 'plot'?")])
def test_a_command_of_an_extra_says_what_to_install(typed, guess, dpkit, without):
    without("dpkit-command-bench")
    result = dpkit(typed, "suite.toml")
    assert result.exit_code == 2
    meant = "plot" if guess else typed
    assert (
        f"no command {typed!r}.{guess} Install {meant!r} with: uv pip install 'CLONE[bench]'" in result.stderr
    )
    assert "bench" not in dpkit("--help").stdout


def complete(site, *words, shell="bash"):
    code = "from dpkit_cli import main; import sys; sys.argv[0] = 'dpkit'; main()"
    environment = {
        "PYTHONPATH": str(site.folder),
        "_DPKIT_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_ARGS": " ".join(["dpkit", *words]),
        "COMP_WORDS": " ".join(["dpkit", *words]),
        "COMP_CWORD": str(len(words)),
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_shell_completes_commands_and_their_options(install, site):
    install("greet")
    install("bad", distribution="dpkit-bad", target="bad:run", bad="raise SystemExit(3)")
    done = complete(site, "gr")
    assert done.stdout.split() == ["greet"]
    assert "imported" not in done.stderr
    assert "--loud" in complete(site, "greet", "--l").stdout
    (line,) = complete(site, "comp", shell="fish").stdout.splitlines()  # fish offers each line
    assert line.startswith("compose\tCompose parts")
    broken = complete(site, "bad", "--l")
    assert "Traceback" not in broken.stderr
