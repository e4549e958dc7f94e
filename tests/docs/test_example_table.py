"""The shipped table is what its schema and its README say."""

from pathlib import Path

import numpy as np
import pytest

from dpkit_core import Dataset, Schema, open_source
from dpkit_core.data.matching import unused_columns

DATA = Path(__file__).parents[2] / "docs/data"


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.read(DATA / "diamonds.schema.toml")


@pytest.fixture(scope="module")
def diamonds(schema: Schema) -> Dataset:
    return Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema)


def test_the_schema_names_every_column(schema: Schema) -> None:
    assert unused_columns(open_source(DATA / "diamonds.parquet"), schema) == ()


def test_it_has_the_records_that_its_source_publishes(diamonds: Dataset) -> None:
    # 53940 rows, price from 326 to 18823 and carat to 5.01: the description of the data set in ggplot2.
    assert diamonds.X.shape[0] == 53940
    assert (diamonds.y.min(), diamonds.y.max()) == (326, 18823)
    assert diamonds.X[:, diamonds.names.index("carat")].max() == 5.01


@pytest.mark.parametrize("column", ["cut", "color", "clarity"])
def test_every_value_is_a_listed_category(diamonds: Dataset, column: str) -> None:
    mine = [j for j, feature in enumerate(diamonds.features) if feature.column == column]
    assert np.all(diamonds.X[:, mine].sum(axis=1) == 1)


def test_it_stays_small() -> None:
    assert (DATA / "diamonds.parquet").stat().st_size < 600_000
