"""What a part leaves behind in its process."""

import os
import sys
import types

import attrs
import pytest
from doubles import SumScorer
from dpkit_check import run_checks
from dpkit_check.elsewhere import told
from dpkit_check.locate import find_part

from dpkit_core.errors import UnknownName


@attrs.frozen
class SetsAVariable(SumScorer):
    """Sets a variable where a run would not put it back: while it is asked for its sensitivity."""

    def sensitivity(self, schema, round, /):
        os.environ.setdefault("FEATURES_OF_A_PART", str(len(schema.features)))
        return super().sensitivity(schema, round)


@attrs.frozen
class ImportsALibrary(SumScorer):
    """Imports what sets a variable for itself, as libraries of compiled code do."""

    def sensitivity(self, schema, round, /):
        if "a_library" not in sys.modules:
            sys.modules["a_library"] = types.ModuleType("a_library")
            os.environ["THREADS_OF_A_LIBRARY"] = "1"
        return super().sensitivity(schema, round)


@pytest.mark.slow
def test_what_a_part_sets_is_told_and_what_an_import_sets_is_not():
    assert told(SetsAVariable, "scorer")["environment"] == ["FEATURES_OF_A_PART"]
    assert told(ImportsALibrary, "scorer")["environment"] == []
    assert sys.modules.pop("a_library")
    assert not {"FEATURES_OF_A_PART", "THREADS_OF_A_LIBRARY"} & set(os.environ)


@attrs.frozen
class WritesToADescriptor(SumScorer):
    """Writes past ``sys.stdout``, which a run keeps from everybody."""

    def prepare(self, data, plan, meter, /):
        os.write(1, b"%d records" % data.records)
        return super().prepare(data, plan, meter)


@attrs.frozen
class WritesToTheOldStream(SumScorer):
    """Writes by the stream that Python began with."""

    def prepare(self, data, plan, meter, /):
        print(data.y.sum(), file=sys.__stderr__)
        return super().prepare(data, plan, meter)


@attrs.frozen
class Prints(SumScorer):
    """Prints, of which nothing is seen outside of a run."""

    def prepare(self, data, plan, meter, /):
        print(data.records)
        return super().prepare(data, plan, meter)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (WritesToADescriptor, "a table: a run wrote '60 records' to the descriptor of standard output"),
        (WritesToTheOldStream, "to the descriptor of standard output or error"),
        (Prints, None),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_what_is_written_to_a_descriptor_is_noticed(make, found):
    (result,) = run_checks(make, "scorer", only=["check_nothing_leaves_beside_the_release"]).results
    assert result.status == ("passed" if found is None else "failed"), result.detail
    assert found is None or found in result.detail


@pytest.mark.slow
def test_a_library_that_is_imported_for_the_first_time_is_no_file_of_the_part(tmp_path, monkeypatch):
    """What the interpreter compiles of it is written beside it, and was taken for a way out."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_late.py").write_text("ZERO = 0.0")
    (tmp_path / "late.py").write_text(
        "import attrs\nfrom doubles import SumScorer\n\n"
        "@attrs.frozen\nclass Late(SumScorer):\n"
        "    def prepare(self, data, plan, meter, /):\n"
        "        import imported_late\n"
        "        return super().prepare(data, plan, meter)\n"
    )
    make, kind = find_part(f"{tmp_path / 'late.py'}:Late")
    checks = ["check_import_is_cheap", "check_nothing_leaves_beside_the_release"]
    report = run_checks(make, kind, only=checks)
    assert [(r.status, r.detail) for r in report.results if r.status != "passed"] == []


def test_a_part_whose_data_the_kit_cannot_make_is_attacked_by_its_own_tests():
    with pytest.raises(UnknownName, match=r"a form of its own, entries.*attack_mechanism"):
        find_part("dpkit_command_categories.histogram:CommonValues")
