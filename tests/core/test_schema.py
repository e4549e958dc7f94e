import pickle
import tomllib

import pytest

from dpkit_core import Column, Neighboring, Schema
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
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
    with pytest.raises(InvalidSchema, match=r"stands for every column.*give one, or describe the columns"):
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
        (('["Fair", "Ideal"]', "[1, 2]"), r"each in quotes"),
        (('["Fair", "Ideal"]', '"Fair"'), r"categories = 'Fair'; give a list"),
        (('["Fair", "Ideal"]', "5"), r"categories = 5; give a list"),
        (('["Fair", "Ideal"]', '["Fair", "Fair"]'), r"twice"),
        (('target = "price"', 'target = "cost"'), r"'cost'.*not among"),
        (('target = "price"', 'target = ["price"]'), r"not among"),
        (("assertions = [", "assertions = 4 # ["), r"assertions is 4; .* a list"),
        (("assertions = [", "assertions = 'x' # ["), r"assertions is 'x'; .* a list"),
        (
            ('["Fair", "Ideal"]', '["Fair", "Ideal"]\npositive = "Good"'),
            r"not one of its categories Fair, Ideal",
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


# All that is wrong, at once


def problems_of(text, names=None):
    with pytest.raises(InvalidSchema) as caught:
        Schema.from_document(tomllib.loads(text), names=names)
    return caught.value.problems


def test_everything_that_is_wrong_is_told_at_once():
    problems = problems_of(
        """
        neighborin = "add-remove"
        target = "cost"
        records = 5000
        records_about = 517
        assertions = "none"
        [columns.age]
        bounds = [0, 120]
        [columns.cut]
        categories = ["Fair", "Fair"]
        positive = "Good"
        [columns.carat]
        lower = 9
        upper = 5
        clip = "yes"
        yeo_johnson = 11
        missing = "mean"
        [columns.on]
        kind = "date"
        lower = "1.1.2020"
        upper = 3
        format = "%d.%m"
        [columns.cost]
        missing = "indicator"
        """
    )
    words = [
        "unknown key 'neighborin'",
        "assertions is 'none'",
        "'age' has an unknown key 'bounds'",
        "'cut' lists a category twice",
        "'carat' has clip = 'yes'",
        "'carat' has yeo_johnson = 11.0; the power must be from -10 to 10",
        "'carat' has missing = 'mean'",
        "'carat' has lower = 9.0 and upper = 5.0",
        "'on' has lower = '1.1.2020'",
        "'on' has upper = 3",
        "'on' has format = '%d.%m'",
        "'cost' has missing = 'indicator' and no fill",
        "the number of records, which is private under add-remove",
        "records = 5000 and records_about = 517",
        "records_about is 517, which may be a count",
    ]
    assert [word for word in words if not any(word in problem for problem in problems)] == []
    assert len(problems) == len(words)


def test_one_problem_a_line_and_one_alone_is_a_sentence():
    with pytest.raises(InvalidSchema) as caught:
        Column("a", lower=2, upper=1, clip=3)
    assert str(caught.value).splitlines() == [
        "the schema has 2 problems:",
        "  - column 'a' has clip = 3; give true or false",
        "  - column 'a' has lower = 2.0 and upper = 1.0; lower must be below upper",
    ]
    with pytest.raises(InvalidSchema, match=r"^column 'a' has clip = 3; give true or false$"):
        Column("a", clip=3)


def test_what_depends_on_a_wrong_fact_is_not_held_against_it():
    # With the bound as it should be, clip is right.
    assert (
        len(problems_of('target = "y"\n[columns.a]\nlower = "0"\nupper = 1\nclip = true\n[columns.y]')) == 1
    )
    assert (
        len(problems_of('target = "y"\n[columns.a]\nkind = "number"\ncategories = ["x"]\n[columns.y]')) == 1
    )
    # Of a relation that is none, neither is contradicted.
    for fact in ('records = 5\n[columns.a]\nkind = "numeric"', '[columns.a]\nmissing = "drop"'):
        assert len(problems_of(f'neighboring = "swap"\ntarget = "y"\n{fact}\n[columns.y]')) == 1


def test_a_wrong_description_of_all_other_columns_is_told_once():
    text = 'target = "y"\n[columns."*"]\nlower = 2\nupper = 1\n[columns.y]'
    assert len(problems_of(text, names=["y", *map(str, range(1000))])) == 1


def test_an_error_of_a_schema_survives_a_process():
    with pytest.raises(InvalidSchema) as caught:
        Column("a", clip=3, scale=4)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert copied.problems == caught.value.problems
    assert str(copied) == str(caught.value)


@pytest.mark.parametrize(
    "facts", [{"lower": "0"}, {"upper": True}, {"categories": "Fair"}, {"categories": 5}]
)
def test_a_program_is_told_what_a_file_is_told(facts):
    with pytest.raises(InvalidSchema, match="column 'a' has"):
        Column("a", **facts)


# What people write


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bounds = [0, 1]", "write lower = 0 and upper = 1 instead"),
        ("range = [0.5, 1]", "write lower = 0.5 and upper = 1 instead"),
        ('limits = "0-1"', "write lower = ... and upper = ... instead"),
        ("minimum = 0", "did you mean lower[?] It may have buckets, categories, clip"),
        ("uper = 0", "did you mean upper[?] It may have"),
        ('type = "numeric"', "did you mean kind[?]"),
        ('unit = "kg"', "did you mean symbol[?]"),
        ("zzz = 1", "an unknown key 'zzz'; it may have"),
        ('kind = "boolean"', r'leave kind out and write categories = \["no", "yes"\]'),
        ('kind = "float"', "did you mean numeric[?] It must be one of numeric, categorical, date"),
        ('kind = "string"', "did you mean categorical[?]"),
        ('kind = "timestamp"', "did you mean date[?]"),
        ('kind = "x"', "kind 'x'; it must be one of"),
        ("[columns.a.b]\nlower = 0", r'a name with a point in it needs quotes: \[columns."a.b"\]'),
        ("[b]\nlower = 0", r"a column is described under \[columns.b\]"),
        ('["b c"]\nlower = 0', r'a column is described under \[columns."b c"\]'),
    ],
)
def test_what_may_have_been_meant_is_said(line, message):
    with pytest.raises(InvalidSchema, match=message):
        Schema.from_document(tomllib.loads(f'target = "y"\n[columns.y]\n[columns.a]\n{line}'))


