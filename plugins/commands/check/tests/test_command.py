"""``dpkit check``: finds the part, reports what was tried, and exits with 2 where a check failed."""

import json
from pathlib import Path

import pytest
from dpkit_check import checks_for, kit, trial_for
from dpkit_check.locate import find_part

#: What finds half of a declared sensitivity; it happens to be right for replacing a record.
FAILED = {
    "check_sensitivity",
    "check_records_of_one_person_are_covered",
    "check_every_branch_keeps_the_law",
}

PART = '''
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import fixed_scores, Neighboring, Scorer, Sensitivity


@attrs.frozen
class Sums:
    """Column sums of values clipped to [0, 1]."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "one record adds at most 1"
    reference: ClassVar[str] = "folklore"
    adaptive: ClassVar[bool] = False

    def sensitivity(self, schema, round, /):
        moves = 2 if schema.neighboring is Neighboring.REPLACE_ONE else 1
        return Sensitivity.general(FACTOR * moves, schema.neighboring)

    def prepare(self, data, plan, meter, /):
        print("preparing")
        return fixed_scores(np.clip(data.X, 0, 1).sum(axis=0))


_: type[Scorer] = Sums
'''


@pytest.fixture
def honest(folder):
    (folder / "honest.py").write_text(PART.replace("FACTOR", "1.0"))
    return "honest.py"


@pytest.fixture
def liar(folder):
    (folder / "liar.py").write_text(PART.replace("FACTOR", "0.5"))
    return "liar.py"


def leave(monkeypatch, names):
    """Leave the kit a few checks: what the command makes of them is the same of all."""
    few = tuple(check for check in checks_for("scorer") if check.name in {kit.PROTOCOL, *names})
    monkeypatch.setitem(kit._CHECKS, "scorer", few)


@pytest.fixture
def few_checks(monkeypatch):
    """Leave the kit the checks that tell the two apart."""
    leave(monkeypatch, FAILED)


@pytest.fixture
def one_check(monkeypatch):
    leave(monkeypatch, ["check_sensitivity"])


@pytest.mark.slow
@pytest.mark.usefixtures("one_check")
def test_an_honest_part_passes_and_a_page_of_the_report_is_written(dpkit, honest, folder):
    result = dpkit("check", honest, "--report", "out.html")
    assert result.exit_code == 0, result.output
    for name in ("sensitivity", "protocol"):
        assert name in result.stdout
    assert "0 failed" in " ".join(result.stdout.split())
    page = (folder / "out.html").read_text()
    for words in ("check_sensitivity", "does not prove privacy", "$"):
        assert (words in page) is (words != "$")


@pytest.mark.usefixtures("few_checks")
def test_half_the_sensitivity_is_found_and_ends_with_2(dpkit, liar):
    result = dpkit("check", liar)
    assert result.exit_code == 2
    table, _, told = result.stdout.partition("check_sensitivity failed: ")
    assert "declared 0.5" in told
    assert "declared 0.5" not in table
    assert told.count("What to do:") == 1
    said = " ".join(told.split())
    assert "checks that may follow from it" in said
    assert "FAILED, not private" in said


@pytest.mark.slow
def test_the_report_alone_is_on_standard_output_and_what_failed_is_written_and_replayed(dpkit, liar, folder):
    result = dpkit("check", liar, "--format", "json", "--witness", "found.json")
    document = json.loads(result.stdout)  # though the part prints while it is checked
    assert result.exit_code == 2
    assert document["ok"] is False
    assert document["checks"] == len(document["results"]) == len(checks_for("scorer"))
    # Half of the declared 2 happens to be right for replacing a record.
    failed = {r["check"] for r in document["results"] if r["status"] == "failed"}
    assert failed == FAILED
    told = json.loads((folder / "found.json").read_text())
    assert set(told["checks"]) == FAILED
    result = dpkit("check", "--replay", "found.json", "--format", "json")
    again = json.loads(result.stdout)
    assert result.exit_code == 2
    assert [r["check"] for r in again["results"]] == told["checks"]
    for replayed, found in zip(again["results"], told["found"], strict=True):
        # The same tables and no others: what the search found, without the search.
        assert replayed["detail"].splitlines()[1:] == found["detail"][1:]
        assert "declared" in replayed["detail"]
    (folder / "liar.py").write_text(PART.replace("FACTOR", "1.0"))
    assert dpkit("check", "--replay", "found.json").exit_code == 0


