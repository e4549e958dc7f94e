"""What leaves a run is canonical: no text, object, print or place that a part chose while it saw the data.

Each part here told something private by 0.1.0, beside a certificate that said private.
"""

import json
import math
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
from doubles import BestSelector, MeanRegressor, PureAccountant, SumScorer

from dpkit_core import Budget, Dataset, LinearModel, Refusal, Release, Schema, StagePlan, compose, verify
from dpkit_core.errors import (
    BudgetSpent,
    CannotCompose,
    InvalidData,
    InvalidRelease,
    PartFailed,
    PlanViolation,
    UnknownName,
)
from dpkit_core.pipeline.observers import Observers, hookimpl
from dpkit_core.privacy.events import PureDP
from dpkit_core.release import kinds
from dpkit_core.release.kinds import DEPTH, OpaqueModel, canonical, read_model, shown
from dpkit_core.text import Shown

SCHEMA = Schema.numeric("ab", "y", {"y": (-1, 1)})
SECRET = "0.7390851332151607"


@pytest.fixture
def data():
    return Dataset.from_arrays(np.zeros((9, 2)), [float(SECRET)] * 9, SCHEMA)


def run(data, observers=None, **parts):
    k = 1 if "selector" in parts else None
    plan = compose(**parts, accountant=PureAccountant()).plan(SCHEMA, Budget(1.0), k=k)
    return plan.run(data, observers=observers or Observers.none())


class Told:
    """Hears how runs end."""

    def __init__(self):
        self.outcomes = []

    @hookimpl
    def dpkit_finished(self, plan, outcome):
        self.outcomes.append(outcome)


def without_notes(error):
    """Return all that a person reads who does not ask for a traceback."""
    return str(error)


# Text


class Raises(MeanRegressor):
    """Raises before its first draw, when nothing seems to be spent."""

    def fit(self, data, plan, meter, /):
        raise self.error(f"largest target {data.y.max()}")

    error: Any = InvalidData


class RaisesItsViolation(Raises):
    error = PlanViolation


class RaisesItsFailure(Raises):
    error = PartFailed


class RaisesEverything(Raises):
    error = BaseException


class Exits(Raises):
    error = SystemExit


class NamesItsError(Raises):
    def error(self, text):
        return type(f"Error_{SECRET}", (Exception,), {})()


class Refuses(MeanRegressor):
    """Puts the sum into the reason for refusing."""

    def fit(self, data, plan, meter, /):
        return Refusal(f"the sum is {self.total(data)}, of {data.y[0]}")


class NotInItsPlan(MeanRegressor):
    def fit(self, data, plan, meter, /):
        return Refusal("many")


class SpeaksOfItsArithmetic(MeanRegressor):
    def plan(self, request, /):
        return StagePlan([PureDP(1.0, request.neighboring, proof="none")], arithmetic=["float64"])

    def fit(self, data, plan, meter, /):
        with meter.custom(plan.events[0], proof="none", arithmetic=f"float64 of {data.y[0]}"):
            return self.model(data, 0.0)


class SpeaksOfOthers(SpeaksOfItsArithmetic):
    def fit(self, data, plan, meter, /):
        with meter.foreign(plan.events[0], whose=f"somebody {data.y[0]}", proof="none"):
            return self.model(data, 0.0)


class NamesItsModel(MeanRegressor):
    def model(self, data, total):
        return type(f"Model_{SECRET}", (), {})()


class NamesItsFeatures(MeanRegressor):
    def model(self, data, total):
        return LinearModel((f"x{data.y[0]}",), (0.0,))


@pytest.mark.parametrize(
    "part",
    [
        Raises(), RaisesItsViolation(), RaisesItsFailure(), RaisesEverything(), Exits(), NamesItsError(),
        Refuses(), NotInItsPlan(), SpeaksOfItsArithmetic(), SpeaksOfOthers(), NamesItsModel(),
        NamesItsFeatures(),
    ],
    ids=lambda part: type(part).__name__,
)  # fmt: skip
def test_no_text_of_a_part_that_has_the_data_is_read_by_anybody(part, data):
    told = Told()
    with pytest.raises(BudgetSpent) as caught:
        run(data, Observers([told]), regressor=part)
    assert SECRET not in without_notes(caught.value)
    assert told.outcomes in (["failed"], ["violated"])


