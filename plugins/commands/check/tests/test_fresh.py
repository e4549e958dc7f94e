"""Processes that were forked before anything was asked, and know nothing of each other's questions."""

import importlib
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


def test_what_was_imported_meanwhile_is_imported_once_for_all_answers(tmp_path, monkeypatch):
    (tmp_path / "late.py").write_text("import os\nWHERE = os.getpid()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def place(question):
        return "late" in sys.modules, importlib.import_module("late").WHERE, os.getpid()

    with Fresh(place, lambda question: None) as fresh:
        alone = [fresh.ask(number) for number in range(2)]
        assert [(known, where == there) for known, where, there in alone] == [(False, True)] * 2
        monkeypatch.setitem(sys.modules, "late", importlib.import_module("late"))
        (first, where, one), (second, same, two) = (fresh.ask(number) for number in range(2))
    assert (first, second) == (True, True)
    assert where == same
    assert len({where, one, two, os.getpid()}) == 4


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
