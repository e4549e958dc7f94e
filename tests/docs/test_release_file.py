"""The specification of the release file says what releases are, neither less nor more."""

import copy
import json
import math
import re
from pathlib import Path

import attrs
import numpy as np
import pytest
from dpkit_model_trees import TreesModel
from jsonschema import Draft202012Validator

from dpkit_core import Account, Budget, Column, Dataset, Ledger, Neighboring, Release, Schema, compose
from dpkit_core.privacy import events
from dpkit_core.privacy.events import EVENT_TYPES, event_to_json
from dpkit_core.release.certificate import Certificate, PartRecord, Witness
from dpkit_core.release.kinds import CORE_KINDS, OWN_KINDS

ROOT = Path(__file__).parents[2]
SPECIFICATION = json.loads((ROOT / "docs/reference/release-file.schema.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/reference/release-file.md").read_text(encoding="utf-8")
VALIDATOR = Draft202012Validator(SPECIFICATION)
DEFINED = SPECIFICATION["$defs"]
OLD = sorted(ROOT.glob("tests/compat/v*/released/*.json"))


def flaws(document):
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]


@pytest.fixture(scope="module")
def release():
    columns = (
        Column("a", lower=0, upper=1, missing="indicator"),
        Column("b", "categorical", categories=("x", "y")),
        Column("d", "date", 0, 9, format="%d.%m.%Y"),
        Column("e", symbol="€", decimal=",", thousands="\u2019"),
        Column("h", buckets=3, missing="indicator"),
    )
    schema = Schema(columns, Column("z", lower=0, upper=1), assertions=("it is made up",), records_about=500)
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.uniform(size=(500, 10)), rng.uniform(size=500), schema)
    ledger = Ledger.in_memory()
    ledger.add(Account("table", schema, Budget(9.0, 1e-3)))
    plan = compose(scorer="kendall", selector="peel", regressor="winsorized_least_squares").plan(
        schema, Budget(2.0, 1e-6), k=2
    )
    return plan.run(data, paid_by=ledger.payer("table"))


@pytest.fixture(scope="module")
def trees():
    schema = Schema.numeric(["a", "b"], target="z", bounds={"a": (0, 1), "b": (0, 1), "z": (0, 1)})
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.uniform(size=(900, 2)), rng.uniform(size=900), schema)
    plan = compose(regressor="boosted_trees", options={"regressor": {"trees": 3}}).plan(
        schema, Budget(9.0, 1e-6)
    )
    return plan.run(data)


def test_the_specification_is_a_json_schema():
    Draft202012Validator.check_schema(SPECIFICATION)


@pytest.mark.parametrize("made", ["release", "trees"])
def test_releases_are_as_specified(made, request):
    document = json.loads(request.getfixturevalue(made).to_json())
    assert not flaws(document)
    document["signature"] = {"algorithm": "Ed25519", "key": "0" * 64, "value": "f" * 128}
    assert not flaws(document)


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_releases_of_old_are_as_specified(path):
    assert not flaws(json.loads(path.read_text(encoding="utf-8")))


def some_value(kind, field):
    """Return a value that a field of an event accepts."""
    known = {
        "neighboring": Neighboring.ADD_OR_REMOVE_ONE,
        "event": events.Gaussian(1.0),
        "events": (events.PureDP(1.0), events.PureDP(2.0)),
        "orders": (2.0, float("inf")),
        "divergences": (1.0, float("inf")),
        "noise_multipliers": (1.0, 2.0),
        "sensitivities": (1.0, 2.0),
        "shape": (3,) if kind is not events.NonSphericalGaussian else (2, 3),
        "proof": "somewhere",
        "reason": "none",
        "rate": 0.5,
        "delta": 1e-6,
        "leak": 1e-6,
        "epsilon": 0.5,
        "rounds": 4,
        "units": True,
    }
    return known.get(field, 2)


