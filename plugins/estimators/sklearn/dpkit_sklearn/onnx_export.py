"""Released models as ONNX graphs: for servers and languages that have neither dpkit nor Python.

The graphs are of plain operators in float64, written here, and not converted from scikit-learn: skl2onnx 1.20
converts ``LinearRegression``, but neither a ``FunctionTransformer`` that has a function nor a
``TransformedTargetRegressor``, which keep predictions bounded; and trees of ours are none of scikit-learn's.

A graph predicts what the release predicts up to the order in which sums are rounded: linear models within
1e-12 of the sum of the sizes of their terms, and probabilities within 1e-12.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpkit_core import (
    ClassTreesModel,
    Feature,
    LinearModel,
    Matrix,
    Release,
    RowClippedLinearModel,
    TreesModel,
    WinsorizedLinearModel,
    __version__,
)
from dpkit_core.errors import InvalidRelease, MissingDependency
from dpkit_core.mechanisms.moments import LARGEST

if TYPE_CHECKING:
    from onnx import ModelProto

#: The operators' version: the first with ReduceMax over axes that are an input. Of 2022.
OPSET = 18

#: The format of the file that belongs to it.
IR = 8

# Beyond this, exp and its inverse have nothing more to say in float64.
_LARGEST_EXPONENT = 700.0

_LEAST_PEAK = 2.0**-900


def as_onnx(release: Release) -> ModelProto:
    """Return the model of a release as an ONNX graph with the same predictions.

    Its input ``X`` is a matrix (n x number of features) of float64, whose columns are the model's features in
    order: encoded, where the schema has categories. Its output is ``prediction`` (n x 1), or of a target of
    several classes ``probabilities`` (n x number of classes). A missing value, NaN, is treated as the release
    does. The metadata name features, classes and target, and repeat what the certificate claims.

    Parameters
    ----------
    release
        With a linear model or trees.

    Raises
    ------
    InvalidRelease
        If there is no model, or one of another kind, or the schema transforms columns.
    MissingDependency
        If onnx is not installed, the extra ``onnx``.
    """
    model = exportable(release)
    graph = _Graph(model.features)
    known = {feature.name: feature for feature in release.certificate.schema.features}
    X = _filled(graph, [known.get(name, Feature(name, name)) for name in model.features])
    match model:
        case LinearModel():
            found = graph("Add", _along_rows(graph, X, model.coefficients), graph.number(model.intercept))
        case RowClippedLinearModel():
            found = _row_clipped(graph, X, model)
        case WinsorizedLinearModel():
            found = _winsorized(graph, X, model)
        case TreesModel():
            found = _trees(graph, X, model)
        case ClassTreesModel():
            found = _class_trees(graph, X, model)
    if not getattr(model, "takes_missing", False):
        found = graph("Where", _lacks(graph, X), graph.number(np.nan), found)
    classes = getattr(model, "classes", ())
    return graph.finished(
        found,
        "probabilities" if classes else "prediction",
        len(classes) or 1,
        {
            "features": json.dumps(model.features),
            **({"classes": json.dumps(classes)} if classes else {}),
            "target": release.certificate.schema.target.name,
            "certificate": " ".join(release.certificate.in_words()),
        },
    )


def exportable(
    release: Release,
) -> LinearModel | RowClippedLinearModel | WinsorizedLinearModel | TreesModel | ClassTreesModel:
    """Return the model of a release, if it can become a graph.

    Raises
    ------
    InvalidRelease
        If there is no model, or one of another kind, or the schema transforms columns.
    """
    model, schema = release.model, release.certificate.schema
    changed = [c.name for c in (*schema.columns, schema.target) if c.transform is not None]
    if model is not None and changed:
        raise InvalidRelease(
            f"the schema transforms column {changed[0]!r}, which an exported model would not; predict by the "
            "release"
        )
    if isinstance(
        model, LinearModel | RowClippedLinearModel | WinsorizedLinearModel | TreesModel | ClassTreesModel
    ):
        return model
    kind = "no model" if model is None else f"a model of kind {model.to_document()['kind']!r}"
    raise InvalidRelease(
        f"the release has {kind}; linear models and trees can be exported, others predict by the release"
    )


class _Graph:
    """Operators one after another; a call adds one and returns the name of its result."""

    def __init__(self, features: Sequence[str]) -> None:
        try:
            import onnx  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingDependency("onnx", "exporting to ONNX", "pip install 'dpkit[onnx]'") from error
        self._onnx = onnx
        self._columns = len(features)
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, values: Any, dtype: type = np.float64) -> str:
        """Return the name of an array."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def number(self, value: float) -> str:
        """Return the name of a number, which goes with matrices of any shape."""
        return self.constant(value)

    def whole(self, values: Any) -> str:
        """Return the name of an array of whole numbers, such as axes."""
        return self.constant(values, np.int64)

    def reduced(self, operator: str, name: str) -> str:
        """Return what an operator makes of each row, as a column."""
        return self(operator, name, self.whole([1]), keepdims=1)

    def between(self, name: str, lower: float, upper: float) -> str:
        """Return a matrix with each entry between two numbers."""
        return self("Min", self("Max", name, self.number(lower)), self.number(upper))

    def finished(self, result: str, called: str, width: int, facts: dict[str, str]) -> ModelProto:
        """Return the model."""
        helper, double = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        nodes = [*self._nodes, helper.make_node("Identity", [result], [called])]
        graph = helper.make_graph(
            nodes,
            "dpkit",
            [helper.make_tensor_value_info("X", double, ["n", self._columns])],
            [helper.make_tensor_value_info(called, double, ["n", width])],
            self._constants,
        )
        model: ModelProto = helper.make_model(
            graph,
            producer_name="dpkit",
            producer_version=__version__,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
        )
        helper.set_model_props(model, facts)
        return model