def test_a_target_that_is_misspelled_is_met_by_the_nearest_column():
    with pytest.raises(
        InvalidSchema, match=r"'prize', which is not among its columns a, price; did you mean 'p"
    ):
        Schema.from_document({"target": "prize", "columns": {"a": {}, "price": {}}})


def test_a_column_with_categories_is_categorical_without_saying_so():
    document = {"target": "y", "columns": {"a": {}, "y": {"categories": ["no", "yes"]}}}
    schema = Schema.from_document(document)
    assert schema.target == Column("y", "categorical", categories=("no", "yes"))
    assert schema.target == Column("y", categories=["no", "yes"])
    assert schema.outcome.category == "yes"
    assert schema.to_document()["columns"]["y"]["kind"] == "categorical"


def test_a_target_of_text_is_offered_as_classes():
    document = {"target": "sold", "columns": {"a": {}, "sold": {"kind": "categorical"}}}
    with pytest.raises(InvalidSchema, match=r'under \[columns.sold\].*categories = \["no", "yes"\]'):
        Schema.from_document(document)


# How text is written


WRITTEN = {
    "cost": Column("cost", symbol="€", decimal=",", thousands="."),
    "admitted": Column("admitted", "date", format="%d.%m.%Y"),
    "share": Column("share", symbol="%"),
    "plain": Column("plain"),
    "cut": Column("cut", categories=("Fair", "Good")),
}


def test_a_schema_says_how_dates_and_numbers_are_written():
    schema = Schema(tuple(WRITTEN.values()), Column("y"))
    assert {feature.column: feature.written for feature in schema.features} == {
        "cost": Written("numeric", None, "€", ",", "."),
        "admitted": Written("date", "%d.%m.%Y"),
        "share": Written("numeric", None, "%"),
        "plain": Written(),
        "cut": Written("categorical", categories=("Fair", "Good")),
    }
    assert WRITTEN["cost"].written_by(Written()) == Written("numeric", None, "€", ",", ".")


def test_the_habits_of_a_file_hold_where_a_column_says_nothing():
    schema = Schema(tuple(WRITTEN.values()), Column("y"))
    read = schema.read_with(ReadOptions(decimal=",", thousands=" ", missing=["?"]))
    habits = {feature.column: feature.written for feature in (*read.features, read.outcome)}
    assert habits["cost"] == Written("numeric", None, "€", ",", ".", ("?",))
    assert habits["share"] == Written("numeric", None, "%", ",", " ", ("?",))
    assert habits["plain"] == habits["y"] == Written("numeric", None, None, ",", " ", ("?",))
    assert habits["cut"].missing == habits["admitted"].missing == ("?",)
    # A column that says one of the two says both, so that they never collide.
    point = Schema((Column("a", thousands=","),), Column("y")).read_with(ReadOptions(decimal=","))
    assert point.features[0].written == Written(decimal=".", thousands=",")


