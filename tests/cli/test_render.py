"""The bar is for people who wait at a terminal, and for nobody else."""

import contextlib
import io
import sys
import time

import pytest

from dpkit_core.commands import render


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
