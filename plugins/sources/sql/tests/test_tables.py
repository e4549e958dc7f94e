"""A table is found by its name, exactly."""

import pytest
from dpkit_source_sql.tables import Relation, chosen

from dpkit_core.errors import InvalidOption

THERE = [
    Relation("public", "visits"),
    Relation("public", "Visits of 2020"),
    Relation("archive", "visits", alone=False),
    Relation("archive", "old.visits", alone=False),
    Relation("public", 'the "new" ones'),
]


@pytest.mark.parametrize(
    ("wanted", "sql"),
    [
        ("visits", '"public"."visits"'),
        ('"visits"', '"public"."visits"'),
        ("public.visits", '"public"."visits"'),
        ("archive.visits", '"archive"."visits"'),
        ('archive."old.visits"', '"archive"."old.visits"'),
        ("Visits of 2020", '"public"."Visits of 2020"'),
        ('"the ""new"" ones"', '"public"."the ""new"" ones"'),
    ],
)
def test_a_name_leads_to_its_table(wanted, sql):
    assert chosen(wanted, THERE, "x").sql == sql


def test_what_is_shown_leads_back():
    for relation in THERE:
        assert chosen(relation.shown, THERE, "x") == relation


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("Visits", "did you mean visits"),
        ("vists", "did you mean visits"),
        ("archive.visit", "did you mean archive.visits"),
        ("old.visits", "did you mean"),
        ("patients", "it has visits, Visits of 2020, archive.visits"),
        ("select * from visits", "has no table or view"),
        ("a.b.c", "Queries are not accepted: create a view"),
        ('visits"; DROP TABLE visits; --', "Queries are not accepted"),
        ("", "Queries are not accepted"),
        (None, "name the table of x"),
    ],
)
def test_what_is_not_there_is_answered_by_what_is(wanted, told):
    with pytest.raises(InvalidOption, match=told):
        chosen(wanted, THERE, "x")


def test_a_long_list_is_cut():
    many = [Relation("main", f"t{number:03}") for number in range(1000)]
    with pytest.raises(InvalidOption, match="t019 and 980 more") as refusal:
        chosen(None, many, "x")
    assert len(str(refusal.value)) < 300
    with pytest.raises(InvalidOption, match="no table or view visible to you"):
        chosen(None, [], "x")
