"""Processes that were forked before anything was asked, and know nothing of each other's questions."""

import importlib
import itertools
import os
import sys
import time

import pytest
from dpkit_check.fresh import Fresh, NothingAnswers

ASKED: list[int] = []


def answer(question):
    if question == "die":
        os._exit(3)
    ASKED.append(question)
    print("nobody reads this")
    return list(ASKED), os.getpid()


def test_each_question_is_answered_by_a_process_that_has_heard_no_other(capfd):
    with Fresh(answer, lambda question: None) as fresh:
        ASKED.append(-1)  # here, after it was forked
        try:
            found = [fresh.ask(number) for number in range(3)]
        finally:
            ASKED.clear()
    assert [asked for asked, _ in found] == [[0], [1], [2]]
    assert len({pid for _, pid in found} | {os.getpid()}) == 4
    assert capfd.readouterr().out == ""


def test_what_is_prepared_is_known_to_all():
    with Fresh(answer, ASKED.append) as fresh:
        assert [fresh.ask(number)[0] for number in (7, 8)] == [[7, 7], [7, 8, 8]]
    assert ASKED == []


def late_module(tmp_path, monkeypatch):
    (tmp_path / "late.py").write_text("import os\nWHERE = os.getpid()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.slow
def test_what_an_answer_imports_is_imported_once_for_those_that_follow(tmp_path, monkeypatch):
    late_module(tmp_path, monkeypatch)

    def place(question):
        return "late" in sys.modules, importlib.import_module("late").WHERE, os.getpid()

    with Fresh(place, lambda question: None) as fresh:
        (known, where, there), *others = (fresh.ask(number) for number in range(3))
    assert (known, where) == (False, there)
    assert [known for known, _, _ in others] == [True, True]
    assert len({where for _, where, _ in others}) == 1
    assert len({os.getpid(), there, *itertools.chain(*(two[1:] for two in others))}) == 5


def test_what_was_imported_here_is_not_known_there(tmp_path, monkeypatch):
    """A part could remember by it: what is imported may be a function of tables that it has seen."""
    late_module(tmp_path, monkeypatch)
    with Fresh(lambda question: question in sys.modules, lambda question: None) as fresh:
        monkeypatch.setitem(sys.modules, "late", importlib.import_module("late"))
        assert not fresh.ask("late")


def test_who_cannot_answer_or_be_asked_says_so():
    with Fresh(answer, lambda question: None) as fresh:
        with pytest.raises(NothingAnswers, match="cannot be sent"):
            fresh.ask(lambda: None)
        with pytest.raises(NothingAnswers, match="does not answer"):
            fresh.ask("die")


def test_no_process_is_left():
    with Fresh(answer, lambda question: None) as fresh:
        server = fresh._server
        fresh.ask(1)
    for _ in range(100):
        try:
            os.kill(server, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError("the process is still there")
