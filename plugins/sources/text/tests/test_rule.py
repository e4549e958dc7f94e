"""The rule about quotes accepts exactly the lines that RFC 4180 has, and reads each as if it were alone."""

import csv
import itertools
import re
from collections import defaultdict

import pytest
from dpkit_source_text import TextSource
from dpkit_source_text.text import _fault

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData

FIELD = r'(?:[^",]*|"(?:[^"]|"")*")'
LINE = re.compile(f"{FIELD}(?:,{FIELD})*")


def lines(longest):
    for length in range(1, longest + 1):
        yield from map("".join, itertools.product('a,"; ', repeat=length))


def accepted(line):
    return _fault(f"\n{line}\n".encode(), ord(",")) is None


def require_the_rule(folder, longest):
    by_fields = defaultdict(list)
    for line in lines(longest):
        assert accepted(line) == (LINE.fullmatch(line) is not None), line
        if accepted(line):
            (fields,) = csv.reader([line], strict=True)
            by_fields[len(fields)].append((line, fields))
    path = folder / "table.csv"
    for count, records in by_fields.items():
        names = [f"x{place}" for place in range(count)]
        path.write_text("\n".join([",".join(names), *(line for line, _ in records)]), encoding="utf-8")
        for block in (16, 2**22):
            source = TextSource.of(str(path), ReadOptions(delimiter=","), ",", block)
            batches = source.batches(dict.fromkeys(names, Written("categorical")), 1000)
            found = [list(row.values()) for batch in batches for row in batch.to_pylist()]
            assert found == [fields for _, fields in records]


def test_the_rule_is_that_of_the_standard(tmp_path):
    require_the_rule(tmp_path, 5)


@pytest.mark.exhaustive
def test_the_rule_is_that_of_the_standard_for_long_lines(tmp_path):
    require_the_rule(tmp_path, 8)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('1,"x', 'a quote (") that is not closed on its line, and a record is one line; close it'),
        ('1,x"', 'a quote (") inside a field that does not begin with one; put the whole field in quotes'),
        ('1,a"b', 'a quote (") inside a field'),
        ('a"b,"x', 'a quote (") inside a field'),
        ('1,"x"y', 'something between the quote (") that closes a field and the next delimiter; remove it'),
        ('1,"x" ', "something between the quote"),
        ('1,"""', 'a quote (") that is not closed on its line'),
        ("1\r,2", "a carriage return without a line feed after it; end each line with a line feed"),
    ],
)
@pytest.mark.parametrize("block", [16, 2**22])
def test_a_line_that_breaks_the_rule_is_named(tmp_path, line, said, block):
    path = tmp_path / "table.csv"
    path.write_text(f'a,b\n1,2\n\n"3","4"\n"",""""\n{line}\n5,6\n7,"8"\n', encoding="utf-8", newline="")
    with pytest.raises(InvalidData, match=rf"table.csv, line 6 has {re.escape(said)}"):
        list(TextSource.of(str(path), ReadOptions(), ",", block).batches({"a": Written()}, 10))