def test_an_interrupt_passes_as_itself_and_says_nothing(data):
    class Interrupts(Raises):
        error = KeyboardInterrupt

    told = Told()
    with pytest.raises(KeyboardInterrupt) as caught:
        run(data, Observers([told]), regressor=Interrupts())
    assert caught.value.args == ()
    assert caught.value.__suppress_context__
    assert told.outcomes == ["failed"]


def test_a_refusal_is_a_code_and_its_sentence_that_of_the_plan(data):
    release = run(data, regressor=MeanRegressor(refuse=True))
    assert (release.refusal_code, release.refusal) == ("few", "too few records")
    again = Release.from_document(json.loads(json.dumps(release.to_document())))
    assert (again.refusal_code, again.refusal) == ("few", "too few records")


def test_the_traceback_says_what_the_sentence_does_not(data):
    with pytest.raises(PartFailed) as caught:
        run(data, regressor=Raises())
    assert SECRET in str(caught.value.__cause__)
    assert caught.value.__notes__ == ["it raised InvalidData, and printed: ''"]


# Prints, warnings, places


class Prints(MeanRegressor):
    def fit(self, data, plan, meter, /):
        print(data.y[0])
        print(data.y[0], file=sys.stderr)
        sys.stdout.buffer.write(f"{data.y[0]}".encode())
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(f"{data.y[0]}", stacklevel=1)
        return super().fit(data, plan, meter)


class PrintsItsScores(SumScorer):
    def prepare(self, data, plan, meter, /):
        print(data.y[0])
        return lambda selected: print(data.y[0]) or np.zeros(2)


@pytest.mark.parametrize(
    "parts", [{"regressor": Prints()}, {"scorer": PrintsItsScores(), "selector": BestSelector()}]
)
def test_what_a_part_prints_is_not_heard(parts, data, capsys):
    out, err, show = sys.stdout, sys.stderr, warnings.showwarning
    run(data, **parts)
    captured = capsys.readouterr()
    assert SECRET not in captured.out + captured.err
    assert (sys.stdout, sys.stderr, warnings.showwarning) == (out, err, show)


def test_others_print_while_a_part_is_at_work(data, capsys):
    def tell(stage, done, steps):
        print(stage, done)

    plan = compose(regressor=Prints(), accountant=PureAccountant()).plan(SCHEMA, Budget(1.0))
    plan.run(data, observers=Observers.none(), progress=tell)
    assert capsys.readouterr().out == "regression 0\nregression 1\n"


class Moves(MeanRegressor):
    def fit(self, data, plan, meter, /):
        os.chdir(self.where)
        os.environ["DPKIT_DISABLE_PLUGINS"] = "ledger"
        os.environ["SECRET"] = str(data.y[0])
        os.environ.pop("HOME", None)
        return super().fit(data, plan, meter)


