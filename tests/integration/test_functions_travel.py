"""What parts ask of records can be sent to where the records are: it is pickled, and carries none of them."""

import pickle
import struct

import attrs
import numpy as np
import pytest

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Randomness,
    Registry,
    Schema,
    StreamedDataset,
    Sum,
    compose,
)
from dpkit_core.data import sums

FEATURES = ["a", "b", "c"]


def on_sums(kind):
    registry = Registry()
    loaded = {ref.name: registry.load(ref) for ref in registry.refs(kind)}
    return sorted(name for name, part in loaded.items() if "streamed" in getattr(part, "forms", ()))


@attrs.frozen(eq=False)
class Border:
    """What functions pass on their way: pickled, searched for numbers of records, and made anew."""

    canaries: tuple[bytes, ...]
    passed: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, X, y):
        numbers = [*X[:20].ravel().tolist(), *y[:20].tolist()]
        return cls(tuple(struct.pack(order, number) for number in numbers for order in ("<d", ">d")))

    def __call__(self, function):
        travels = pickle.dumps(function)
        self.passed.append(len(travels))
        found = [canary for canary in self.canaries if canary in travels]
        assert not found, function
        return Unwritten(pickle.loads(travels))

    def sum(self, what):
        return Sum(self(what.of), what.shape, what.bound)


@attrs.frozen
class Unwritten:
    """A function, after which what it was given is as before."""

    function: object

    def __call__(self, given):
        before = pickle.dumps(given)
        result = self.function(given)
        assert pickle.dumps(given) == before, self.function
        return result


@attrs.frozen(eq=False)
class Elsewhere:
    """Records of another form, which can only be asked for what passes the border."""

    here: StreamedDataset
    border: Border
    form = "streamed"

    def __getattr__(self, name):
        assert name != "read"
        return getattr(self.here, name)

    def dense(self):
        raise AssertionError("asked for the records themselves")

    def sum(self, what, /):
        return self.here.sum(self.border.sum(what))

    def keep(self, make, /):
        return KeptElsewhere(self.here.keep(self.border(make)), self.border)

    def select(self, indices, /):
        return attrs.evolve(self, here=self.here.select(indices))


@attrs.frozen(eq=False)
class KeptElsewhere:
    here: object
    border: Border

    def sum(self, what, /):
        return self.here.sum(self.border.sum(what))

    def change(self, function, /):
        self.here.change(self.border(function))


def table(loss):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=600)
    # Classes and categories are small whole numbers, which are everywhere.
    by_loss = {
        "logistic": (y > 0) + 0.0,
        "softmax": np.array(["low", "mid", "high"])[np.digitize(y, [-0.5, 0.5])],
        "poisson": np.abs(y),
    }
    return X, by_loss.get(loss, y)


def schema_of(loss, bounds):
    lower, upper = bounds
    target = {
        "logistic": Column("y", "categorical", categories=["no", "yes"]),
        "softmax": Column("y", "categorical", categories=["low", "mid", "high"]),
        "poisson": Column("y", lower=0 if bounds[0] is not None else None, upper=upper),
    }
    columns = [Column(name, lower=lower, upper=upper) for name in FEATURES]
    return Schema(columns, target.get(loss, Column("y", lower=lower, upper=upper)))


CASES = [(name, {}, "", (-3.0, 4.0)) for name in on_sums("regressors")]
CASES += [
    ("boosted_trees", {"loss": "poisson"}, "poisson", (-3.0, 4.0)),
    ("boosted_trees", {}, "logistic", (-3.0, 4.0)),
    ("boosted_trees", {}, "softmax", (-3.0, 4.0)),
    ("boosted_trees", {}, "", (None, None)),
    ("winsorized_least_squares", {"refits": 3}, "", (None, None)),
    ("frank_wolfe", {"form": "gram"}, "", (-3.0, 4.0)),
]
FEW = {"boosted_adassp": {"rounds": 3}, "boosted_trees": {"trees": 9}, "frank_wolfe": {"rounds": 3}}


@pytest.mark.first(4)
@pytest.mark.parametrize(("regressor", "options", "loss", "bounds"), CASES)
def test_functions_of_a_regressor_travel_without_records(regressor, options, loss, bounds, monkeypatch):
    monkeypatch.setattr(sums, "BLOCK", 200)
    schema, (X, y) = schema_of(loss, bounds), table(loss)
    pipeline = compose(regressor=regressor, options={"regressor": FEW.get(regressor, {}) | options})
    plan = pipeline.plan(schema, Budget(3.0, 1e-6))
    require_the_same_elsewhere(plan, X, y, schema, loss)


@pytest.mark.parametrize("center", ["schema", "private"])
@pytest.mark.parametrize("scorer", on_sums("scorers"))
def test_functions_of_a_scorer_travel_without_records(scorer, center, monkeypatch):
    monkeypatch.setattr(sums, "BLOCK", 200)
    schema, (X, y) = schema_of("", (-3.0, 4.0)), table("")
    pipeline = compose(
        scorer=scorer, selector="peel", regressor="adassp", options={"scorer": {"center": center}}
    )
    require_the_same_elsewhere(pipeline.plan(schema, Budget(6.0, 1e-5), k=2), X, y, schema, "")


def require_the_same_elsewhere(plan, X, y, schema, loss):
    border = Border.of(X, np.empty(0) if loss in {"logistic", "softmax"} else y)
    stream = StreamedDataset.from_blocks(lambda: iter([(X[:250], y[:250]), (X[250:], y[250:])]), schema)
    released = [
        plan.run(data, randomness=Randomness.from_seed(5)).to_document()
        for data in (Dataset.from_arrays(X, y, schema), Elsewhere(stream, border))
    ]
    assert released[0] == released[1]
    assert border.passed


def test_the_border_finds_a_record_in_a_function():
    X, y = table("")
    border = Border.of(X, y)
    with pytest.raises(AssertionError):
        border(Scaled(X.mean(axis=0), X[7]))
    border(Scaled(X.mean(axis=0), X[7] + 1))


@attrs.frozen
class Scaled:
    by: object
    to: object

    def __call__(self, block):
        return block


def test_the_border_finds_a_function_that_writes():
    with pytest.raises(AssertionError):
        Border(())(written)(np.zeros(3))


def written(state):
    state += 1
    return state
