"""A plan survives its file, and a file that the installed parts do not stand for is refused."""

import json
import tomllib

import attrs
import pytest
from dpkit_cli.planfile import plan_document, read_plan, write_plan

from dpkit_core import Budget, Column, LinearModel, Neighboring, Schema, StagePlan, compose
from dpkit_core.errors import InvalidRelease, UnknownName
from dpkit_core.files.documents import to_toml
from dpkit_core.privacy import events

SCHEMA = Schema(
    (Column("a b", lower=0, upper=1), Column("cut", "categorical", categories=("x", "y"))),
    Column("price", lower=-1.5),
    Neighboring.REPLACE_ONE,
    records=100,
    assertions=("the price list is public",),
)

PART = '''
from typing import ClassVar
import attrs
from dpkit_core import LinearModel, StagePlan
from dpkit_core.privacy import events

@attrs.frozen
class Constant:
    """A constant."""
    api: ClassVar[int] = 3
    label: str = "plain"
    limit: float | None = None
    factors: tuple[float, ...] = attrs.field(default=(1.0,), converter=tuple)

    def plan(self, request, /):
        multiplier = FACTOR / request.budget.epsilon
        return StagePlan((events.Laplace(multiplier, request.neighboring, sensitivity=1.0, shape=()),))

    def fit(self, data, plan, meter, /):
        meter.laplace(0.0, sensitivity=1.0, noise_multiplier=plan.events[0].noise_multiplier)
        return LinearModel(data.names, (0.0,) * len(data.names))
'''


@pytest.fixture
def constant(site):
    site.install(
        "dpkit-constant",
        version="1.0",
        entry_points={"dpkit.regressors": {"constant": "constant_part:Constant"}},
        modules={"constant_part": PART.replace("FACTOR", "1.0")},
    )
    return site


@pytest.fixture
def plan(constant):
    options = {"regressor": {"label": 'say "hi"', "factors": [0.1, 1e300]}}
    pipeline = compose(regressor="constant", accountant="basic", options=options)
    return pipeline.plan(SCHEMA, Budget(0.7, 1e-7))


@pytest.mark.slow
def test_a_plan_comes_back_equal(plan, tmp_path):
    write_plan(plan, tmp_path / "plan.toml")
    again = read_plan(tmp_path / "plan.toml")
    assert again.schema == plan.schema
    assert again.budget == plan.budget
    assert again.events == plan.events
    assert (again.k, again.select_share, again.epsilon) == (plan.k, plan.select_share, plan.epsilon)
    assert [part.instance for part in again.parts] == [part.instance for part in plan.parts]
    assert again.assembly.regressor.instance.factors == (0.1, 1e300)


def test_a_plan_names_each_part_so_that_no_other_can_take_its_place(plan):
    part = plan_document(plan)["parts"]["regressor"]
    assert (part["component"], part["version"]) == ("dpkit-constant:constant", "1.0")


def test_a_plan_of_another_version_is_refused_with_both_versions_and_both_events(
    plan, constant, tmp_path, monkeypatch
):
    write_plan(plan, tmp_path / "plan.toml")
    (constant.folder / "dpkit_constant-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: dpkit-constant\nVersion: 2.0\n"
    )
    monkeypatch.setattr(
        type(plan.assembly.regressor.instance),
        "plan",
        lambda part, request, /: StagePlan(
            (events.PureDP(request.budget.epsilon, request.neighboring, proof="none"),)
        ),
    )
    with pytest.raises(InvalidRelease) as caught:
        read_plan(tmp_path / "plan.toml")
    for word in ("event 1 is Laplace", "they plan PureDP", "constant 1.0, now 2.0", "--save"):
        assert word in str(caught.value)


EDITS = {
    "an event was changed": (("noise_multiplier = 1.4", "noise_multiplier = 0.1"), "event 1 is"),
    "an event was removed": (("[[events]]", "[[unread]]"), "events is missing"),
    "the budget was raised": (("epsilon = 0.7", "epsilon = 7.0"), "event 1 is"),
    "it is a release": (('format = "dpkit-plan"', 'format = "dpkit-release"'), "not a dpkit plan"),
    "it is newer": (("format_version = 1", "format_version = 2"), "format version 2"),
    "a number is text": (("epsilon = 0.7", 'epsilon = "much"'), "much"),
    "a section is missing": (("[budget]", "[money]"), "budget is missing"),
    "it is no TOML": (("[budget]", "[budget"), "not valid TOML"),
    "a part has another option": (("label =", "lable ="), "no option 'lable'"),
}


@pytest.mark.parametrize(("edit", "words"), EDITS.values(), ids=EDITS)
def test_a_file_that_was_edited_is_refused(plan, tmp_path, edit, words):
    path = tmp_path / "plan.toml"
    write_plan(plan, path)
    text = path.read_text()
    assert edit[0] in text
    path.write_text(text.replace(*edit))
    with pytest.raises(Exception, match=words) as caught:
        read_plan(path)
    assert type(caught.value).__module__ == "dpkit_core.errors"


def test_other_versions_that_plan_the_same_are_told(plan, tmp_path):
    path, told = tmp_path / "plan.toml", []
    write_plan(plan, path)
    assert read_plan(path, report=told.append).events == plan.events
    assert not told
    path.write_text(path.read_text().replace('version = "1.0"', 'version = "0.0.9"'))
    assert read_plan(path, report=told.append).events == plan.events
    assert "regressor constant 0.0.9, now 1.0" in told[0]
    with pytest.warns(RuntimeWarning, match=r"now 1\.0"):
        read_plan(path)


def test_a_difference_in_the_last_digit_is_another_machine_and_not_another_plan(plan, tmp_path):
    document = plan_document(plan)
    document["events"][0]["noise_multiplier"] *= 1 + 1e-14
    (tmp_path / "plan.toml").write_text(to_toml(document))
    assert read_plan(tmp_path / "plan.toml").events == plan.events


def test_a_part_that_is_gone_is_named(plan, constant, tmp_path):
    write_plan(plan, tmp_path / "plan.toml")
    (constant.folder / "dpkit_constant-1.0.dist-info" / "entry_points.txt").unlink()
    with pytest.raises(UnknownName, match="dpkit-constant:constant"):
        read_plan(tmp_path / "plan.toml")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InvalidRelease, match=r"cannot read plan .*plan\.toml: No such file"):
        read_plan(tmp_path / "plan.toml")


def test_a_part_that_is_not_installed_cannot_be_saved(tmp_path):
    @attrs.frozen
    class LocalConstant:
        """A constant."""

        api = 3

        def plan(self, request, /):
            return StagePlan((events.PureDP(request.budget.epsilon, request.neighboring, proof="none"),))

        def fit(self, data, plan, meter, /):
            return LinearModel((), ())

    plan = compose(regressor=LocalConstant(), accountant="basic").plan(SCHEMA, Budget(1.0))
    with pytest.raises(InvalidRelease, match="regressor LocalConstant is not an installed component"):
        plan_document(plan)


def test_an_option_that_toml_cannot_hold_is_named(constant):
    pipeline = compose(regressor="constant", accountant="basic", options={"regressor": {"label": None}})
    with pytest.raises(InvalidRelease, match="regressor constant has label = None"):
        plan_document(pipeline.plan(SCHEMA, Budget(1.0)))


def test_the_file_is_plain_toml(plan, tmp_path):
    write_plan(plan, tmp_path / "plan.toml")
    document = tomllib.loads((tmp_path / "plan.toml").read_text())
    assert document == json.loads(json.dumps(plan_document(plan)))