def _filled(graph: _Graph, features: Sequence[Feature]) -> str:
    """As ``dpkit_core.data.readers.filled``."""
    ruled = {f.column: j for j, f in enumerate(features) if f.fill is not None and not f.indicator}
    if not ruled:
        return "X"
    has_rule = [f.column in ruled and f.fill is not None for f in features]
    asked = [
        ruled[f.column] if rule else j for j, (f, rule) in enumerate(zip(features, has_rule, strict=True))
    ]
    absent = graph("IsNaN", graph("Gather", "X", graph.whole(asked), axis=1))
    fills = [f.fill if rule else 0.0 for f, rule in zip(features, has_rule, strict=True)]
    takes = graph("And", absent, graph.constant([has_rule], np.bool_))
    return graph("Where", takes, graph.constant([fills]), "X")


def _lacks(graph: _Graph, X: str) -> str:
    """Return in which rows there is a NaN."""
    absent = graph("Cast", graph("IsNaN", X), to=graph._onnx.TensorProto.INT32)
    return graph("Cast", graph.reduced("ReduceMax", absent), to=graph._onnx.TensorProto.BOOL)


def _along_rows(graph: _Graph, X: str, coefficients: Sequence[float]) -> str:
    # No product of matrices: each prediction depends on its row alone, as the release's do.
    return graph.reduced("ReduceSum", graph("Mul", X, graph.constant([coefficients])))


def _scaled(graph: _Graph, X: str, centers: Sequence[float], widths: Sequence[float]) -> str:
    return graph("Div", graph("Sub", X, graph.constant([centers])), graph.constant([widths]))


def _winsorized(graph: _Graph, X: str, model: WinsorizedLinearModel) -> str:
    z = graph.between(_scaled(graph, X, model.centers, model.widths), -1.0, 1.0)
    length = graph("Sqrt", graph.reduced("ReduceSum", graph("Mul", z, z)))
    shrink = graph("Min", graph("Div", graph.number(model.radius), length), graph.number(1.0))
    line = graph("Mul", shrink, _along_rows(graph, z, model.coefficients))
    return graph.between(graph("Add", line, graph.number(model.intercept)), *model.bounds)


def _row_clipped(graph: _Graph, X: str, model: RowClippedLinearModel) -> str:
    """As ``dpkit_core.mechanisms.moments.clip_rows``, step by step, on the scaled features and a 1."""
    z = graph.between(_scaled(graph, X, model.centers, model.widths), -LARGEST, LARGEST)
    one = graph("Expand", graph.constant([[1.0]]), graph("Concat", _records(graph), graph.whole([1]), axis=0))
    rows = graph("Concat", z, one, axis=1)
    peaks = graph("Max", graph.reduced("ReduceMax", graph("Abs", rows)), graph.number(_LEAST_PEAK))
    directions = graph("Div", rows, peaks)
    lengths = graph("Sqrt", graph.reduced("ReduceSum", graph("Mul", directions, directions)))
    longer = graph("Greater", graph("Mul", peaks, lengths), graph.number(model.norm))
    shrink = graph("Div", graph.number(model.norm), graph("Max", lengths, graph.number(1.0)))
    clipped = graph("Where", longer, graph("Mul", directions, shrink), rows)
    line = _along_rows(graph, clipped, [*model.coefficients, model.intercept])
    return graph("Add", line, graph.number(model.offset))


