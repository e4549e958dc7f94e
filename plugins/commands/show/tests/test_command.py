"""``dpkit show``: what a part says of itself when it is asked."""

import json

import attrs
import pytest
from dpkit_command_show.asking import _options

from dpkit_core.validators import whole_number

pytestmark = pytest.mark.usefixtures("parts")


def test_show_of_a_scorer_asks_it_for_its_sensitivity(dpkit):
    facts = json.loads(dpkit("show", "scorer", "large", "--format", "json").stdout)
    assert facts["summary"] == "How many records have a large value of the feature."
    assert facts["sensitivity"]["add-remove"] == {"every round": {"linf": 1.0, "range": 1.0}}
    assert facts["options"] == [
        {
            "name": "threshold",
            "type": "float",
            "default": 0.5,
            "accepts": "a finite number above 0",
            "about": "What counts as large.",
        }
    ]
    assert (facts["proof"], facts["reference"]) == ("a count changes by 1", "folklore")
    assert (facts["distribution"], facts["version"]) == ("dpkit-tiny", "1.2")


def test_show_of_a_regressor_finds_its_needs_by_asking(dpkit):
    printed = " ".join(dpkit("show", "regressor", "average").stdout.split())
    for words in (
        "style str plain Does not matter. one of plain, fancy",
        "Needs the mean needs a delta above 0; set --delta the mean needs bounds of the target",
        "2 releases with Laplace noise, scale 2 x sensitivity each",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("validator", "words"),
    [
        (attrs.validators.in_(range(1, 4097)), "from 1 to 4096"),
        (attrs.validators.optional(whole_number(1, 8)), "a whole number from 1 to 8"),
        (whole_number(0, 16, word="auto"), "a whole number from 0 to 16, or 'auto'"),
        (attrs.validators.in_((1, 2, 4)), "one of 1, 2, 4"),
        (attrs.validators.ge(2.0**-40), ">= 9.09495e-13"),
        (attrs.validators.le(3), "<= 3"),
    ],
)
def test_what_an_option_accepts_is_said_in_a_few_words(validator, words):
    part = attrs.make_class("Part", {"option": attrs.field(default=1, validator=validator)})
    (option,) = _options(part)
    assert option["accepts"] == words


def test_what_an_option_is_about_is_said_also_where_another_section_follows():
    part = attrs.make_class("Part", {"option": attrs.field(default=1), "other": attrs.field(default=2)})
    part.__doc__ = """Does something.

    Parameters
    ----------
    option
        How much
        of it.
    other : int
        The rest.

    References
    ----------
    Somebody 2020.
    """
    assert [option["about"] for option in _options(part)] == ["How much of it.", "The rest."]


def test_show_of_a_number_has_few_digits(dpkit, monkeypatch):
    monkeypatch.setattr("dpkit_command_show.asking.facts_of", lambda *_: {
        "name": "a", "distribution": "b", "version": "1", "summary": "c",
        "options": [{"name": "step", "type": "float", "default": 2.0**-50, "accepts": "", "about": ""}],
    })  # fmt: skip
    assert " 8.88178e-16 " in dpkit("show", "scorer", "large").stdout


def test_show_of_a_selector_and_an_accountant(dpkit):
    selector = json.loads(dpkit("show", "selector", "best", "--format", "json").stdout)
    picks = ["5 choices by the exponential mechanism, epsilon 0.2 each"]
    assert selector["events"]["replace-one"] == {"one a round": picks, "all at once": picks}
    accountant = json.loads(dpkit("show", "accountants", "basic", "--format", "json").stdout)
    assert "Laplace" in accountant["events"]["add-remove"]
    assert "Gaussian" not in accountant["events"]["add-remove"]
    assert "Disjoint" in accountant["events"]["replace-one"]
    assert "Filtered" not in accountant["events"]["add-remove"]  # of Gaussian noise alone


def test_show_of_a_name_alone_finds_its_kind(dpkit):
    assert dpkit("show", "large").stdout == dpkit("show", "scorer", "large").stdout
    result = dpkit("show", "lrge")
    assert result.exit_code != 0
    assert "no part has the name 'lrge'" in result.stderr


def test_show_of_an_unknown_name_proposes_the_nearest(dpkit):
    result = dpkit("show", "scorer", "lrge")
    assert result.exit_code == 2
    assert "Did you mean 'large'?" in result.stderr