def test_events_are_as_specified_and_none_is_left_out():
    listed = {each["$ref"].removeprefix("#/$defs/") for each in DEFINED["event"]["oneOf"]}
    assert listed == set(EVENT_TYPES), "add new events to docs/reference/release-file.schema.json and .md"
    validator = Draft202012Validator({"$defs": DEFINED, "$ref": "#/$defs/event"})
    for name, kind in EVENT_TYPES.items():
        fields = [field.name for field in attrs.fields(kind)]
        assert set(DEFINED[name]["properties"]) == {"type", "stage", *fields}
        full = json.loads(
            json.dumps(event_to_json(kind(**{field: some_value(kind, field) for field in fields})))
        )
        assert set(full) == {"type", *fields}
        alone = Draft202012Validator({"$defs": DEFINED, **DEFINED[name]})
        assert [error.message for error in alone.iter_errors(full)] == []
        assert validator.is_valid(full), name
        for key in DEFINED[name]["required"]:
            assert not validator.is_valid({k: v for k, v in full.items() if k != key}), (name, key)
        assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize(
    ("name", "cls"),
    [("part", PartRecord), ("witness", Witness), ("column", Column), ("certificate", Certificate)],
)
def test_objects_have_the_specified_keys(name, cls):
    fields = {field.name for field in attrs.fields(cls)} - ({"name"} if cls is Column else set())
    assert set(DEFINED[name]["properties"]) == fields


def test_kinds_of_models_are_as_specified():
    kinds = {*CORE_KINDS, *OWN_KINDS}
    assert kinds == {
        each["properties"]["kind"]["const"]
        for each in DEFINED.values()
        if "const" in each.get("properties", {}).get("kind", {})
    }
    assert kinds <= set(re.findall(r"^\| `([a-z -]+)` \|", PAGE, flags=re.MULTILINE))


def leaf(tree, shape, record):
    """Return the leaf of a record, as the page says."""
    place, depth = 0, len(tree["leaves"]).bit_length() - 1
    for level in range(depth):
        at = level if shape == "oblivious" else 2**level - 1 + place
        feature, threshold = tree["splits"][at]
        value = record[feature]
        right = not math.isnan(value) and (threshold is None or value > threshold)
        place = 2 * place + right
    return tree["leaves"][place]


@pytest.mark.parametrize("shape", ["oblivious", "complete"])
def test_trees_predict_what_the_page_says(shape):
    splits = [(0, 0.5), (1, None), (1, 0.25)][: 2 if shape == "oblivious" else 3]
    model = TreesModel(
        ("a", "b"), shape, [splits, splits[::-1]], [[1.0, 2.0, 4.0, 8.0], [16.0, 32.0, 64.0, 128.0]], 0.5
    )
    document = json.loads(json.dumps(model.to_document()))
    assert Draft202012Validator({"$defs": DEFINED, "$ref": "#/$defs/trees"}).is_valid(document)
    values = [math.nan, 0.1, 0.25, 0.5, 0.9]
    X = np.array([(a, b) for a in values for b in values])
    expected = [0.5 + sum(leaf(tree, shape, record) for tree in document["trees"]) for record in X]
    assert model.predict(X).tolist() == expected
    assert len(set(expected)) >= 4


def test_every_key_is_explained():
    top, certificate = PAGE.split("## The certificate")[0], PAGE.split("## The certificate")[1]
    for key in SPECIFICATION["properties"]:
        assert f"| `{key}` |" in top
    for key in DEFINED["certificate"]["properties"]:
        assert f"`{key}`" in certificate.split("## Events")[0]


def places(value, path=()):
    """Yield the path of every value inside of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def changed(document, path, value):
    """Return the document with another value in one place."""
    if not path:
        return value
    other = copy.copy(document)
    other[path[0]] = changed(document[path[0]] if len(path) > 1 else None, path[1:], value)
    return other


FREE = {"options", "measure"}  # whatever parts and measures say


@pytest.mark.slow
def test_what_the_reader_refuses_for_its_type_the_specification_does_not_allow(release):
    """A value is replaced by a truth value, or by text where it is one; each third, as each takes a while."""
    document = json.loads(release.to_json())
    tried = 0
    for path in [*places(document)][::3]:
        if FREE & set(path) or path[-1] == "coefficients":
            continue
        value = document
        for key in path:
            value = value[key]
        other = changed(document, path, "text" if isinstance(value, bool) else True)
        assert flaws(other), path
        tried += 1
    assert tried > 25


@pytest.mark.parametrize(
    "where", [(), ("certificate",), ("certificate", "schema"), ("certificate", "budget")]
)
def test_an_unknown_key_is_refused_by_reader_and_specification(release, where):
    other = changed(json.loads(release.to_json()), (*where, "besides"), 1)
    assert flaws(other)
    with pytest.raises(Exception, match="besides"):
        Release.from_document(other)