def test_the_habits_of_a_file_are_no_facts():
    schema = Schema(tuple(WRITTEN.values()), Column("y"))
    read = schema.read_with(ReadOptions(decimal=",", missing=("?",)))
    assert read == schema
    assert hash(read) == hash(schema)
    assert read.features == schema.features
    assert read.outcome == schema.outcome
    assert read.to_document() == schema.to_document()
    assert repr(read) == repr(schema)
    # Equal columns are made to features once; not across files of other habits.
    assert schema.features[3].written == Written()
    assert read.features[3].written.decimal == ","


def test_how_text_is_written_is_in_a_document_only_where_it_is_said():
    schema = Schema((*WRITTEN.values(), Column("none", thousands="")), Column("y"))
    document = schema.to_document()
    assert Schema.from_document(document) == schema
    columns = document["columns"]
    assert columns["cost"] == {"kind": "numeric", "symbol": "€", "decimal": ",", "thousands": "."}
    assert columns["admitted"] == {"kind": "date", "format": "%d.%m.%Y"}
    assert columns["none"] == {"kind": "numeric", "thousands": ""}
    assert columns["plain"] == {"kind": "numeric"}
    assert list(columns["cut"]) == ["kind", "categories"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kind": "date", "format": "%d.%m"}, "write year, month and day"),
        ({"kind": "date", "format": "%Y-%m"}, "write year, month and day"),
        ({"kind": "date", "format": "dd.mm.yyyy"}, "as strptime codes"),
        ({"kind": "date", "format": "%d.%m.%Q"}, "as strptime codes"),
        ({"kind": "date", "format": "%d.%d.%m.%Y"}, "as strptime codes"),
        ({"kind": "date", "format": "23.%m.%Y"}, "write year, month and day"),
        ({"kind": "date", "format": "%d.%m.%Y\x1b"}, "as strptime codes"),
        ({"kind": "date", "format": 5}, "as strptime codes"),
        ({"format": "%d.%m.%Y"}, 'is numeric and has format; .* set kind = "date", or remove it'),
        ({"kind": "date", "symbol": "€"}, "is date and has symbol; that is for numbers"),
        ({"categories": ("a",), "decimal": ","}, "is categorical and has decimal"),
        ({"kind": "date", "thousands": ","}, "is date and has thousands"),
        ({"symbol": ""}, "has symbol = ''"),
        ({"symbol": "5"}, "without digits"),
        ({"symbol": "-"}, "without digits, signs"),
        ({"symbol": ".,"}, "without digits"),
        ({"symbol": " €"}, "surrounding spaces"),
        ({"symbol": "\x1b"}, "has symbol"),
        ({"decimal": ";"}, 'give "." or ","'),
        ({"decimal": 1}, 'give "." or ","'),
        ({"thousands": ";"}, "give a comma, a point, a space"),
        ({"decimal": ",", "thousands": ","}, 'the same decimal; set decimal = "."'),
        ({"thousands": "."}, 'a point by default; set decimal = ","'),
    ],
)
def test_what_cannot_be_written_so_is_refused(facts, message):
    with pytest.raises(InvalidSchema, match=message):
        Column("a", **facts)


@pytest.mark.parametrize(
    "format", ["%d.%m.%Y", "%m/%d/%y", "%Y%m%d", "%d %b %Y", "%Y-%jT%H:%M:%S%z", "%G-W%V-%u", "am %d.%m.%Y"]
)
def test_whatever_says_the_day_is_a_format(format):
    assert Column("a", "date", format=format).written_by(Written()).format == format


@pytest.mark.parametrize("symbol", ["€", "%", "kg", "US$", "Fr.", "m²", "°C"])
def test_whatever_says_nothing_of_the_number_is_a_symbol(symbol):
    assert Column("a", symbol=symbol).written_by(Written()).symbol == symbol


def test_null_is_no_fact():
    with pytest.raises(InvalidSchema, match="has lower = null; leave the key out"):
        Schema.from_document({"target": "y", "columns": {"a": {"lower": None}, "y": {}}})


def test_categories_that_list_nothing_make_no_number_of_a_column():
    (problem,) = problems_of('target = "y"\n[columns.a]\ncategories = []\n[columns.y]')
    assert problem == "column 'a' has categories = []; list all that it may hold, each in quotes"


def test_a_fill_without_a_rule_is_told_without_words_of_python():
    (problem,) = problems_of('target = "y"\n[columns.a]\nfill = 3\n[columns.y]')
    assert "has a fill and no rule for missing values, which does not use it" in problem