def test_where_a_process_works_and_its_environment_are_put_back(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    Moves.where = tmp_path / "elsewhere"
    before = dict(os.environ)
    run(data, regressor=Moves())
    assert Path.cwd() == tmp_path
    assert dict(os.environ) == before


# Models


@attrs.frozen(eq=False)
class Hoards:
    """A linear model that keeps the table it was fitted to, and the sign of a zero."""

    features: tuple
    table: object
    document: dict

    def predict(self, X, /):
        return self.table.y

    def to_document(self):
        return self.document


class Returns(MeanRegressor):
    """Returns a model with this document."""

    def model(self, data, total):
        return Hoards(data.names, data, self.document(data))

    def document(self, data):
        return {"kind": "linear", "intercept": -0.0, "coefficients": {"a": 1, "b": -0.0}}


def test_a_model_is_made_of_its_document_before_anybody_sees_it(data):
    class Sees:
        @hookimpl
        def dpkit_before_release(self, release):
            assert type(release.model) is LinearModel
            assert not hasattr(release.model, "table")

    release = run(data, Observers([Sees()], strict=True), regressor=Returns())
    assert type(release.model) is LinearModel
    assert release.model.coefficients == (1.0, 0.0)


def test_zero_has_no_sign_and_numbers_no_type(data):
    text = run(data, regressor=Returns()).to_json()
    assert '"intercept": 0.0' in text
    assert '"a": 1.0' in text
    assert "-0.0" not in text


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "linear", "intercept": math.nan, "coefficients": {"a": 0.0, "b": 0.0}},
        {"kind": "linear", "intercept": 10**400, "coefficients": {"a": 0.0, "b": 0.0}},
        {"kind": "linear", "intercept": 0.0, "coefficients": {"a": 0.0, "b": 0.0}, "note": SECRET},
        {"kind": "linear", "intercept": 0.0},
        {"kind": "own", "object": object()},
        {"kind": "own", 1: 2},
        {"kind": "own", "text": "\ud800"},
        {"kind": 3},
        {},
        [],
        None,
    ],
    ids=[
        "not a number", "too large", "more than its kind", "less than its kind", "an object", "a key",
        "half a character", "no kind", "nothing", "a list", "none",
    ],
)  # fmt: skip
def test_a_model_without_a_document_is_the_fault_of_its_part_and_paid_for(document, data):
    class Broken(Returns):
        def document(self, data):
            return document

    with pytest.raises(PlanViolation, match="neither a Refusal nor a model of the given columns"):
        run(data, regressor=Broken())


@pytest.mark.parametrize("member", ["features", "predict", "to_document"])
def test_a_model_without_a_member_is_found_before_it_is_written(member, data):
    """B3: it spent, and then there was an AttributeError and no file."""

    class Lacks(MeanRegressor):
        def model(self, data, total):
            members = {"features": data.names, "predict": lambda X: X, "to_document": dict}
            return SimpleNamespace(**{name: value for name, value in members.items() if name != member})

    with pytest.raises(PlanViolation, match="neither a Refusal nor a model"):
        run(data, regressor=Lacks())


def nested(depth):
    return {"kind": "own", "in": nested(depth - 1)} if depth else {"kind": "own"}


def test_documents_are_bounded_in_depth(data):
    class Deep(Returns):
        def document(self, data):
            inner: dict[str, Any] = {}
            inner["kind"], inner["itself"] = "own", inner
            return inner

    assert canonical(nested(DEPTH - 1))
    with pytest.raises(InvalidRelease, match="nested more than"):
        canonical(nested(DEPTH + 1))
    with pytest.raises(PlanViolation):
        run(data, regressor=Deep())


# Kinds of models


class Steps(Returns):
    def document(self, data):
        return {"kind": "step", "at": 3, "features": list(data.names)}


READER = """
import numpy as np

class StepModel:
    def __init__(self, at, features):
        self.at, self.features = at, features

    def predict(self, X, /):
        return (np.asarray(X)[:, 0] > self.at).astype(float)

    def to_document(self):
        return {"kind": "step", "at": self.at, "features": list(self.features)}

    @classmethod
    def from_document(cls, document):
        return cls(document["at"], tuple(document["features"]))
"""


def test_a_model_of_an_unknown_kind_is_kept_and_verified_and_cannot_predict(data, tmp_path):
    """B2: the paid release could be read by nothing, not even by verify."""
    release = run(data, regressor=Steps())
    release.write(tmp_path / "release.json")
    again = Release.read(tmp_path / "release.json")
    for one in (release, again):
        assert isinstance(one.model, OpaqueModel)
        assert one.model.to_document() == {"kind": "step", "at": 3.0, "features": ["a", "b"]}
        assert verify(one, PureAccountant()).confirmed
        with pytest.raises(InvalidRelease, match="model of kind 'step', which cannot be used"):
            one.predict(np.zeros((2, 2)))
    assert again == release


def test_a_distribution_reads_its_own_kind(data, site, tmp_path):
    site.install(
        "steps",
        entry_points={"dpkit.models": {"step": "step_model:StepModel"}},
        modules={"step_model": READER},
    )
    release = run(data, regressor=Steps())
    release.write(tmp_path / "release.json")
    for one in (release, Release.read(tmp_path / "release.json")):
        assert one.model.features == ("a", "b")
        assert one.predict(np.array([[2.0, 0], [4.0, 0]])).tolist() == [0.0, 1.0]


