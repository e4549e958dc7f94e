"""What notebooks show: the words that ``print`` has, escaped and whole; plans side by side; import dpkit."""

import subprocess
import sys
from html.parser import HTMLParser

import attrs
import numpy as np
import pytest

from dpkit_core import Budget, Column, Comparison, Dataset, Randomness, Schema, compose
from dpkit_core.errors import InvalidOption

SCHEMA = Schema((Column("<b>carat</b>"), Column("depth")), Column("price"))
VOID = {"br"}


class Page(HTMLParser):
    """The text of a fragment, and whether each element ends where it should."""

    def __init__(self, fragment):
        super().__init__()
        self.open, self.texts, self.elements = [], [], []
        self.feed(fragment)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def plan():
    pipeline = compose(scorer="kendall", selector="peel", regressor="winsorized_least_squares")
    return pipeline.plan(SCHEMA, Budget(3.0, 1e-6), k=1)


@pytest.fixture(scope="module")
def release(plan):
    X = np.random.default_rng(0).normal(size=(3000, 2))
    return plan.run(Dataset.from_arrays(X, X[:, 0], SCHEMA), randomness=Randomness.from_seed(1))


def test_a_release_shows_every_section_escaped(release):
    page = Page(release._repr_html_())
    for section in release.sections():
        assert section.heading in page.texts
        for text in (*section.table.sentences, *(cell for row in section.table.rows for cell in row if cell)):
            assert text in page.texts
    assert "b" not in page.elements
    assert "<b>carat</b>" in page.texts


def test_not_private_is_emphasized(release):
    assert "<li><strong>NOT PRIVATE: " in release.certificate._repr_html_()
    private = attrs.evolve(release.certificate, private=True, reasons=())
    assert "<strong>" not in private._repr_html_()


def test_a_plan_shows_its_stages_and_its_total(plan):
    page = Page(plan._repr_html_())
    assert {"selection", "peel on kendall", "regression", "winsorized_least_squares"} <= set(page.texts)
    assert any(text.startswith("Together, composed jointly: epsilon") for text in page.texts)
    assert any(text.startswith("Forecast of peel: ") for text in page.texts)


def test_plans_are_side_by_side(plan):
    half = compose(regressor="mean").plan(SCHEMA, Budget(0.5, 1e-6))
    comparison = Comparison({"k = 1": plan, "half": half})
    assert [row[0] for row in comparison.rows] == ["k = 1", "k = 1", "half"]
    assert comparison.rows[2][1:6] == ("0.5", "1e-06", "regression", "0.5", "100%")
    assert "half" in Page(comparison._repr_html_()).texts
    assert all(len(line) <= 80 for line in str(comparison).splitlines())


def test_plans_of_different_tables_are_not_compared(plan):
    other = compose(regressor="mean").plan(Schema.numeric(["a"], "y"), Budget(0.5, 1e-6))
    with pytest.raises(InvalidOption, match="'one' and 'other' are for different schemas"):
        Comparison({"one": plan, "other": other})
    with pytest.raises(InvalidOption, match="nothing to compare"):
        Comparison({})
    with pytest.raises(InvalidOption, match="plan 'text'"):
        Comparison({"text": "mean"})


def test_importing_the_name_of_the_distribution_says_what_to_import():
    done = subprocess.run([sys.executable, "-c", "import dpkit"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "from dpkit_core import Budget, Dataset, Schema, compose" in done.stderr
