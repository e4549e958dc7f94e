"""What is guessed of the columns of a text file, for a person to check."""

import datetime

import pyarrow as pa
import pytest
from dpkit_command_schema.guess import LOOKED_AT, MANY, guess, guesses

from dpkit_core import Column
from dpkit_core.data.features import Written
from dpkit_core.data.source import UNTYPED


class Kept:
    """A table in memory as a source of text would yield it."""

    called = "visits.csv"

    def __init__(self, columns, typed=()):
        self.fields = pa.schema(
            pa.field(name, pa.string(), metadata=None if name in typed else UNTYPED) for name in columns
        )
        self._table = pa.table(columns, schema=self.fields)
        self.read = 0

    def batches(self, wanted, rows, /):
        for batch in self._table.select(list(wanted)).to_batches(max_chunksize=rows):
            self.read += batch.num_rows
            yield batch

    def close(self):
        pass


def facts(texts, **habits):
    """Return kind and facts of an unambiguous guess."""
    found = guess(texts, Written(**habits))
    assert not found.either
    return {"kind": found.kind, **found.said}


NUMBERS = {
    "plain": (["1", "-2.5", "3e5", "", "NA"], {}),
    "german": (["4.011,56 €", "12,00 €", "-3,50 €"], {"symbol": "€", "decimal": ",", "thousands": "."}),
    "english": (["€ 4,011.56", "€ 12.00"], {"symbol": "€", "decimal": ".", "thousands": ","}),
    "swiss": (["CHF 4’011.50", "CHF 12.00"], {"symbol": "CHF", "decimal": ".", "thousands": "’"}),
    "french": (["4\u202f011,5", "3,2"], {"decimal": ",", "thousands": "\u202f"}),
    "sign before the symbol": (["-$5", "$6.25"], {"symbol": "$"}),
    "percent": (["5%", "7.5 %"], {"symbol": "%"}),
    "unit": (["5 kg", "6.5 kg"], {"symbol": "kg"}),
    "millions": (["1.234.567", "12"], {"decimal": ",", "thousands": "."}),
    "three decimals below one": (["0.123", "1.234"], {}),
}


@pytest.mark.parametrize(("texts", "said"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_are_known_as_they_are_written(texts, said):
    assert facts(texts) == {"kind": "numeric", **said}
    Column("a", **facts(texts))  # a schema takes them


DATES = {
    "iso": (["2023-04-17", "2023-12-01T10:30:00"], {}),
    "german": (["17.04.2023", "03.05.2023"], {"format": "%d.%m.%Y"}),
    "american": (["04/17/2023", "05/03/2023"], {"format": "%m/%d/%Y"}),
    "short": (["17.04.23", "03.05.23"], {"format": "%d.%m.%y"}),
    "in words": (["17 Apr 2023", "1 May 2023"], {"format": "%d %b %Y"}),
    "in full": (["April 17, 2023", "May 1, 2023"], {"format": "%B %d, %Y"}),
    "with a time": (["17.04.2023 10:30", "18.04.2023 00:00"], {"format": "%d.%m.%Y %H:%M"}),
    "of twelve hours": (["04/17/2023 10:30 PM"], {"format": "%m/%d/%Y %I:%M %p"}),
}


@pytest.mark.parametrize(("texts", "said"), DATES.values(), ids=DATES)
def test_dates_are_known_as_they_are_written(texts, said):
    assert facts([*texts, ""]) == {"kind": "date", **said}
    Column("a", **facts(texts))


@pytest.mark.parametrize(
    "texts",
    [
        ["Fair", "Good", "Ideal"],
        ["true", "false"],
        ["12a", "14b"],
        ["A12", "B13"],
        ["120/80", "110/70"],
        ["192.168.0.1"],
        ["10:30", "11:45"],
        ["31.02.2023"],
        ["+49 170 123456"],
        ["5 kg", "6 m"],
        ["٣", "²"],
    ],
)
def test_what_is_neither_number_nor_date_is_a_category(texts):
    assert facts(texts) == {"kind": "categorical"}


def test_day_first_and_month_first_are_never_guessed_between():
    found = guess(["03/04/2023", "05/06/2022"])
    assert found.kind == "date"
    assert found.said == {}
    assert [option["format"] for option in found.either] == ["%d/%m/%Y", "%m/%d/%Y"]
    assert "either order" in found.remark


def test_a_comma_that_may_group_digits_is_never_guessed():
    found = guess(["$4,011", "$12,300"])
    assert found.said == {"symbol": "$"}
    assert list(found.either) == [{"decimal": ".", "thousands": ","}, {"decimal": ","}]
    assert list(guess(["4.011"]).either) == [{"decimal": "."}, {"decimal": ",", "thousands": "."}]


def test_what_the_owner_says_of_numbers_decides():
    assert facts(["4,011"], decimal=",") == {"kind": "numeric", "decimal": ","}
    assert facts(["4,011"], thousands=",") == {"kind": "numeric", "decimal": ".", "thousands": ","}
    assert facts(["5", "?"], missing=("?",)) == {"kind": "numeric"}


def test_codes_that_begin_with_zero_are_no_numbers():
    found = guess(["01067", "80331"])
    assert found.kind == "categorical"
    assert "leading 0" in found.remark
    assert facts(["0", "1"]) == {"kind": "numeric"}


def test_words_among_numbers_are_told_and_not_shown():
    found = guess(["1", "2", "3", "4", "unknown"])
    assert found.kind == "numeric"
    assert "--missing" in found.remark
    assert "unknown" not in found.remark
    assert guess(["1", "2", "many", "few", "none", "some"]).kind == "categorical"


def test_texts_are_counted_and_not_shown():
    assert "Two different texts" in guess(["no", "yes"]).remark
    assert (
        "Remove the column" in guess(f"name {letter}" for letter in map(chr, range(256, 257 + MANY))).remark
    )
    assert guess(["", "NA"]).remark.startswith("Every entry")


def test_only_columns_whose_type_says_nothing_are_read():
    source = Kept({"a": ["1", None], "b": ["1,5", "2,5"]}, typed=["a"])
    assert set(guesses(source)) == {"b"}
    source = Kept({"a": ["1", None]}, typed=["a"])
    assert guesses(source) == {}
    assert source.read == 0


def test_no_more_than_the_first_records_are_read():
    texts = [str(i) for i in range(LOOKED_AT)] + ["a word"] * 5_000
    source = Kept({"a": texts})
    assert guesses(source)["a"].kind == "numeric"
    assert source.read == LOOKED_AT


def test_whatever_is_proposed_can_be_read():
    from dpkit_core.data.encode import day_of, number_of

    texts = [
        "4.011,56 €",
        "3/4/2021",
        "1 Jan 2020",
        "5%",
        "1e5",
        "-.5",
        "1_000",
        "7 kg",
        "2020-02-30",
        "0,5",
        "'",
    ]
    for text in texts:
        found = guess([text])
        for said in found.either or [found.said]:
            if found.kind != "categorical":
                written = Column("a", found.kind, **{**found.said, **said}).written_by(Written())
                assert (number_of if found.kind == "numeric" else day_of)(text, written) is not None


def test_a_guess_of_dates_reads_the_day_that_was_written():
    from dpkit_core.data.encode import day_of

    for day in (datetime.date(2021, 12, 31), datetime.date(1999, 1, 13)):
        for format in ("%d.%m.%Y", "%m/%d/%Y", "%d-%b-%Y", "%Y/%m/%d", "%Y-%m-%d"):
            text = day.strftime(format)
            written = Column("a", **facts([text])).written_by(Written())
            assert day_of(text, written) == (day - datetime.date(1970, 1, 1)).days