TREES = {
    "kind": "trees",
    "shape": "oblivious",
    "link": "identity",
    "initial": 1.0,
    "linear": None,
    "bounds": None,
    "features": ["a"],
    "trees": [{"splits": [[0.0, 0.5]], "leaves": [-1.0, 1.0]}],
}


def test_trees_are_read_by_their_own_distribution_alone(site):
    site.install(
        "others",
        entry_points={"dpkit.models": {"trees": "step_model:StepModel"}},
        modules={"step_model": READER},
    )
    assert read_model(TREES).predict(np.array([[0.0], [1.0]])).tolist() == [0.0, 2.0]
    with pytest.raises(InvalidRelease, match="cannot read the trees"):
        read_model({**TREES, "shape": "round"})


def test_without_their_distribution_trees_are_kept_and_name_it(monkeypatch):
    def find(kind, name):
        raise UnknownName(f"no {kind} {name}")

    monkeypatch.setattr(kinds, "find_resource", find)
    model = read_model(TREES)
    assert model.to_document() == TREES
    with pytest.raises(InvalidRelease, match="dpkit-model-trees reads it, and is not installed"):
        model.predict(np.zeros((1, 1)))


def test_a_model_may_say_what_a_person_reads_of_it():
    @attrs.frozen
    class Step:
        said: object

        def to_document(self):
            return {"kind": "step"}

        def shown(self):
            return self.said

    assert shown(Step(Shown(sentences=("One step.",)))).sentences == ("One step.",)
    assert shown(Step(5)).sentences == ("step; see the release file",)


@pytest.mark.parametrize("source", ["raise RuntimeError", "StepModel = 5", "class Other: ..."])
def test_a_reader_that_fails_leaves_the_document(source, data, site, tmp_path):
    site.install(
        "steps",
        entry_points={"dpkit.models": {"step": "step_model:StepModel"}},
        modules={"step_model": source},
    )
    release = run(data, regressor=Steps())
    assert isinstance(release.model, OpaqueModel)
    release.write(tmp_path / "release.json")
    assert verify(Release.read(tmp_path / "release.json"), PureAccountant()).confirmed


def test_a_class_of_models_may_read_itself(data):
    @attrs.frozen
    class Step:
        at: float
        features: tuple

        def predict(self, X, /):
            return (X[:, 0] > self.at).astype(float)

        def to_document(self):
            return {"kind": "step", "at": self.at, "features": list(self.features)}

        @classmethod
        def from_document(cls, document):
            return cls(document["at"], tuple(document["features"]))

    class Fits(MeanRegressor):
        def model(self, data, total):
            return Step(1, data.names)

    release = run(data, regressor=Fits())
    assert release.model == Step(1.0, ("a", "b"))
    assert release.predict(np.array([[2.0, 0.0]])).tolist() == [1.0]


# While planning


class ExitsWhilePlanning(MeanRegressor):
    def plan(self, request, /):
        sys.exit(0)


class FailsWhilePlanning(MeanRegressor):
    def plan(self, request, /):
        raise ValueError("a typing error")


@pytest.mark.parametrize(
    ("part", "words"), [(ExitsWhilePlanning(), r"SystemExit: 0"), (FailsWhilePlanning(), "a typing error")]
)
def test_a_part_that_fails_while_planning_is_a_problem_of_the_plan(part, words, data):
    with pytest.raises(CannotCompose, match=f"failed while planning .*{words}"):
        run(data, regressor=part)


# One record, and none


def test_a_single_record_is_served_like_two(data):
    one = Dataset.from_arrays([[0.0, 0.0]], [0.5], SCHEMA)
    release = run(one, scorer=SumScorer(), selector=BestSelector(), regressor=MeanRegressor())
    assert release.model is not None
    assert "the table is not empty" in release.certificate.assumptions


def test_no_record_is_bad_input():
    with pytest.raises(InvalidData, match="0 rows; at least 1"):
        Dataset.from_arrays(np.empty((0, 2)), [], SCHEMA)
