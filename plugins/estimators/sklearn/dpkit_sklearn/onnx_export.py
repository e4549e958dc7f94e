"""Released models as ONNX graphs: for servers and languages without dpkit or Python.

The graphs consist of plain operators in float64 and are built here, not converted from scikit-learn: skl2onnx
1.20 converts ``LinearRegression``, but neither a ``FunctionTransformer`` with a function nor a
``TransformedTargetRegressor``, which keep predictions bounded; and dpkit's trees are not scikit-learn's.

A graph makes the predictions of the release up to the rounding of sums in another order: linear models within
1e-12 of the sum of the magnitudes of their terms, and probabilities within 1e-12.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel
from dpkit_model_trees import ClassTreesModel, TreesModel

from dpkit_core import Feature, LinearModel, Matrix, Release, __version__
from dpkit_core.errors import MissingDependency, install
from dpkit_core.mechanisms.moments import LARGEST
from dpkit_sklearn.export import not_exported, require_untransformed

if TYPE_CHECKING:
    from onnx import ModelProto

#: The operator set version, of 2022: the first with ReduceMax over axes given as an input.
OPSET = 18

#: The version of the file format that belongs to it.
IR_VERSION = 8

# exp(710) is infinite in float64; up to here neither exp nor a quotient of it is, and 1 / (1 + exp(700)) is 0
# to all digits of a probability.
_LARGEST_EXPONENT = 700.0

# As in ``clip_rows``: a row of zeros is divided by it.
_LEAST_PEAK = 2.0**-900

Exportable: TypeAlias = (
    LinearModel | RowClippedLinearModel | WinsorizedLinearModel | TreesModel | ClassTreesModel
)


def as_onnx(release: Release) -> ModelProto:
    """Return the model of a release as an ONNX graph with the same predictions.

    Its input ``X`` is a matrix (n x number of features) of float64, whose columns are the model's features in
    order: encoded, if the schema has categories. Its output is ``prediction`` (n x 1), or ``probabilities``
    (n x number of classes) for a target with several classes. A missing value, NaN, is treated as by the
    release. The metadata name features, classes and target, and repeat the claims of the certificate.

    Parameters
    ----------
    release
        A release with a linear model or trees.

    Raises
    ------
    InvalidRelease
        If there is no model, or one of another kind, or the schema transforms columns.
    MissingDependency
        If onnx is not installed (extra ``onnx``).
    """
    model = release.model
    if not isinstance(model, Exportable):
        raise not_exported(release, "linear models and trees")
    require_untransformed(release)
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
        output="probabilities" if classes else "prediction",
        width=len(classes) or 1,
        facts={
            "features": json.dumps(model.features),
            **({"classes": json.dumps(classes)} if classes else {}),
            "target": release.certificate.schema.target.name,
            "certificate": " ".join(release.certificate.in_words()),
        },
    )


class _Graph:
    """A graph under construction; a call adds an operator and returns the name of its result."""

    def __init__(self, features: Sequence[str]) -> None:
        try:
            import onnx  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingDependency("onnx", "exporting to ONNX", install("[onnx]")) from error
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
        """Return the name of a number, which broadcasts to any shape."""
        return self.constant(value)

    def whole(self, values: Any) -> str:
        """Return the name of an array of whole numbers, such as axes."""
        return self.constant(values, np.int64)

    def reduced(self, operator: str, name: str) -> str:
        """Return the reduction of each row by an operator, as a column."""
        return self(operator, name, self.whole([1]), keepdims=1)

    def cast(self, name: str, to: str) -> str:
        """Return a matrix of another type: ``BOOL``, ``INT32`` or ``INT64``."""
        return self("Cast", name, to=getattr(self._onnx.TensorProto, to))

    def repeated(self, row: str, width: int) -> str:
        """Return a matrix with the same row, of ``width`` entries, for each record."""
        records = self("Shape", "X", end=1)
        return self("Expand", row, self("Concat", records, self.whole([width]), axis=0))

    def between(self, name: str, lower: float, upper: float) -> str:
        """Return a matrix with its entries clipped to two numbers."""
        return self("Min", self("Max", name, self.number(lower)), self.number(upper))

    def finished(self, result: str, *, output: str, width: int, facts: dict[str, str]) -> ModelProto:
        """Return the model whose output, a matrix of ``width`` columns, is the named result."""
        helper, double = self._onnx.helper, self._onnx.TensorProto.DOUBLE
        nodes = [*self._nodes, helper.make_node("Identity", [result], [output])]
        graph = helper.make_graph(
            nodes,
            "dpkit",
            [helper.make_tensor_value_info("X", double, ["n", self._columns])],
            [helper.make_tensor_value_info(output, double, ["n", width])],
            self._constants,
        )
        model: ModelProto = helper.make_model(
            graph,
            producer_name="dpkit",
            producer_version=__version__,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
        )
        helper.set_model_props(model, facts)
        return model


def _filled(graph: _Graph, features: Sequence[Feature]) -> str:
    """Fill missing values by the schema's rule, as ``dpkit_core.data.rules.filled`` does."""
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
    """Return which rows contain NaN."""
    absent = graph.cast(graph("IsNaN", X), "INT32")
    return graph.cast(graph.reduced("ReduceMax", absent), "BOOL")