def test_a_file_that_is_no_witness_is_refused(dpkit, folder):
    (folder / "none.json").write_text('{"format": "something"}')
    result = dpkit("check", "--replay", "none.json")
    assert result.exit_code != 0
    assert "witness" in result.stderr


@pytest.mark.parametrize(
    ("report", "words"), [("none/out.html", "there is no folder none"), ("honest.py", "it is also an input")]
)
def test_a_report_that_cannot_be_written_is_said_before_anything_is_tried(dpkit, honest, report, words):
    before = Path(honest).read_text(encoding="utf-8")
    result = dpkit("check", honest, "--report", report)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""
    assert Path(honest).read_text(encoding="utf-8") == before


@pytest.mark.slow
@pytest.mark.usefixtures("few_checks")
def test_an_installed_name_is_found_and_a_class_in_a_module(dpkit, parts):
    document = json.loads(dpkit("check", "dpkit-tiny:large", "--format", "json").stdout)
    assert (document["part"], document["kind"]) == ("tiny_parts:Large", "scorer")
    # It counts values, which all move one way under add/remove and both ways under replace-one.
    failed = [r["check"] for r in document["results"] if r["status"] == "failed"]
    assert "check_sensitivity" in failed
    assert find_part("tiny_parts:Large") == find_part("dpkit-tiny:large")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing",), ["'nothing'", "installed", "module:Class"]),
        (("kendal",), ["'kendal' of any kind", "Did you mean 'kendall'?"]),
        (("kendal", "--kind", "scorer"), ["'kendal' among the scorers", "Did you mean 'kendall'?"]),
        (("no_module:Part",), ["no_module", "cannot import"]),
        (("missing.py",), ["no Python file missing.py"]),
        (("honest.py", "--kind", "teapot"), ["no kind", "teapot", "scorers"]),
        (("honest.py", "--seed", "-1"), ["--seed", "x>=0"]),
        (("honest.py:Nobody",), ["honest.py", "honest.py:Class"]),
    ],
)
def test_what_cannot_be_found_is_a_sentence_and_exit_2(dpkit, honest, arguments, words):
    result = dpkit("check", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("few_checks")
def test_an_expected_failure_has_a_reason_and_must_fail(dpkit, liar, honest):
    reason = "replacing only, by plan"
    # The prefix may be left out.
    named = ("sensitivity", *FAILED - {"check_sensitivity"})
    expected = [part for name in named for part in ("--expect-failure", f"{name}={reason}")]
    expected += ["--format", "json"]
    document = json.loads(dpkit("check", liar, *expected).stdout)
    (found,) = (r for r in document["results"] if r["check"] == "check_sensitivity")
    assert document["ok"] is True
    assert (found["status"], found["detail"]) == ("xfail", "expected: replacing only, by plan")
    surprise = dpkit("check", honest, *expected)
    assert surprise.exit_code == 2
    assert "passed, though it was expected to fail" in surprise.stdout


@pytest.mark.parametrize("option", ["sensitivity", "sensitivity= ", "nothing=known"])
def test_an_expected_failure_without_check_or_reason_is_said(dpkit, honest, option):
    result = dpkit("check", honest, "--expect-failure", option)
    assert result.exit_code == 2
    assert "CHECK=REASON" in result.stderr
    assert "forked_workers_differ" in result.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("one_check")
def test_thorough_says_beforehand_how_long_it_will_take(dpkit, honest, monkeypatch):
    assert trial_for("scorer", thorough=True).effort == kit.THOROUGH == 10
    monkeypatch.setattr(kit, "THOROUGH", 1)  # which takes a tenth of the time
    result = dpkit("check", honest, "--thorough", "--format", "json")
    assert result.exit_code == 0
    assert "the thorough run will take about" in result.stderr
    assert json.loads(result.stdout)["thorough"] is True


def test_a_replay_reads_the_tables_of_the_witness_and_searches_for_none(dpkit, liar, folder):
    scene = {
        "again": "move_again",
        "options": {},
        "schema": {
            "neighboring": "add-remove",
            "target": "y",
            "columns": {
                "a": {"kind": "numeric", "lower": 0.0, "upper": 1.0},
                "y": {"kind": "numeric", "lower": 0.0, "upper": 1.0},
            },
        },
        "tables": [[[0.75, 0.0], [0.0, 0.0]], [[0.0, 0.0]]],
        "seed": 0,
        "selected": [],
        "norm": "linf",
    }
    witness = {
        "format": "dpkit-witness",
        "part": liar,
        "kind": "scorer",
        "seed": 0,
        "thorough": True,
        "options": {},
        "checks": ["check_sensitivity"],
        "scenes": {"check_sensitivity": scene},
    }
    (folder / "found.json").write_text(json.dumps(witness))
    result = dpkit("check", "--replay", "found.json")
    assert result.exit_code == 2
    assert "linf change 0.75, declared 0.5" in result.stdout
    scene["tables"] = [[[0.25, 0.0], [0.0, 0.0]], [[0.0, 0.0]]]  # which refute nothing
    (folder / "found.json").write_text(json.dumps(witness))
    assert dpkit("check", "--replay", "found.json").exit_code == 0


@pytest.mark.usefixtures("few_checks")
def test_an_option_is_set_and_said(dpkit, folder):
    option = "adaptive: ClassVar[bool] = False\n\n    factor: float = 1.0"
    text = PART.replace("adaptive: ClassVar[bool] = False", option).replace("FACTOR", "self.factor")
    (folder / "optional.py").write_text(text)
    result = dpkit("check", "optional.py", "--set", "factor=0.5", "--witness", "found.json")
    assert result.exit_code == 2
    assert "Attacked with factor = 0.5" in " ".join(result.stdout.split())
    assert json.loads((folder / "found.json").read_text())["options"] == {"factor": 0.5}
    assert dpkit("check", "--replay", "found.json").exit_code == 2
    unknown = dpkit("check", "optional.py", "--set", "faktor=0.5")
    assert unknown.exit_code == 2
    assert "it has factor" in " ".join(unknown.stderr.split())


GUARDED = """def prepare(self, data, plan, meter, /):
        if data.records < 0:REASON
            raise ValueError("no table has fewer than no records")
"""


@pytest.mark.parametrize(
    ("reason", "options", "code"),
    [
        # That a line needs a reason is shown in test_reading, without the checks.
        pytest.param("", [], 0, marks=pytest.mark.exhaustive),
        pytest.param("", ["--strict"], 2, marks=pytest.mark.exhaustive),
        pytest.param("  # kit: unreachable,", ["--strict"], 2, marks=pytest.mark.exhaustive),
        pytest.param(
            "  # kit: unreachable, sizes are never negative", ["--strict"], 0, marks=pytest.mark.slow
        ),
    ],
)
def test_strict_fails_on_code_that_is_not_attacked_unless_the_line_says_why(
    dpkit, folder, reason, options, code
):
    text = PART.replace("FACTOR", "1.0").replace('        print("preparing")\n', "")
    head = "def prepare(self, data, plan, meter, /):\n"
    (folder / "guarded.py").write_text(text.replace(head, GUARDED.replace("REASON", reason)))
    result = dpkit("check", "guarded.py", *options)
    assert result.exit_code == code, result.output
    told = " ".join(result.stdout.split())
    excused = reason.endswith("negative")
    assert ("Not attacked:" in told) is not excused
    assert ("needs data.records < 0, seen" in told) is not excused
    assert "FAILED" not in told
    assert ("0 places of the code not attacked" in told) is excused
