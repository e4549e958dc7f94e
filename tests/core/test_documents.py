"""Files of others: whatever is in them is read as it was meant, or refused in one sentence."""

import io
import json
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pytest

from dpkit_core import Budget, Dataset, Neighboring, Release, Schema, compose, open_source
from dpkit_core.errors import InvalidData, InvalidRelease, InvalidSchema
from dpkit_core.files.documents import (
    DEEPEST,
    ENDLESS,
    REQUIRED,
    Fields,
    as_document,
    flaw_of,
    from_document,
    parse_toml,
    read_json,
    read_toml,
    require_plain,
)

HUGE = "1" * 400


@pytest.fixture(scope="module")
def release(toys, schema, data):
    pipeline = compose(regressor=toys.MeanRegressor(), accountant=toys.PureAccountant())
    return pipeline.plan(schema, Budget(1.0)).run(data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is given twice"),
        (f'{{"a": {HUGE}}}', "larger than any number"),
        ('{"a": 1e999}', "larger than any number"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": -Infinity}', "Infinity is no number"),
        ('{"a": "\\ud800"}', "half of a character"),
        ('{"\\u001b[2J": 1}', "control character"),
        ("[" * 100 + "]" * 100, "nested more than"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a": ', "not valid JSON"),
        ('"\xff', "not text in UTF-8"),
    ],
)
def test_json_that_no_program_writes_is_refused(tmp_path, text, words):
    path = tmp_path / "f.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidRelease, match=words) as caught:
        read_json(path, "release", InvalidRelease)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = 1\na = 2", "not valid TOML"),
        (f"a = {HUGE}", "64 bits"),
        (f"a = {'1' * 5000}", "not valid TOML"),
        ("a = " + "[" * 2000, "nested too deeply"),
        ("a = 2024-01-01", "a date; write it as text"),
        ('a = "\\u001b"', "control character"),
    ],
)
def test_toml_that_nobody_needs_is_refused(tmp_path, text, words):
    path = tmp_path / "f.toml"
    path.write_text(text)
    with pytest.raises(InvalidSchema, match=words):
        read_toml(path, "schema", InvalidSchema)


def test_large_numbers_are_numbers_and_whole_ones_stay_whole(tmp_path):
    path = tmp_path / "f.json"
    path.write_text('{"a": 100000000000000000000, "b": 9007199254740993}')
    assert read_json(path, "release", InvalidRelease) == {"a": 1e20, "b": 9007199254740993}


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("dpkit_core.files.documents.LARGEST_JSON", 2**20)
    (tmp_path / "f").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(InvalidRelease, match="larger than 1 MiB"):
        read_json(tmp_path / "f", "release", InvalidRelease)


def test_a_path_with_a_zero_byte_is_told():
    for read in (Release.read, Schema.read):
        with pytest.raises((InvalidRelease, InvalidSchema), match="null byte"):
            read("a\0b")


def test_what_is_no_plain_data_is_refused():
    for document in ({1: 2}, {"a": object()}, {"a": 10**400}, [0] and {"a": {"b": b"c"}}):
        with pytest.raises(InvalidRelease):
            require_plain(document, "it", InvalidRelease)
    nested = []
    for _ in range(DEEPEST - 1):
        nested = [nested]
    require_plain(nested, "it", InvalidRelease)
    with pytest.raises(InvalidRelease, match="nested"):
        require_plain([nested], "it", InvalidRelease)


def test_text_that_can_be_printed_has_no_flaw():
    for text in ("", "a b", "Gr\u00f6\u00dfe", "\U0001f600", "two\nlines\tand a tab"):
        assert flaw_of(text) is None


