"""Numbers that pyarrow parses are those of the encoder's rule, to the last bit."""

import itertools
import math
import random

import pytest
from dpkit_source_text.text import _parsed, _Plain

from dpkit_core.data.encode import NOTHING, number_of
from dpkit_core.data.features import Written

BY_HAND = [
    *("infinity", "Infinity", "INFINITY", "-infinity", "+inf", "+1", "nan(1)", "NAN", "-nan", "+nan", "-NaN"),
    *("1e400", "-1e400", "1e-400", "4.9e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "0x1p3"),
    *(
        "1d5",
        "1f",
        "1.",
        ".5",
        ".",
        "-.",
        "1e",
        "1e+",
        "١٢",
        "１２",
        "1\u00a0",
        "\u00a01",
        "9007199254740993",
    ),
    *(
        "9007199254740992.99999999999999999999999999999",
        "1" * 400,
        f"0.{'0' * 400}1",
        "1e999999999999999999999",
    ),
    *(
        "1e-99999999999999999999",
        "0e999999999999",
        "1\0",
        "\x001",
        "true",
        "True",
        "1,5",
        "-0",
        "-0.0",
        "1_000",
    ),
    *("-999", " -999", "?", " ?", "- 1", "1 2", "1e 5", "NA ", " NA", "\tnan", "\ufeff1"),
    *NOTHING,
]
SHORT = "+-.,059eEinfaxNA#_ \t"


def accepted(texts, written, *, quoted):
    """Yield the texts that pyarrow parses as numbers, and the numbers; it parses all at once, or none."""
    lines = (f'0,"{text}"\n' if quoted else f"0,{text}\n" for text in texts)
    block = "".join(["\n", *lines]).encode()
    found = _parsed(block, ",", ["k", "a"], ["a"], _Plain.among({"a": written}))
    if found is not None:
        assert found.num_rows == len(texts)
        yield from zip(texts, found["a"].to_pylist(), strict=True)
    elif len(texts) > 1:
        half = len(texts) // 2
        yield from accepted(texts[:half], written, quoted=quoted)
        yield from accepted(texts[half:], written, quoted=quoted)


def spelled(rng):
    digits = "".join(rng.choices("0123456789", k=rng.randint(15, 40)))
    place = rng.randint(0, len(digits))
    exponent = f"e{rng.randint(-345, 310)}" if rng.random() < 0.8 else ""
    return digits[:place] + "." + digits[place:] + exponent


def between_two(rng):
    halfway = 2 * (rng.getrandbits(53) | 1 << 52) + 1
    return f"{halfway}{'0' * rng.randint(0, 3)}{rng.choice(['', '.', '.0', '.' + '0' * 25 + '1'])}"


def require_the_rule(texts, written):
    count = 0
    for quoted in (False, True):
        clean = [text for text in texts if not set(text) & set('"\r\n') and (quoted or "," not in text)]
        for start in range(0, len(clean), 1024):
            for text, number in accepted(clean[start : start + 1024], written, quoted=quoted):
                expected = number_of(text, written)
                count += 1
                if number is None:
                    assert math.isnan(expected), text
                else:
                    assert number.hex() == expected.hex(), text
    return count


each_way = pytest.mark.parametrize(
    "written",
    [Written(), Written(decimal=","), Written(missing=("?", "missing", "-"))],
    ids=["plain", "comma", "missing"],
)


@each_way
@pytest.mark.slow
def test_parsed_numbers_are_those_of_the_rule(written):
    rng = random.Random(1)
    short = (map("".join, itertools.product(SHORT, repeat=length)) for length in range(3))
    long = [spelled(rng) for _ in range(500)] + [between_two(rng) for _ in range(500)]
    if written.decimal == ",":
        long = [text.replace(".", ",") for text in long]
    assert require_the_rule([*itertools.chain(*short), *long, *BY_HAND], written) > 1000


@pytest.mark.exhaustive
@each_way
def test_many_parsed_numbers_are_those_of_the_rule(written):
    rng = random.Random(2)
    short = (map("".join, itertools.product(SHORT, repeat=length)) for length in range(5))
    long = [spelled(rng) for _ in range(60_000)] + [between_two(rng) for _ in range(20_000)]
    assert require_the_rule([*itertools.chain(*short), *long, *BY_HAND], written) > 80_000


def test_a_text_is_nothing_with_quotes_and_without():
    (plain,) = (_Plain.among({"a": Written(missing=("?",))}),)
    found = _parsed(b'\n1,NA\n2,"NA"\n3,\n4,""\n5,?\n6,"?"\n', ",", ["k", "a"], ["a"], plain)
    assert found["a"].null_count == 6


@pytest.mark.parametrize(
    "written",
    [
        Written("categorical"),
        Written("date"),
        Written(symbol="€"),
        Written(thousands=","),
        Written(missing=("-999",)),  # " -999" is missing as well, which pyarrow does not see
        Written(missing=("inf",)),
        Written(missing=(" x",)),
    ],
    ids=str,
)
def test_what_is_not_plain_is_left_to_the_rule(written):
    assert _Plain.among({"a": written, "b": Written()}).names == ("b",)


def test_most_columns_are_parsed_where_they_are_written_in_two_ways():
    wanted = {"a": Written(), "b": Written(decimal=","), "c": Written(decimal=","), "d": Written("date")}
    plain = _Plain.among(wanted)
    assert (plain.names, plain.decimal) == (("b", "c"), ",")
