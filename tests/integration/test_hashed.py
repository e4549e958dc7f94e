"""Categories that nobody may list, hashed: from tables of any form to predictions and files."""

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpkit_core import Budget, Column, Dataset, Release, Schema, compose
from dpkit_core.data.schema_file import read_facts
from dpkit_core.errors import InvalidSchema
from dpkit_core.plugins.sources import open_source
from dpkit_core.release.verify import verify

ROOT = Path(__file__).parents[2]
CITIES = ["Bonn", "Köln", "", "53113", "Bonn", "São Paulo", "1.50", "NA"]
DOCUMENT: dict[str, Any] = {
    "neighboring": "add-remove",
    "target": "rent",
    "columns": {
        "city": {"kind": "categorical", "categories": "hashed", "buckets": 5, "missing": "indicator"},
        "rent": {"kind": "numeric", "lower": 0.0, "upper": 8.0},
    },
}
SCHEMA = Schema.from_document(DOCUMENT)


def by_hand(text):
    number = {"53113": "53113", "1.50": "1.5"}.get(text, text)
    place = int(hashlib.sha256(number.encode()).hexdigest()[:16], 16) % 5 if text else 5
    return [float(j == place) for j in range(6)]


def test_the_schema_says_it_in_its_file_and_reads_it_again():
    assert SCHEMA.to_document()["columns"]["city"] == DOCUMENT["columns"]["city"]
    assert Schema.from_document(SCHEMA.to_document()) == SCHEMA
    assert [feature.name for feature in SCHEMA.features] == [
        *(f"city#{j}" for j in range(5)),
        "city is missing",
    ]
    assert all(feature.bounds == (0.0, 1.0) for feature in SCHEMA.features)


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"categories": "hashed"}, "give how many, such as buckets = 32"),
        ({"buckets": 8}, 'set categories = "hashed"'),
        ({"categories": ["a"], "buckets": 8}, 'set categories = "hashed"'),
        ({"categories": "hashed", "buckets": 1}, "from 2 to 65536"),
        ({"categories": "hashed", "buckets": True}, "from 2 to 65536"),
        ({"categories": "hashed", "buckets": 8, "kind": "numeric"}, "is numeric and has buckets"),
        (
            {"categories": "hashed", "buckets": 8, "missing": "constant", "fill": "a"},
            "is hashed and has missing",
        ),
        ({"categories": "hashed", "buckets": 8, "positive": "a"}, "not one of its categories"),
        ({"categories": "hash", "buckets": 8}, "give a list of categories"),
    ],
)
def test_a_column_that_contradicts_itself_is_refused(facts, told):
    with pytest.raises(InvalidSchema, match=told):
        Schema.from_document({**DOCUMENT, "columns": {**DOCUMENT["columns"], "city": facts}})


def test_a_target_is_not_hashed():
    columns = {**DOCUMENT["columns"], "x": {"kind": "numeric"}}
    _, problems = read_facts({**DOCUMENT, "columns": columns, "target": "city"}, None)
    assert not problems
    with pytest.raises(InvalidSchema, match="target 'city' is categorical"):
        Schema.from_document({**DOCUMENT, "columns": columns, "target": "city"})


def test_every_form_of_a_table_gives_the_same_numbers(tmp_path):
    entries = {"city": [city or None for city in CITIES], "rent": list(range(8))}
    (tmp_path / "t.csv").write_text(
        "city,rent\n" + "".join(f"{city},{i}\n" for i, city in enumerate(CITIES)), encoding="utf-8"
    )
    pq.write_table(pa.table(entries), tmp_path / "t.parquet")
    expected = np.array([by_hand(city) for city in CITIES])
    frames = pd.DataFrame(entries), pl.DataFrame(entries), pa.table(entries)
    made = [Dataset.from_frame(frame, SCHEMA) for frame in frames]
    for name in ("t.csv", "t.parquet"):
        made.append(Dataset.from_source(open_source(str(tmp_path / name)), SCHEMA))
    for data in made:
        assert np.array_equal(data.X, expected)
    numbers = pd.DataFrame({"city": [53113, 1.5], "rent": [0, 1]})
    assert np.array_equal(Dataset.from_frame(numbers, SCHEMA).X, expected[[3, 6]])


def test_a_frame_is_described_with_buckets():
    frame = pd.DataFrame({"city": ["Bonn"], "rent": [1.0]})
    schema = Schema.from_frame(frame, "rent", buckets={"city": 32})
    assert schema.columns == (Column("city", buckets=32),)
    assert len(schema.features) == 32


def test_a_release_predicts_for_new_records_from_its_file_alone():
    rng = np.random.default_rng(0)
    cities = rng.choice(["Bonn", "Köln", "53113"], 2000)
    frame = pd.DataFrame({"city": cities, "rent": np.where(cities == "Bonn", 2.0, 6.0)})
    plan = compose(regressor="adassp").plan(SCHEMA, Budget(2.0, 1e-6))
    release = plan.run(Dataset.from_frame(frame, SCHEMA))
    assert verify(release).confirmed
    again = Release.from_document(json.loads(release.to_json()))
    new = pd.DataFrame({"city": ["Bonn", "Köln", "Paris", None]})
    predicted = again.predict(new)
    assert again.model.features == tuple(feature.name for feature in SCHEMA.features)
    rows = np.array([by_hand(city) for city in ("Bonn", "Köln", "Paris", "")])
    assert predicted.tolist() == again.predict(rows).tolist()
    assert predicted[0] + 1 < predicted[1]

    spec = importlib.util.spec_from_file_location("verifier", ROOT / "docs/reference/verify_release.py")
    verifier = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verifier)
    assert verifier.verify(release.to_json()) == (verifier.CONFIRMED, "confirmed")
    fewer = json.loads(release.to_json())
    fewer["certificate"]["schema"]["columns"]["city"]["buckets"] = 3
    assert verifier.verify(json.dumps(fewer))[0] == verifier.REFUSED
