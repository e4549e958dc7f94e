"""The commands around ``compose``."""

import json
import sys

import pytest

from dpkit_core import __version__
from dpkit_core.plugins.kinds import PARTS

COMPOSE = ("compose", "diamonds.csv", "--schema", "facts.toml", "--scorer", "large", "--selector", "best")
FULL = (*COMPOSE, "-k", "2", "--regressor", "average", "--accountant", "basic")

pytestmark = pytest.mark.usefixtures("parts")


def test_list_has_a_heading_for_each_kind_and_says_where_a_part_is_from(dpkit, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # nothing is wrapped in a file
    lines = dpkit("list").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [kind.plural for kind in PARTS.values()]
    place = lines.index("scorers")
    names = [line.split()[0] for line in lines[place + 1 : lines.index("selectors")]]
    assert names == ["correlation", "kendall", "large", "from", "lasso_votes", "screening", "spearman"]
    (large,) = (i for i, line in enumerate(lines) if line.split()[0] == "large")
    assert lines[large].split() == ["large", "Small", "parts"]
    assert lines[large + 1].split() == ["from", "dpkit-tiny", "1.2"]
    assert lines[large + 1].index("from") == lines[large].index("Small")
    assert not any("dpkit-scorer" in line for line in lines)  # what came with dpkit is of its version


@pytest.mark.parametrize("columns", [80, 60])
def test_list_breaks_no_word(dpkit, monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = dpkit("list").stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    wrapped = dpkit("list").stdout
    assert max(map(len, wrapped.splitlines())) <= columns < max(map(len, whole.splitlines()))
    assert wrapped.split() == whole.split()


@pytest.mark.parametrize("kind", ["scorer", "scorers"])
def test_list_of_a_kind_as_json(dpkit, kind):
    parts = json.loads(dpkit("list", kind, "--format", "json").stdout)
    assert {part["kind"] for part in parts} == {"scorers"}
    large = next(part for part in parts if part["name"] == "large")
    assert large["qualified"] == "dpkit-tiny:large"
    assert large["version"] == "1.2"


def test_without_a_command_help_is_printed_to_programs_too(dpkit):
    alone = dpkit()
    assert alone.exit_code == 2
    assert alone.stdout == dpkit("--help").stdout
    assert "dpkit compose DATA --target COLUMN" in alone.stdout


def test_list_of_an_unknown_kind_names_the_kinds(dpkit):
    result = dpkit("list", "methods")
    assert result.exit_code == 2
    assert "scorers, selectors, regressors, accountants, " in result.stderr
    assert "sources" in result.stderr


def test_a_source_is_listed_once_with_all_names_that_lead_to_it(dpkit):
    lines = dpkit("list", "sources").stdout.splitlines()
    assert "  -, .csv, .tsv  (dpkit-source-text)" in lines
    assert sum("CSV and TSV" in line for line in lines) == 1


def test_a_saved_plan_runs_to_the_release_of_the_same_seed(dpkit, folder):
    composed = dpkit(*FULL, "--save", "plan.toml", "--seed", 3, "--format", "json")
    ran = dpkit("run", "plan.toml", "diamonds.csv", "--seed", 3, "--output", "again.json", "--format", "json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == json.loads(composed.stdout)
    assert (folder / "again.json").exists()


def test_more_tables_than_a_plan_has_batches_are_refused_with_the_remedy(dpkit, folder):
    dpkit(*FULL, "--dry-run", "--save", "plan.toml")
    result = dpkit("run", "plan.toml", "diamonds.csv", "missing.csv")
    assert result.exit_code == 2
    assert "2 tables are given, but the plan is for one" in result.stderr
    assert "dpkit compose --batches" in result.stderr
    assert not (folder / "release.json").exists()


def test_verify_confirms_a_release_and_refutes_a_smaller_claim(dpkit, folder):
    released = json.loads(dpkit(*FULL, "--format", "json").stdout)
    result = dpkit("verify", "release.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("confirmed\n")
    released["certificate"]["epsilon"] /= 2
    (folder / "release.json").write_text(json.dumps(released))
    result = dpkit("verify", "release.json")
    assert result.exit_code == 2
    assert "NOT confirmed" in result.stdout
    as_json = dpkit("verify", "release.json", "--format", "json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["confirmed"] is False


OBSERVER = """
from dpkit_core.pipeline.observers import hookimpl

class Observer:
    '''Works six days a week.'''

    @hookimpl
    def dpkit_before_release(self, release):
        raise ValueError("not on Sundays")
"""


@pytest.fixture
def observer(site):
    site.install(
        "dpkit-observer",
        entry_points={"dpkit.hooks": {"sunday": "sunday_observer:Observer"}},
        modules={"sunday_observer": OBSERVER},
    )


@pytest.mark.usefixtures("observer")
def test_observers_are_listed_and_mentioned_beside_the_parts(dpkit):
    for word in ("observers", "hooks"):
        lines = dpkit("list", word).stdout.splitlines()
        assert [line.split() for line in lines] == [
            ["observers"],
            ["sunday", "Works", "six", "days", "a", "week"],
            ["from", "dpkit-observer", "1.0"],
        ]
    assert dpkit("list").stdout.endswith("\nObservers of every run (see `dpkit list observers`): sunday\n")
    assert "sunday_observer" not in sys.modules


@pytest.mark.usefixtures("observer")
def test_an_observer_vetoes_a_release_that_is_then_nowhere(dpkit, folder):
    result = dpkit(*FULL, "--format", "json")
    assert result.exit_code == 4
    assert "not on Sundays" in result.stderr
    assert json.loads(result.stdout)["error"]["spent"] is True
    assert not (folder / "release.json").exists()


def test_the_version_is_printed(dpkit):
    assert dpkit("--version").stdout == f"dpkit {__version__}\n"
