"""Guesses how the columns of a text file are written, as a draft for a person to check.

A text file gives only the names of its columns; the schema declares what they hold. This drafts a schema:
kinds, date formats, symbols and separators of numbers. It looks at entries, so a person must check the draft
before it counts as public. It contains no entry, bound or category. If entries can be read in two ways, such
as 03/04/2023, it lists both and chooses neither.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from dpkit_core.data.encode import NOTHING, day_of, number_of
from dpkit_core.data.features import DECIMALS, THOUSANDS, Written
from dpkit_core.data.source import Source, is_untyped

#: The number of records, from the first on, that a guess is based on.
LOOKED_AT = 10_000

#: With more distinct texts than this, a column is unlikely to hold categories.
MANY = 100

_BATCH = 1_000

# At most this many distinct texts among numbers or dates may stand for missing values.
_ODD = 3

_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_NAMED = ("%d %b %Y", "%d-%b-%Y", "%d. %b %Y", "%b %d, %Y", "%b %d %Y", "%d %b %y", "%d-%b-%y")

# What stands around a number: no digit, no sign, and nothing that separates digits.
_AROUND = r"[^\d+\-.,'\u2019_\s\u00a0\u202f]"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?P<before>{_AROUND}*)\s*(?P<digits>[+-]?[\d.,](?:.*[\d.,])?)\s*(?P<after>{_AROUND}*)",
    re.DOTALL,
)
_USUAL = (".", "")

_CODE = re.compile(r"\d+", re.ASCII)

# Codes of currencies that stand before numbers; behind them, anything short may be a unit.
_CURRENCIES = frozenset(
    ("AUD", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "INR", "JPY", "NOK", "PLN", "SEK", "USD")
)

# The words of a name, also of patientID.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+")
_PEOPLE = frozenset(
    ("client", "customer", "employee", "household", "individual", "member", "participant", "patient",
     "person", "pupil", "respondent", "student", "subject", "user")
)  # fmt: skip
_NUMBERED = frozenset(("id", "ids", "uid", "uuid", "guid", "mrn", "pseudonym", "ssn"))
_BESIDE = frozenset(("code", "hash", "key", "name", "no", "nr", "number"))


@attrs.frozen
class Guess:
    """How a column may be written.

    Attributes
    ----------
    kind
        One of the kinds of a schema.
    said
        Facts for the column's table in the schema: ``format``, ``symbol``, ``decimal``, ``thousands``.
    either
        Alternatives that fit all entries; a person must choose one.
    remark
        A sentence about what to check, or nothing.
    """

    kind: str
    said: Mapping[str, str] = attrs.field(factory=dict)
    either: Sequence[Mapping[str, str]] = ()
    remark: str = ""


def guesses(source: Source, defaults: Written = Written()) -> dict[str, Guess]:
    """Return a guess for each column without a declared type, from the first ``LOOKED_AT`` records.

    Parameters
    ----------
    source
        A table; columns whose types are known are not read.
    defaults
        How the user declares numbers and missing values to be written.

    Raises
    ------
    InvalidData
        If a record cannot be read.
    """
    names = [field.name for field in source.fields if is_untyped(field)]
    if not names:
        return {}
    distinct: dict[str, set[str]] = {name: set() for name in names}
    batches = source.batches({name: Written("categorical") for name in names}, _BATCH)
    for batch in itertools.islice(batches, LOOKED_AT // _BATCH):
        for name in names:
            texts = batch.column(name).unique().to_pylist()
            distinct[name].update(text.strip() for text in texts if text is not None)
    return {name: guess(texts, defaults) for name, texts in distinct.items()}


def identifying(names: Iterable[str]) -> list[str]:
    """Return the names that seem to say who or what a record is of, those of people first.

    >>> identifying(["visit_id", "age", "Patient ID", "patient_age", "household_size", "userid"])
    ['Patient ID', 'userid', 'visit_id']
    """
    people: list[str] = []
    things: list[str] = []
    for name in names:
        words = {word.casefold() for word in _WORD.findall(name)}
        glued = any(word.endswith("id") and word.removesuffix("id") in _PEOPLE for word in words)
        numbered, of_people = bool(words & _NUMBERED), bool(words & _PEOPLE) or glued
        if numbered or glued or (of_people and words <= _PEOPLE | _BESIDE):
            (people if of_people else things).append(name)
    return people + things


def guess(texts: Iterable[str], defaults: Written = Written()) -> Guess:
    """Return how texts may be written that stand in one column.

    >>> guess(["4.011,56 €", "12,00 €"])
    Guess(kind='numeric', said={'symbol': '€', 'decimal': ',', 'thousands': '.'}, either=(), remark='')
    >>> [facts["format"] for facts in guess(["03/04/2023"]).either]
    ['%d/%m/%Y', '%m/%d/%Y']
    """
    entries = sorted(set(texts) - {*NOTHING, *defaults.missing})
    if not entries:
        return Guess("numeric", remark="Every entry that was looked at is missing.")
    # Words among numbers, such as "unknown", may stand for missing values.
    words = [entry for entry in entries if not any(map(str.isdecimal, entry))]
    few = 0 < len(words) <= _ODD and len(entries) - len(words) > 3 * len(words)
    read = [entry for entry in entries if entry not in words] if few else entries
    found = _numbers(read, defaults) or _dates(read)
    if found is not None and few:
        remark = "Some entries are words. If one of them means a missing value, give it with --missing."
        return attrs.evolve(found, remark=" ".join(filter(None, (remark, found.remark))))
    return found or _categories(entries)


def _categories(entries: Sequence[str]) -> Guess:
    if len(entries) == 2:
        remark = "Two different texts among the entries that were looked at."
    elif len(entries) > MANY:
        remark = "Many different texts. Remove the column if they are names, record numbers or comments."
    else:
        remark = ""
    return Guess("categorical", remark=remark)


# Numbers


def _numbers(entries: Sequence[str], defaults: Written) -> Guess | None:
    """Return how entries are written if they are numbers, else None."""
    parts = [_NUMBER.fullmatch(entry) for entry in entries]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    symbols = {symbol for part in found for symbol in (part["before"], part["after"]) if symbol}
    if len(symbols) > 1 or not all(_is_symbol(symbol, found) for symbol in symbols):
        return None
    symbol = next(iter(symbols), None)
    digits = [part["sign"] + part["digits"] for part in found]
    if all(map(_CODE.fullmatch, digits)) and any(len(text) > 1 and text[0] == "0" for text in digits):
        return Guess("categorical", remark="Digits with a leading 0 are taken to be codes, not numbers.")
    ways = [
        way for way in _ways(digits) if _reads(number_of, entries, Written("numeric", None, symbol, *way))
    ]
    own = (defaults.decimal, defaults.thousands)
    if own != _USUAL and own in ways:
        ways = [own]
    if not ways:
        return None
    said = {} if symbol is None else {"symbol": symbol}
    if len(ways) > 1:
        remark = "A comma or a point may be a thousands separator here, or a decimal sign."
        return Guess("numeric", said, [_facts(*way) for way in ways], remark)
    return Guess("numeric", said if ways[0] == _USUAL else said | _facts(*ways[0]))


def _facts(decimal: str, thousands: str) -> dict[str, str]:
    return {"decimal": decimal} | ({"thousands": thousands} if thousands else {})


def _is_symbol(symbol: str, found: Sequence[re.Match[str]]) -> bool:
    """Return whether a text may be a currency, a percent sign or a unit, which stands behind every number."""
    if any(unicodedata.category(sign) == "Sc" for sign in symbol) or symbol in {"%", "‰"}:
        return True
    unit = symbol.isprintable() and len(symbol) <= 5 and all(part["after"] == symbol for part in found)
    return unit or symbol in _CURRENCIES


def _ways(digits: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the decimal signs and separators of thousands by which all these may be numbers."""
    signs = {sign for text in digits for sign in text}
    for decimal, thousands in itertools.product(DECIMALS, ("", *THOUSANDS)):
        if decimal == thousands or (thousands and thousands not in signs):
            continue
        # A comma that occurs in no entry is the decimal sign only if the point has another meaning.
        if decimal != "." and decimal not in signs and thousands != ".":
            continue
        # Digits of 0,123 or 1.234e5 are not groups, though the rule would read them as such.
        group = re.escape(thousands)
        odd = re.compile(rf"[+-]?0\d*{group}|.*{group}.*[eE]", re.ASCII)
        if not (thousands and any(map(odd.match, digits))):
            yield decimal, thousands