def test_fields_are_asked_for_by_type_and_none_may_be_left():
    fields = Fields({"a": "x", "n": 1, "t": True, "z": None, "l": ["a"]}, "it", InvalidRelease)
    facts = (("a", str), ("n", float), ("n", int), ("t", bool), ("l", tuple[str, ...]))
    assert [fields.read(*fact) for fact in facts] == ["x", 1, 1, True, ("a",)]
    for kind in (float, tuple[str, ...], Mapping[str, Any], int, bool):
        with pytest.raises(InvalidRelease, match="it: a is 'x'; it must be"):
            fields.read("a", kind)
    with pytest.raises(InvalidRelease, match="it: t is True"):
        fields.read("t", float)
    with pytest.raises(InvalidRelease, match="absent is missing"):
        fields.read("absent", str)
    with pytest.raises(InvalidRelease, match="there is no 'z'"):
        fields.close()
    assert (fields.rest(), fields.value("z")) == ({"z": None}, None)
    fields.close()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d.update(certificate="x"), "certificate is 'x'"),
        (lambda d: d.update(certificate=None), "certificate is None"),
        (lambda d: d["certificate"].update(randomness=1), "randomness is 1"),
        (lambda d: d["certificate"].update(outcome={}), "outcome is {}"),
        (lambda d: d["certificate"].update(epsilon=10**400), "whole number of more than"),
        (lambda d: d["certificate"].update(epsilon=True), "epsilon is True"),
        (lambda d: d["certificate"].update(reasons="none"), "reasons is 'none'"),
        (lambda d: d["certificate"].update(schema=[]), r"schema is \[\]"),
        (lambda d: d["certificate"]["events"].append("x"), "events is"),
        (lambda d: d["certificate"]["events"][0].update(noise_multiplier="4"), "noise_multiplier is '4'"),
        (lambda d: d["certificate"]["events"][0].update(noise_multiplier=True), "noise_multiplier is True"),
        (lambda d: d["certificate"]["events"][0].update(shape="ab"), "shape is 'ab'"),
        (lambda d: d["certificate"]["parts"][0].pop("proof"), "proof is missing"),
        (lambda d: d["certificate"]["parts"][0].update(name=5), "name is 5"),
        (lambda d: d["certificate"]["budget"].update(epsilon="1"), "epsilon is '1'"),
        (lambda d: d["certificate"].pop("budget"), "budget is missing"),
        (lambda d: d.update(format_version=0), "No dpkit writes that one"),
        (lambda d: d.update(format_version="1"), "format_version is '1'"),
        (lambda d: d.update(format_version=2), "Upgrade dpkit"),
        (lambda d: d.update(surprise=1), "there is no 'surprise'"),
        (lambda d: d.update(selected=[1]), "selected is"),
        (lambda d: d.update(refusal=1), "refusal is 1"),
    ],
)
def test_a_release_that_is_none_is_told_in_a_sentence(release, tmp_path, edit, words):
    document = release.to_document()
    edit(document)
    with pytest.raises(InvalidRelease, match=words):
        Release.from_document(document)


def test_an_event_with_many_others_inside_is_told(release):
    event = {"type": "PureDP", "epsilon": 1.0}
    for _ in range(500):
        event = {"type": "Repeated", "count": 1, "event": event}
    document = release.to_document()
    document["certificate"]["events"] = [{"stage": "regression", **event}]
    with pytest.raises(InvalidRelease, match="nested more than"):
        Release.from_document(document)


def test_schemas_and_releases_take_paths_as_text(release, tmp_path):
    release.write(str(tmp_path / "r.json"))
    assert Release.read(str(tmp_path / "r.json")) == release
    (tmp_path / "s.toml").write_text('target = "y"\n[columns.a]\n[columns.y]\n')
    assert Schema.read(str(tmp_path / "s.toml")).target.name == "y"


@pytest.mark.parametrize("name", ["a\ud800", "a\x1b[2J", 5])
def test_a_name_that_no_file_could_hold_is_refused(name):
    with pytest.raises(InvalidSchema, match="rename it"):
        Schema.numeric([name], "y")


# Archives of arrays


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as made:
        for name, content in members.items():
            made.writestr(name.replace("_npy", ".npy"), content)
    return path


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


