import pytest

from dpkit_core import Column, Neighboring, Schema
from dpkit_core.errors import InvalidSchema

DIAMONDS = """
neighboring = "replace-one"
target = "price"
records = 500
assertions = ["carat was rounded by the jeweler"]

[columns.carat]
kind = "numeric"
lower = 0
upper = 5.0

[columns.cut]
kind = "categorical"
categories = ["Fair", "Ideal"]

[columns.price]
"""


@pytest.fixture
def diamonds(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(DIAMONDS, encoding="utf-8")
    return Schema.read(path)


def test_a_schema_file_says_what_is_public(diamonds):
    assert diamonds.neighboring is Neighboring.REPLACE_ONE
    assert diamonds.records == 500
    assert diamonds.target == Column("price")
    assert diamonds.columns[0].bounds == (0.0, 5.0)


def test_categories_become_one_feature_each(diamonds):
    assert [f.name for f in diamonds.features] == ["carat", "cut=Fair", "cut=Ideal"]
    assert diamonds.features[1].bounds == (0.0, 1.0)


def test_a_schema_survives_its_document(diamonds):
    assert Schema.from_document(diamonds.to_document()) == diamonds


GENES = """
target = "outcome"
[columns.age]
[columns."*"]
lower = -4
upper = 4
[columns.outcome]
"""


def test_a_star_describes_every_column_that_is_not_named(tmp_path):
    path = tmp_path / "genes.toml"
    path.write_text(GENES, encoding="utf-8")
    schema = Schema.read(path, names=["g1", "outcome", "g2", "age"])
    assert [column.name for column in schema.columns] == ["age", "g1", "g2"]
    assert [column.bounds for column in schema.columns] == [None, (-4.0, 4.0), (-4.0, 4.0)]
    assert "*" not in schema.to_document()["columns"]


def test_a_star_needs_the_table(tmp_path):
    path = tmp_path / "genes.toml"
    path.write_text(GENES, encoding="utf-8")
    with pytest.raises(InvalidSchema, match=r"stands for every column.*give it, or name the columns"):
        Schema.read(path)


def test_restricting_keeps_order_and_names_what_is_missing(diamonds):
    assert [c.name for c in diamonds.restrict(["cut", "carat"]).columns] == ["cut", "carat"]
    with pytest.raises(InvalidSchema, match=r"'color'.*carat, cut"):
        diamonds.restrict(["color"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("lower = 0", "lower = 9"), r"lower = 9.0 and upper = 5.0"),
        (("lower = 0", "lower = '0'"), r"a bound is a number"),
        (("lower = 0", "lower = nan"), r"bounds must be finite"),
        (("lower = 0", "minimum = 0"), r"unknown key 'minimum'"),
        (('kind = "numeric"', 'kind = "float"'), r"kind 'float'"),
        (('kind = "categorical"', 'kind = "numeric"'), r'kind = "categorical"'),
        (('["Fair", "Ideal"]', "[1, 2]"), r"each category as text"),
        (('["Fair", "Ideal"]', '"Fair"'), r"categories = 'Fair'; give a list"),
        (('["Fair", "Ideal"]', "5"), r"categories = 5; give a list"),
        (('["Fair", "Ideal"]', '["Fair", "Fair"]'), r"twice"),
        (('target = "price"', 'target = "cost"'), r"'cost'.*not among"),
        (('target = "price"', 'target = ["price"]'), r"not among"),
        (("assertions = [", "assertions = 4 # ["), r"assertions is 4; .* a list"),
        (("assertions = [", "assertions = 'x' # ["), r"assertions is 'x'; .* a list"),
        (
            ('["Fair", "Ideal"]', '["Fair", "Ideal"]\npositive = "Good"'),
            r"none of its categories Fair, Ideal",
        ),
        (('["Fair", "Ideal"]', '["Fair", "Ideal"]\npositive = 1'), r"in quotes"),
        (('"replace-one"', '"add-remove"'), r"number of records, which is private"),
        (('"replace-one"', '"swap"'), r"add-remove or replace-one"),
        (("records = 500", "records = 0"), r"whole number"),
        (("records = 500", "records = true"), r"whole number"),
        (("records = 500", "rows = 500"), r"unknown key 'rows'"),
        (("records = 500", "records_about = 517"), r"may be a count; .* such as 500, and only if"),
        (("records = 500", "records_about = 53940"), r"such as 50000"),
        (("records = 500", "records_about = 5e4"), r"records_about is 50000\.0; it must be a whole number"),
        (("records = 500", "records_about = true"), r"whole number of at least 1"),
        (("records = 500", "records_about = 0"), r"from 1 to 10\^18"),
        (("records = 500", "records_about = 2" + 18 * "0"), r"from 1 to 10\^18"),
        (("records = 500", "records = 500\nrecords_about = 500"), r'remove "records_about"'),
        (("[columns.price]", "[columns.price"), r"not valid TOML"),
    ],
)
def test_a_wrong_fact_is_named(tmp_path, change, message):
    path = tmp_path / "schema.toml"
    path.write_text(DIAMONDS.replace(*change), encoding="utf-8")
    with pytest.raises(InvalidSchema, match=message):
        Schema.read(path)


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(InvalidSchema, match=r"missing\.toml"):
        Schema.read(tmp_path / "missing.toml")


