"""What a part leaves behind in its process."""

import os
import sys
import types

import attrs
from doubles import SumScorer

from dpkit_core.testing.elsewhere import told


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


def test_what_a_part_sets_is_told_and_what_an_import_sets_is_not():
    assert told(SetsAVariable, "scorer")["environment"] == ["FEATURES_OF_A_PART"]
    assert told(ImportsALibrary, "scorer")["environment"] == []
    assert sys.modules.pop("a_library")
    assert not {"FEATURES_OF_A_PART", "THREADS_OF_A_LIBRARY"} & set(os.environ)