X, Y = as_npy(np.ones((3, 2))), as_npy(np.ones(3))


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"X": b"text", "y_npy": Y}, "not an NPZ file of plain arrays"),
        ({"X_npy": X.replace(b"(3, 2)", b"(9, 9)"), "y_npy": Y}, "not an NPZ file of plain arrays"),
        (
            {"X_npy": X.replace(b"(3, 2), }            ", b"(999999999999, 2), }"), "y_npy": Y},
            "not an NPZ file of plain arrays",
        ),
        ({"X_npy": X[:40], "y_npy": Y}, "not an NPZ file of plain arrays"),
        ({"X_npy": X, "y_npy": Y, "names_npy": as_npy(np.array("a"))}, r"names of shape \(\)"),
        ({"X_npy": X, "y_npy": Y, "names_npy": as_npy(np.array(["a", "\ud800"]))}, "half of a character"),
        ({"X_npy": as_npy(np.ones((3, 2), dtype="M8[s]")), "y_npy": Y}, "not an NPZ file of plain arrays"),
    ],
)
def test_an_archive_that_is_not_what_it_says_is_refused(tmp_path, members, words):
    with pytest.raises(InvalidData, match=words):
        open_source(archive(tmp_path / "t.npz", **members))


def test_an_array_beyond_the_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("dpkit_source_npz.archives._memory", lambda: 40.0)
    with pytest.raises(InvalidData, match="does not fit in this machine's memory"):
        open_source(archive(tmp_path / "t.npz", X_npy=X, y_npy=Y))


def test_arrays_are_read_as_numpy_reads_them(tmp_path):
    table = np.asfortranarray(np.arange(6.0).reshape(3, 2))
    np.savez_compressed(tmp_path / "t.npz", X=table, y=np.array([1, 2, 3], dtype=">i2"), names=["a", "b"])
    data = Dataset.from_source(open_source(tmp_path / "t.npz"), Schema.numeric(["b"], "y"))
    assert data.X.tolist() == [[1.0], [3.0], [5.0]]
    assert data.y.tolist() == [1.0, 2.0, 3.0]


def test_a_release_of_another_kind_of_model_is_kept(release):
    document = release.to_document()
    document["model"] = {"kind": "of somebody else", "numbers": [1.0]}
    assert json.loads(json.dumps(Release.from_document(document).to_document()))["model"] == document["model"]


# What people often get wrong in a line of TOML


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[columns.Patient ID]", '[columns."Patient ID"]'),
        ("[columns.Größe] # in cm", '[columns."Größe"]'),
        ("  [columns.price ($)]", '[columns."price ($)"]'),
        ("[columns.a.b c]", '[columns.a."b c"]'),
        ("Patient ID = 1", '"Patient ID" = ...'),
        ("[columns.a", 'line 3 has no "]" at its end'),
        ("[columns.a]", "line 3 has a second [columns.a]; merge the two"),
        ("lower = ", "line 3, lower, has nothing after the =; write a value, or put a # before the line"),
        ("lower = # not known", "lower, has nothing after the ="),
        ("lower 0", 'no "=" in it; write lower = ...'),
        ("lower: 0", 'no "=" in it; write lower = ...'),
        ("lower = 0,5", "has a comma in a number; write a decimal point"),
        ("lower = 4,011.56", "no thousands separators"),
        ("lower = .5", "write 0.5"),
        ("lower = 5.", "write 0.5 or 5.0"),
        ("clip = True", "has a capital letter; write true or false"),
        ("kind = numeric", 'kind, has text without quotes; write "..."'),
        ("symbol = €", 'symbol, has text without quotes; write "..."'),
        ("categories = [no, yes]", 'text without quotes; write ["...", "..."]'),
    ],
)
@pytest.mark.parametrize("end", ["", "\n", "\r\n[columns.b]\r\nupper = 1\r\n"])
def test_a_slip_is_answered_by_what_to_write(line, words, end):
    with pytest.raises(InvalidSchema) as caught:
        parse_toml(f"[columns.a]\nupper = 1\n{line}{end}", "schema s.toml", InvalidSchema)
    assert str(caught.value).startswith("schema s.toml is not valid TOML: line 3")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'lower = "a',
        "lower = 01",
        "lower = [1 2]",
        'x = "\\d"',
        "a = {b = 1",
        "a = [\nno,\nyes]",
        "'x",
        "[]",
        "=",
    ],
)
def test_of_any_other_slip_the_parser_says_the_place(text):
    with pytest.raises(InvalidSchema, match=r"not valid TOML: [^\n]*\(at (line \d, column|end of document)"):
        parse_toml(text, "schema", InvalidSchema)