def _records(graph: _Graph) -> str:
    return graph("Shape", "X", end=1)


def _leaves_of(graph: _Graph, X: str, model: TreesModel) -> str:
    """Return the leaf of each record in each tree (n x trees), numbered through all trees."""
    trees, depth = len(model.splits), model.depth
    level = [depth_of for depth_of in range(depth) for _ in range(2**depth_of)]
    # An oblivious tree is a complete one that asks the same at all places of a level.
    splits = (
        model.splits
        if model.shape == "complete"
        else tuple(tuple(tree[depth_of] for depth_of in level) for tree in model.splits)
    )
    asked = graph.whole([[feature for feature, _ in tree] for tree in splits])
    above = graph.constant([[np.inf if t is None else t for _, t in tree] for tree in splits])
    if_any = graph.constant([[t is None for _, t in tree] for tree in splits], np.bool_)
    asked, above, if_any = (graph("Reshape", name, graph.whole([-1])) for name in (asked, above, if_any))
    first = graph.whole([[tree * (2**depth - 1) for tree in range(trees)]])
    place = graph(
        "Expand", graph.whole([[0]]), graph("Concat", _records(graph), graph.whole([trees]), axis=0)
    )
    for depth_of in range(depth):
        node = graph("Add", graph("Add", place, first), graph.whole(2**depth_of - 1))
        value = graph("GatherElements", X, graph("Gather", asked, node), axis=1)
        present = graph("And", graph("Gather", if_any, node), graph("Not", graph("IsNaN", value)))
        right = graph("Or", graph("Greater", value, graph("Gather", above, node)), present)
        step = graph("Cast", right, to=graph._onnx.TensorProto.INT64)
        place = graph("Add", graph("Mul", place, graph.whole(2)), step)
    return graph("Add", place, graph.whole([[tree * 2**depth for tree in range(trees)]]))


def _values_of(graph: _Graph, leaves: str, values: Matrix) -> str:
    """Return the sum over trees of the values of their leaves, which are the rows of ``values``."""
    found = graph("Gather", graph.constant(values), leaves, axis=0)
    return graph("ReduceSum", found, graph.whole([1]), keepdims=0)


def _trees(graph: _Graph, X: str, model: TreesModel) -> str:
    score = graph(
        "Expand",
        graph.constant([[model.initial]]),
        graph("Concat", _records(graph), graph.whole([1]), axis=0),
    )
    if model.splits:
        values = np.concatenate([np.asarray(tree) for tree in model.leaves])[:, np.newaxis]
        score = graph("Add", _values_of(graph, _leaves_of(graph, X, model), values), score)
    if model.linear is not None:
        at_center = graph("Where", graph("IsNaN", X), graph.constant([model.linear.centers]), X)
        score = graph("Add", score, _winsorized(graph, at_center, model.linear))
    if model.link != "identity":
        score = graph.between(score, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    if model.link == "logistic":
        one = graph.number(1.0)
        score = graph("Div", one, graph("Add", one, graph("Exp", graph("Neg", score))))
    elif model.link == "log":
        score = graph("Exp", score)
    return score if model.bounds is None else graph.between(score, *model.bounds)


def _class_trees(graph: _Graph, X: str, model: ClassTreesModel) -> str:
    size = graph("Concat", _records(graph), graph.whole([len(model.classes)]), axis=0)
    scores = graph("Expand", graph.constant([model.initial]), size)
    if model.splits:
        values = np.concatenate([np.asarray(tree) for tree in model.leaves])
        scores = graph("Add", _values_of(graph, _leaves_of(graph, X, model.of_class(0)), values), scores)
    odds = graph("Exp", graph("Sub", scores, graph.reduced("ReduceMax", scores)))
    return graph("Div", odds, graph.reduced("ReduceSum", odds))
