"""A class with the members of a protocol is a part, whichever way it is written; what is none is told so."""

import dataclasses
import json
from typing import ClassVar

import attrs
import numpy as np
import pytest
from doubles import BestSelector, MeanRegressor, PureAccountant, SumScorer

from dpkit_core import Budget, Dataset, LinearModel, Schema, Sensitivity, StagePlan, compose, fixed_scores
from dpkit_core.errors import CannotCompose, InvalidOption
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.privacy.events import Laplace

SCHEMA = Schema.numeric("ab", "y", {"y": (-1, 1)})


class PlainScorer:
    """Written without attrs, as README promises."""

    api = 3
    adaptive = False

    def __init__(self, secret=0):
        self.anything = secret

    def sensitivity(self, schema, round_index, /):
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data, plan, meter, /):
        return fixed_scores(np.clip(data.X, 0, 1).sum(axis=0))


@dataclasses.dataclass(frozen=True)
class DataclassRegressor:
    """Its fields are its options."""

    api: ClassVar[int] = 3
    share: float = 0.5
    names: tuple = dataclasses.field(default_factory=tuple)
    _cache: dict = dataclasses.field(default_factory=dict, init=False, hash=False)

    def plan(self, request, /):
        event = Laplace(1 / request.budget.epsilon, request.neighboring, sensitivity=1.0, shape=())
        return StagePlan([event], event)

    def fit(self, data, plan, meter, /):
        total = meter.laplace(0.0, sensitivity=1.0, noise_multiplier=plan.settings.noise_multiplier)
        return LinearModel(data.names, (0.0,) * len(data.names), float(total))


def run(**parts):
    k = 1 if "selector" in parts else None
    plan = compose(**parts, accountant=PureAccountant()).plan(SCHEMA, Budget(1.0), k=k)
    return plan.run(Dataset.from_arrays(np.zeros((9, 2)), np.zeros(9), SCHEMA), observers=Observers.none())


def test_a_plain_class_and_a_dataclass_release(tmp_path):
    """B1: all noise was drawn, and then there was an error of attrs and no release."""
    regressor = DataclassRegressor(share=0.25, names=("u", "v"))
    release = run(scorer=PlainScorer(3), selector=BestSelector(), regressor=regressor)
    scorer, _, regressor, _ = release.certificate.parts
    assert scorer.options == {}
    assert regressor.options == {"share": 0.25, "names": ("u", "v")}
    assert json.loads(release.to_json())["certificate"]["parts"][2]["options"]["names"] == ["u", "v"]


def test_options_at_their_defaults_are_not_told():
    assert run(regressor=DataclassRegressor()).certificate.parts[0].options == {}


def test_options_are_those_that_a_class_declares():
    assert [option.name for option in option_fields(DataclassRegressor)] == ["share", "names"]
    assert option_fields(PlainScorer) == ()
    assert option_fields(DataclassRegressor)[1].default == attrs.Factory(tuple)


@pytest.mark.parametrize(
    "value",
    [object(), np.zeros(2), float("nan"), float("inf"), {1: 2}, [object()]],
    ids=["object", "array", "nan", "infinity", "key", "list"],
)
def test_an_option_that_no_certificate_could_hold_is_found_while_planning(value):
    @attrs.frozen(eq=False)
    class Configured(MeanRegressor):
        option: object = None

    with pytest.raises(CannotCompose, match=r"option option of Configured is .* a certificate cannot hold"):
        run(regressor=Configured(option=value))


class WithoutFit:
    api = 3

    def plan(self, request, /): ...


class WithoutAdaptive:
    api = 3

    def sensitivity(self, schema, round_index, /): ...

    def prepare(self, data, plan, meter, /): ...


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"regressor": WithoutFit()}, "which lacks fit"),
        ({"scorer": WithoutAdaptive(), "selector": BestSelector()}, "which lacks adaptive"),
    ],
)
def test_what_lacks_a_member_is_refused_by_name(parts, words):
    with pytest.raises(InvalidOption, match=words):
        compose(**parts)


@pytest.mark.parametrize("api", [2, None, "3", True, 4])
def test_a_part_for_another_api_is_refused_and_told_where_to_read_what_changed(api):
    class Old(SumScorer):
        pass

    Old.api = api
    with pytest.raises(InvalidOption, match=r"plugin API 3.*changelog"):
        compose(scorer=Old(), selector=BestSelector())