def test_a_slip_shows_no_value():
    with pytest.raises(InvalidSchema) as caught:
        parse_toml("[ledger]\npassword = hunter2", "policy", InvalidSchema)
    assert "hunter2" not in str(caught.value)


def test_a_mark_at_the_beginning_of_a_file_is_no_slip(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text("a = 1", encoding="utf-8-sig")
    assert read_toml(path, "schema", InvalidSchema) == {"a": 1}


@attrs.frozen
class Inner:
    size: int = attrs.field(validator=attrs.validators.ge(1))
    share: float = attrs.field(default=0.5, metadata=REQUIRED)


@attrs.frozen
class Outer:
    kind: Neighboring
    title: str | None
    inner: Inner
    several: tuple[Inner, ...] = ()
    named: Mapping[str, Inner] = attrs.field(factory=dict)
    schema: Schema | None = None
    given: str = "by hand"


FULL = {
    "kind": "add-remove",
    "title": None,
    "inner": {"size": 2, "share": 0.5},
    "several": [{"size": 3, "share": 1.0}],
    "named": {"a": {"size": 4, "share": 0.25}},
    "schema": {
        "neighboring": "add-remove",
        "target": "y",
        "columns": {"x": {"kind": "numeric"}, "y": {"kind": "numeric"}},
    },
}


def test_attrs_classes_are_written_and_read_by_the_types_of_their_fields():
    outer = from_document(Outer, FULL, "it", InvalidRelease)
    assert (outer.kind, outer.title, outer.given) == (Neighboring.ADD_OR_REMOVE_ONE, None, "by hand")
    assert (outer.several, outer.named) == ((Inner(3, 1.0),), {"a": Inner(4, 0.25)})
    assert outer.schema.target.name == "y"
    assert as_document(outer) == FULL
    least = {key: FULL[key] for key in ("kind", "title", "inner")}
    assert as_document(from_document(Outer, least, "it", InvalidRelease)) == least | {"named": {}}
    assert from_document(Outer, least, "it", InvalidRelease, given="elsewhere").given == "elsewhere"


@attrs.frozen
class Numbers:
    some: tuple[float, ...]
    any: tuple[float, ...] = attrs.field(metadata=ENDLESS)


def test_infinity_is_read_only_where_it_is_expected():
    document = {"some": [1, 2.5], "any": ["infinity", 3.0]}
    numbers = from_document(Numbers, document, "it", InvalidRelease)
    assert (numbers.some, numbers.any) == ((1, 2.5), (math.inf, 3.0))
    assert as_document(numbers) == document
    for wrong in ({"some": ["infinity"]}, {"any": ["-infinity"]}, {"any": [math.inf]}, {"any": "infinity"}):
        with pytest.raises(InvalidRelease, match=f"{next(iter(wrong))} is"):
            from_document(Numbers, document | wrong, "it", InvalidRelease)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"kind": "both"}, "it: kind is 'both'; it must be one of"),
        ({"title": 5}, "it: title is 5; it must be text"),
        ({"inner": {"size": 1}}, "it, inner: share is missing"),
        ({"inner": {"size": 0, "share": 0.5}}, "it, inner: 'size' must be >= 1"),
        ({"inner": {"size": 1, "share": 0.5, "x": 1}}, "it, inner: there is no 'x'; it has share, size"),
        ({"several": {}}, "it: several is {}; it must be a list"),
        ({"several": [FULL["inner"], {}]}, "it, several, item 2: size is missing"),
        ({"named": {"a": 1}}, "it, named: a is 1; it must be a mapping"),
        ({"schema": {"target": "y"}}, "it, schema: "),
        ({"other": 1}, "it: there is no 'other'; it has given, inner"),
    ],
)
def test_an_edited_document_is_refused_with_the_place_and_by_the_error_of_the_whole(edit, words):
    with pytest.raises(InvalidRelease) as caught:
        from_document(Outer, FULL | edit, "it", InvalidRelease)
    assert str(caught.value).startswith(words)
    assert type(caught.value) is InvalidRelease
