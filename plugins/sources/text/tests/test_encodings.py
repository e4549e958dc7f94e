"""Encodings in which a line is read from its own bytes, and no others."""

import codecs
import encodings
import pkgutil
import random

import pytest
from dpkit_source_text import TextSource, open_csv
from dpkit_source_text.lines import _LOCAL, _codec

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData, InvalidOption

TEXT = Written("categorical")


def all_codecs():
    names = set()
    for module in pkgutil.iter_modules(encodings.__path__):
        try:
            names.add(codecs.lookup(module.name).name)
        except LookupError:  # no codec, or one of another system
            continue
    return sorted(names)


ALL = all_codecs()
ALLOWED = [name for name in ALL if _LOCAL.fullmatch(name)]
REFUSED = [name for name in ALL if name not in {*ALLOWED, "utf-8-sig"}]

FIRST, SECOND = b'AbC12,"|<>~+-\x81\x84\x8e\xa4\xb0\xfe', b'AbC12,"|<>~+-$B0\x81'

# What begins a shift, a character of several bytes, or a mark.
HEADS = [
    b"",
    b"~{",
    b"+",
    b"\x1b$B",
    b"\x1b(J",
    b"\x1b(I",
    b"\x0e",
    b"\x81",
    b"\xff\xfe",
    b"+AD",
    b"\x1b$)C\x0e",
]


def decoded(octets, codec):
    try:
        return octets.decode(codec)
    except UnicodeError:
        return None


def touching(codec, times):
    """Return a line and one after it that it changes, or that is refused for it alone; None if none is."""
    rng = random.Random(codec)
    end = "\n".encode(codec)
    for _ in range(times):
        first = rng.choice(HEADS) + bytes(rng.choices(FIRST, k=rng.randint(0, 4)))
        second = bytes(rng.choices(SECOND, k=rng.randint(1, 5)))
        alone = [decoded(first + end, codec), decoded(second + end, codec)]
        both = decoded(first + end + second + end, codec)
        if both != (None if None in alone else "".join(alone)):
            return first, second
    return None


def test_nearly_all_encodings_of_python_are_allowed():
    assert len(ALLOWED) > 80
    assert {"utf-8", "iso8859-1", "cp1252", "koi8-r", "mac-roman", "shift_jis", "gb18030", "big5"} <= set(
        ALLOWED
    )


@pytest.mark.first(20)
@pytest.mark.parametrize("codec", [name for name in ALLOWED if not name.startswith(("utf-16", "utf-32"))])
def test_a_line_says_what_its_own_bytes_say(codec):
    assert touching(codec, 2000) is None


@pytest.mark.parametrize("codec", ["iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_ext"])
def test_an_encoding_with_shifts_would_be_found(codec):
    assert touching(codec, 20_000) is not None


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "codec", ["cp932", "shift_jis", "euc_jp", "euc_kr", "gb2312", "gbk", "gb18030", "big5"]
)
def test_no_character_of_several_bytes_takes_the_end_of_its_line(codec):
    for first in range(256):
        for second in range(256):
            octets = bytes([first, second])
            assert "\n" in (decoded(octets + b"\n1", codec) or "\n"), octets


@pytest.mark.parametrize("encoding", [*REFUSED, "nonsense", "a\0b", ""])
def test_any_other_encoding_is_refused_by_name(tmp_path, encoding):
    path = tmp_path / "table.csv"
    path.write_text("a\n1\n")
    with pytest.raises(InvalidOption, match=r"utf-8, utf-16, utf-32, latin-1.* Save the file") as told:
        open_csv(str(path), ReadOptions(encoding=encoding))
    assert repr(encoding) in str(told.value)


@pytest.mark.first(30)
@pytest.mark.parametrize("codec", ALLOWED)
@pytest.mark.parametrize("block", [3, 2**22])
def test_allowed_encodings_are_read(tmp_path, codec, block):
    letters = [letter for letter in "äяあ中한" if decoded(letter.encode(codec, "ignore"), codec) == letter]
    path = tmp_path / "table.csv"
    path.write_bytes("".join(["a,b\r\n", *(f"{letter},x\n" for letter in letters), 'a,"x,y"']).encode(codec))
    source = TextSource.of(str(path), ReadOptions(encoding=codec), ",", block)
    found = [
        tuple(row.values())
        for batch in source.batches({"a": TEXT, "b": TEXT}, 9)
        for row in batch.to_pylist()
    ]
    assert found == [*((letter, "x") for letter in letters), ("a", "x,y")]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("told", [True, False])
def test_a_mark_tells_the_encoding(tmp_path, codec, told):
    path = tmp_path / "table.csv"
    path.write_bytes("ä,b\n1,ü\n".encode(codec))
    source = open_csv(str(path), ReadOptions(encoding=codec if told else None))
    assert source.fields.names == ["ä", "b"]
    assert [batch.to_pylist() for batch in source.batches({"b": TEXT}, 9)] == [[{"b": "ü"}]]


def test_a_mark_that_is_absent_or_another_is_told(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("a\n1\n".encode("utf-16-be"))
    with pytest.raises(InvalidData, match=r"no byte order mark; give --encoding utf-16-le or utf-16-be"):
        open_csv(str(path), ReadOptions(encoding="utf-16"))
    path.write_bytes("a\n1\n".encode("utf-16"))
    with pytest.raises(
        InvalidData, match="begins with the byte order mark of utf-16-le, not iso8859-1; leave --encoding out"
    ):
        open_csv(str(path), ReadOptions(encoding="latin-1"))


@pytest.mark.parametrize("block", [3, 2**22])
@pytest.mark.parametrize(
    ("codec", "octets"),
    [("cp1252", b"\x81"), ("ascii", b"\xe4"), ("cp932", b"\x81"), ("utf-16-le", b"\x00\xd8")],
)
def test_a_line_that_is_spelled_in_another_way_is_named(tmp_path, codec, octets, block):
    path = tmp_path / "table.csv"
    path.write_bytes("a\n1\n2\n".encode(codec) + octets + "\n3\n".encode(codec))
    source = TextSource.of(str(path), ReadOptions(encoding=codec), ",", block)
    with pytest.raises(InvalidData, match=f"line 4 is not {codec}; give another --encoding"):
        list(source.batches({"a": TEXT}, 9))


def test_names_of_encodings_are_those_of_python():
    assert [_codec(name) for name in ("Latin1", "UTF8", "windows-1252", "SJIS")] == [
        "iso8859-1",
        "utf-8",
        "cp1252",
        "shift_jis",
    ]