# Dates


def _dates(entries: Sequence[str]) -> Guess | None:
    """Return how entries are written if they are dates, else None."""
    if _reads(day_of, entries, Written("date")):
        return Guess("date")
    fitting = [
        format for format in _formats(entries[0]) if _reads(day_of, entries, Written("date", format=format))
    ]
    # Of the name of a month in full and in short, which are one in May, the short one.
    formats = [f for f in fitting if "%B" not in f or f.replace("%B", "%b") not in fitting]
    if len(formats) == 1:
        return Guess("date", {"format": formats[0]})
    both = [{"format": format} for format in formats]
    return Guess("date", either=both, remark="Day and month could be in either order.") if both else None


def _formats(entry: str) -> Iterator[str]:
    """Yield the formats that an entry may have, by the signs in it."""
    if not any(map(str.isdecimal, entry)):
        return
    days = [
        sign.join(order)
        for sign in "./-"
        if sign in entry
        for order in (("%d", "%m", "%Y"), ("%m", "%d", "%Y"), ("%Y", "%m", "%d"))
    ]
    days += [format.replace("%Y", "%y") for format in days if not format.startswith("%Y")]
    if any(map(str.isalpha, entry)):
        days += [*_NAMED, *(format.replace("%b", "%B") for format in _NAMED)]
    times = _TIMES[1:] if ":" in entry else _TIMES[:1]
    for day, time in itertools.product(days, times):
        yield day + time


def _reads(read: Callable[[str, Written], float], entries: Iterable[str], written: Written) -> bool:
    """Return whether all entries can be read this way, and none is missing."""
    try:
        return not any(math.isnan(read(entry, written)) for entry in entries)
    except ValueError:
        return False