def _along_rows(graph: _Graph, X: str, coefficients: Sequence[float]) -> str:
    # Not a matrix product: each prediction depends on its row alone, as in the release.
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
    """Shrink long rows step by step as ``clip_rows`` does, on the scaled features and a 1."""
    z = graph.between(_scaled(graph, X, model.centers, model.widths), -LARGEST, LARGEST)
    rows = graph("Concat", z, graph.repeated(graph.constant([[1.0]]), 1), axis=1)
    peaks = graph("Max", graph.reduced("ReduceMax", graph("Abs", rows)), graph.number(_LEAST_PEAK))
    directions = graph("Div", rows, peaks)
    lengths = graph("Sqrt", graph.reduced("ReduceSum", graph("Mul", directions, directions)))
    longer = graph("Greater", graph("Mul", peaks, lengths), graph.number(model.norm))
    shrink = graph("Div", graph.number(model.norm), graph("Max", lengths, graph.number(1.0)))
    clipped = graph("Where", longer, graph("Mul", directions, shrink), rows)
    line = _along_rows(graph, clipped, [*model.coefficients, model.intercept])
    return graph("Add", line, graph.number(model.offset))


def _leaves_of(graph: _Graph, X: str, model: TreesModel) -> str:
    """Return the leaf of each record in each tree (n x trees), numbered through all trees."""
    trees, depth = len(model.splits), model.depth
    splits = model.splits
    if model.shape == "oblivious":
        # It is a complete tree with the same split at all nodes of a level.
        level_of_node = [level for level in range(depth) for _ in range(2**level)]
        splits = tuple(tuple(tree[level] for level in level_of_node) for tree in splits)
    # One row with the nodes of all trees; a split without a threshold asks whether there is a value.
    nodes = [split for tree in splits for split in tree]
    features = graph.whole([feature for feature, _ in nodes])
    thresholds = graph.constant([np.inf if threshold is None else threshold for _, threshold in nodes])
    asks_presence = graph.constant([threshold is None for _, threshold in nodes], np.bool_)
    root = graph.whole([[tree * (2**depth - 1) for tree in range(trees)]])
    place = graph.repeated(graph.whole([[0]]), trees)
    for level in range(depth):
        node = graph("Add", graph("Add", place, root), graph.whole(2**level - 1))
        value = graph("GatherElements", X, graph("Gather", features, node), axis=1)
        above = graph("Greater", value, graph("Gather", thresholds, node))
        present = graph("And", graph("Gather", asks_presence, node), graph("Not", graph("IsNaN", value)))
        right = graph.cast(graph("Or", above, present), "INT64")
        place = graph("Add", graph("Mul", place, graph.whole(2)), right)
    return graph("Add", place, graph.whole([[tree * 2**depth for tree in range(trees)]]))


def _values_of(graph: _Graph, leaves: str, values: Matrix) -> str:
    """Return the sum over trees of the values of their leaves, which are the rows of ``values``."""
    found = graph("Gather", graph.constant(values), leaves, axis=0)
    return graph("ReduceSum", found, graph.whole([1]), keepdims=0)


def _trees(graph: _Graph, X: str, model: TreesModel) -> str:
    score = graph.repeated(graph.constant([[model.initial]]), 1)
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
    scores = graph.repeated(graph.constant([model.initial]), len(model.classes))
    if model.splits:
        values = np.concatenate([np.asarray(tree) for tree in model.leaves])
        scores = graph("Add", _values_of(graph, _leaves_of(graph, X, model.of_class(0)), values), scores)
    odds = graph("Exp", graph("Sub", scores, graph.reduced("ReduceMax", scores)))
    return graph("Div", odds, graph.reduced("ReduceSum", odds))
