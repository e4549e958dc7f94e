"""What is asked of records where they are is answered without quoting them."""

import warnings

import numpy as np
import pytest

from dpkit_core.data.engine import answered
from dpkit_core.errors import CannotCompose, EngineFailed, InvalidData


def raises(error):
    def ask():
        raise error from ValueError("record 41")

    return ask


def test_what_is_answered_is_returned():
    assert answered(lambda: 3) == 3


@pytest.mark.parametrize("error", [InvalidData("column 'c' has infinite values"), EngineFailed("away")])
def test_sentences_of_dpkit_are_kept_without_what_led_to_them(error):
    found = answered(raises(error))
    assert (type(found), str(found)) == (type(error), str(error))
    assert found.__cause__ is found.__context__ is found.__traceback__ is None


@pytest.mark.parametrize("error", [KeyError("record 41"), CannotCompose("record 41", ["record 41"])])
def test_of_anything_else_only_its_kind_is_told(error):
    found = answered(raises(error))
    assert type(found) is RuntimeError
    assert "41" not in str(found)
    assert type(error).__name__ in str(found)


def test_no_warning_depends_on_the_records():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert answered(lambda: float(np.float64(1e308) * 10)) == np.inf
    assert warned == []
