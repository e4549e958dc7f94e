"""Common mistakes in TOML, and what to write instead.

A parser reports where it stopped and what it expected. The author of a first schema needs to know that a name
with a space must be quoted.
"""

from __future__ import annotations

import re
import reprlib

# How tomllib reports the place.
_PLACE = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")

_BARE = re.compile(r"[A-Za-z0-9_-]+(\s*\.\s*[A-Za-z0-9_-]+)*")
_BARE_PARTS = re.compile(r"(?:[A-Za-z0-9_-]+\.)*")

#: Patterns of invalid values, and the rest of a sentence that begins with the key.
_VALUES = tuple(
    (re.compile(pattern, flags=re.DOTALL), sentence)
    for pattern, sentence in (
        (
            r"(#.*)?",
            "has nothing after the =; write a value, or put a # before the line to leave it out",
        ),
        (r"(?i:true|false)\b.*", "has a capital letter; write true or false"),
        (
            r"[+-]?\d[\d.,'\s]*,[\d.,'\s]*(#.*)?",
            "has a comma in a number; write a decimal point, and no thousands separators",
        ),
        (r"[+-]?(\.\d+|\d+\.)\s*(#.*)?", "has a number that begins or ends with a point; write 0.5 or 5.0"),
        (r"\[[^\"']*[^\W\d][^\"']*", 'has text without quotes; write ["...", "..."]'),
        (r"[^\s\"'\[{\d+.-].*", 'has text without quotes; write "..."'),
    )
)


def slip_in(text: str, reason: str) -> str | None:
    """Return what is wrong with a line of TOML and what to write instead, or None if it cannot be guessed.

    No value is shown: the file may be private.

    >>> slip_in('{"budget": 1}', "Invalid statement (at line 1, column 1)")
    'it looks like JSON; give a file in TOML'
    >>> slip_in("[columns.Patient ID]", "Expected ']' (at line 1, column 17)").partition(": ")[2]
    'put quotes around a name with characters other than letters, digits, _ and -: [columns."Patient ID"]'

    Parameters
    ----------
    text
        The file's text.
    reason
        The message of ``tomllib``.
    """
    if text.lstrip().startswith("{"):  # as no file in TOML
        return "it looks like JSON; give a file in TOML"
    if (place := _PLACE.search(reason)) is None:
        return None
    lines = text.rstrip().split("\n")
    number = int(place[1] or len(lines))
    if not 1 <= number <= len(lines):
        return None
    line = lines[number - 1].strip()
    slip = _of_header(line, reason) if line.startswith("[") else _of_pair(line, reason)
    return None if slip is None or not slip.isprintable() else f"line {number}{slip}"


def _of_header(line: str, reason: str) -> str | None:
    header = line.partition("#")[0].rstrip()
    name = header.strip("[]").strip()
    if not header.endswith("]"):
        return ' has no "]" at its end'
    if '"' in name or "'" in name or not name:
        return None
    if _BARE.fullmatch(name):
        again = "twice" in reason
        return f" has a second [{_shown(name)}]; merge the two" if again else None
    before = _BARE_PARTS.match(name)[0]  # type: ignore[index] # it may be empty, and always matches
    return _unquoted(f'[{_shown(before)}"{_shown(name.removeprefix(before))}"]')


def _of_pair(line: str, reason: str) -> str | None:
    key, equals, value = (part.strip() for part in line.partition("="))
    if not key or any(sign in key for sign in "\"'#[]{}"):
        return None
    if not equals:
        word = re.split(r"[\s:]", key)[0]
        return f' has no "=" in it; write {_shown(word)} = ...' if "Expected '='" in reason else None
    if not _BARE.fullmatch(key):
        return _unquoted(f'"{_shown(key)}" = ...')
    sentences = (sentence for pattern, sentence in _VALUES if pattern.fullmatch(value))
    slip = next(sentences, None)
    return None if slip is None else f", {_shown(key)}, {slip}"


def _unquoted(remedy: str) -> str:
    return f": put quotes around a name with characters other than letters, digits, _ and -: {remedy}"


def _shown(name: str) -> str:
    return reprlib.repr(name)[1:-1]
