"""The bar is for people who wait at a terminal, and for nobody else; help fits where it is read."""

import contextlib
import io
import itertools
import sys
import time

import click
import pytest
import typer.main
from dpkit_cli import render
from dpkit_cli.app import app
from dpkit_cli.installed import Announced
from typer.testing import CliRunner


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def kind_of_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")


def work(seconds, stderr):
    # Not by a fixture: pytest exchanges the streams between set-up and test.
    with contextlib.redirect_stderr(stderr), render.progress() as report:
        report("selection", 0, 2)
        time.sleep(seconds)
        report("selection", 1, 2)
        report("regression", 0, 1)
        report("regression", 1, 1)


def test_a_bar_is_drawn_once_the_work_takes_long(monkeypatch):
    monkeypatch.setattr(render, "_SECONDS_BEFORE_A_BAR", 0.01)
    terminal = Terminal()
    work(0.3, terminal)
    assert "selection" in terminal.getvalue()
    assert "regression" in terminal.getvalue()


def test_short_work_draws_nothing():
    terminal = Terminal()
    work(0, terminal)
    assert "selection" not in terminal.getvalue()


def test_nothing_is_drawn_where_no_terminal_is(monkeypatch):
    monkeypatch.setattr(render, "_SECONDS_BEFORE_A_BAR", 0.01)
    stderr = io.StringIO()
    work(0.1, stderr)
    assert stderr.getvalue() == ""


def test_the_bar_leaves_the_streams_alone(monkeypatch):
    monkeypatch.setattr(render, "_SECONDS_BEFORE_A_BAR", 0.01)
    with contextlib.redirect_stderr(Terminal()):
        before = (sys.stdout, sys.stderr)
        with render.progress():
            time.sleep(0.1)
            assert (sys.stdout, sys.stderr) == before


@pytest.mark.parametrize("command", [("predict",), ("compose",), ("ledger", "create"), ("bench",)])
def test_help_is_broken_where_the_terminal_ends_and_nowhere_else(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, [*command, "--help"]).stdout
    text = shown[shown.index("\n", shown.index("Usage:")) : shown.index("╭")]
    lines = [line.strip() for line in text.splitlines()]
    pairs = [pair for pair in itertools.pairwise(lines) if all(pair)]
    assert pairs
    for line, following in pairs:
        # Typer 0.20 sets later paragraphs one below the other, without an empty line between them.
        if not any(start.startswith(following) for start in paragraphs(command)):
            assert len(line) + 1 + len(following.split()[0]) > 78, line


def test_help_of_compose_has_its_options_in_panels_and_ends_with_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["compose", "--help"]).stdout
    assert max(map(len, shown.splitlines())) <= 80
    panels = [line.strip("╭╮─ ") for line in shown.splitlines() if line.startswith("╭")]
    assert panels == [
        *("Arguments", "Options", "Public facts", "Parts", "Privacy", "Ledger", "Reading", "Writing")
    ]
    examples = [line.strip() for line in shown[shown.index("Examples:") :].splitlines()]
    assert sum("dpkit compose " in line for line in examples) >= 2


def paragraphs(command):
    shown = typer.main.get_command(app)
    for name in command:
        shown = shown.get_command(click.Context(shown), name)
        shown = shown.loaded() if isinstance(shown, Announced) else shown
    return [" ".join(paragraph.split()) for paragraph in shown.help.split("\n\n")]


# Tables of many rows

HEADER = ("entry", "who", "plan")
NUMERIC = ("entry",)


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")


def row(number, plan="a plan"):
    return (str(number), "\u5f20\u4f1f" if number % 2 else "ann", plan)


@pytest.mark.parametrize("plan", ["a plan", "a plan of several words that is broken in two", "x" * 60])
def test_a_table_of_many_rows_looks_as_one_of_few(plan, narrow, capsys):
    render.table(HEADER, [row(number, plan) for number in range(100, 140)], numeric=NUMERIC)
    few = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    render.table(HEADER, (row(number, plan) for number in range(100, 999)), numeric=NUMERIC)
    many = capsys.readouterr().out.splitlines()
    assert len(few) >= 42
    assert many[: len(few)] == few


def test_rows_are_printed_while_they_come(narrow, capsys):
    printed = []

    def rows():
        for number in itertools.count(100):
            printed.append(capsys.readouterr().out)
            if number == 3000:
                return
            yield row(number)

    render.table(HEADER, rows(), numeric=NUMERIC)
    assert printed[-1].splitlines() == [f"   {row(2999)[0]}   {row(2999)[1]}   a plan"]


def test_a_longer_cell_further_down_loses_nothing(narrow, capsys):
    rows = [row(number) for number in range(600)] + [("1234567", "somebody else", "another plan")]
    render.table(HEADER, rows, numeric=NUMERIC)
    last = "".join(capsys.readouterr().out.splitlines()[602:])
    assert "1234567" in last
    assert sorted("".join(last.split())) == sorted("1234567somebodyelseanotherplan")