def test_unlisted_categories_are_an_error_only_where_they_are_needed():
    schema = Schema((Column("cut", kind="categorical"), Column("carat")), Column("price"))
    assert [f.name for f in schema.restrict(["carat"]).features] == ["carat"]
    with pytest.raises(InvalidSchema, match=r"'cut'.*list them"):
        _ = schema.features


def test_names_are_unique():
    with pytest.raises(InvalidSchema, match="'a' appears twice"):
        Schema.numeric(["a", "b"], target="a")


def test_bounds_of_an_unknown_column_are_refused():
    with pytest.raises(InvalidSchema, match="'z'"):
        Schema.numeric(["a"], target="y", bounds={"z": (0, 1)})


@pytest.mark.parametrize("relation", list(Neighboring))
@pytest.mark.parametrize("about", [1, 7, 10, 50_000, 10**12])
def test_an_order_of_magnitude_may_be_public_under_both_relations(tmp_path, relation, about):
    schema = Schema((Column("a"),), Column("y"), relation, records_about=about)
    document = schema.to_document()
    assert document["records_about"] == about
    assert Schema.from_document(document) == schema
    path = tmp_path / "schema.toml"
    path.write_text(
        f'target = "y"\nneighboring = "{relation.value}"\nrecords_about = {about}\n[columns.a]\n[columns.y]\n'
    )
    assert Schema.read(path) == schema


def test_what_is_not_said_about_records_is_not_written():
    assert "records_about" not in Schema.numeric(["a"], "y").to_document()


def test_a_schema_shows_what_was_said_of_it_and_no_defaults():
    schema = Schema((Column("a", lower=0, upper=2),), Column("y"), Neighboring.REPLACE_ONE)
    assert repr(schema.columns[0]) == "Column(name='a', lower=0.0, upper=2.0)"
    assert repr(schema) == (
        "Schema(columns=(Column(name='a', lower=0.0, upper=2.0),), target=Column(name='y'), "
        "neighboring=<Neighboring.REPLACE_ONE: 'replace-one'>)"
    )


def test_a_bound_of_zero_has_one_sign_so_that_equal_schemas_say_the_same():
    # Features are made once for equal columns, and -0.0 equals 0.0.
    column = Column("a", lower=-0.0, upper=1.0)
    assert str(column.lower) == "0.0"
    assert str(Schema((column,), Column("y", upper=-0.0, lower=-1.0)).outcome.bounds) == "(-1.0, 0.0)"
