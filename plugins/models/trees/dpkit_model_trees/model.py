"""Released sums of trees: predictions and documents; ``dpkit_model_trees.importances`` says what matters.

A tree of depth D has 2^D leaves, from left to right, and either one split per level (``oblivious``) or one
per node, level by level from the root (``complete``); ``dpkit_model_trees.drawing`` defines their numbering.
A split is a feature and a threshold. Values above the threshold go right; missing values go left. A split
without a threshold asks whether there is a value: missing values go left, and all others right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import attrs
from dpkit_model_lines import WinsorizedLinearModel

from dpkit_core.errors import InvalidRelease, Unsuitable
from dpkit_core.release.models import digits, interval, model_matrix
from dpkit_core.text import Shown, number_of
from dpkit_core.validators import exact_text, frozen_floats
from dpkit_model_trees.importances import Effect, Importance, Noise, importances_of, listed, over_classes

if TYPE_CHECKING:
    from dpkit_core import Column, Matrix, Vector
    from dpkit_model_trees.drawing import Trees

Split: TypeAlias = tuple[int, float | None]
"""A feature, by its index in the model, and the threshold; None asks whether there is a value."""

SHAPES = ("oblivious", "complete")

#: From a sum over trees to a prediction.
LINKS = ("identity", "logistic", "log")

# Beyond this, exp and its reciprocal saturate in float64.
_LARGEST_EXPONENT = 700.0


#: With wider target bounds, sums of trees would not fit into float64.
_LARGEST_BOUND = 2.0**900


def require_representable(target: Column) -> None:
    """Raise ``Unsuitable`` if sums of trees between the bounds of a target do not fit into float64."""
    if target.bounds is not None and max(map(abs, target.bounds)) > _LARGEST_BOUND:
        raise Unsuitable(
            f"target {target.name!r} has bounds {target.bounds}; sums of trees up to 2^900 fit into "
            "float64, so give it another unit"
        )


def _split(value: Iterable[Any]) -> Split:
    feature, threshold = value
    return _whole(feature), None if threshold is None else float(threshold)


def _whole(value: float) -> int:
    whole = int(value)
    if whole != value:
        raise ValueError(f"{value} is no whole number")
    return whole


def _splits(trees: Iterable[Iterable[Iterable[Any]]]) -> tuple[tuple[Split, ...], ...]:
    return tuple(tuple(map(_split, tree)) for tree in trees)


def _texts(names: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(exact_text, names))


def _rows(trees: Iterable[Iterable[Iterable[float]]]) -> tuple[tuple[tuple[float, ...], ...], ...]:
    return tuple(tuple(map(frozen_floats, tree)) for tree in trees)


def _leaves(trees: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(frozen_floats, trees))


@attrs.frozen
class TreesModel:
    """A sum of trees on public thresholds, with an initial score and an optional line, under a link.

    The sum is ``initial``, plus the prediction of ``linear``, plus for each tree the value of the leaf of the
    record; leaf values include learning rates. The prediction is the sum itself (``identity``), the
    probability 1 / (1 + exp(-sum)) (``logistic``) or exp(sum) (``log``), clipped to ``bounds``. Missing
    values, NaN, have a branch of their own in each tree, and count as the center of their column for the
    line.

    Attributes
    ----------
    features
        Names of the columns.
    shape
        ``oblivious``, with one split per level, or ``complete``, with one per node.
    splits
        For each tree: features, by their index in ``features``, and thresholds.
    leaves
        For each tree: leaf values, from left to right.
    initial
        The initial score.
    link
        From the sum to the prediction.
    linear
        A line that is part of the sum, over the same features.
    bounds
        Predictions are clipped to these.
    noise
        What noise alone would do, for importances; None where that is not known.

    Examples
    --------
    >>> import numpy as np
    >>> stump = TreesModel(("carat",), "oblivious", [[(0, 1.0)]], [[-500.0, 500.0]], 4000.0)
    >>> stump.predict(np.array([[0.9], [1.1], [np.nan]])).tolist()
    [3500.0, 4500.0, 3500.0]
    """

    takes_missing: ClassVar[bool] = True

    features: tuple[str, ...] = attrs.field(converter=_texts)
    shape: str
    splits: tuple[tuple[tuple[int, float | None], ...], ...] = attrs.field(converter=_splits, repr=False)
    leaves: tuple[tuple[float, ...], ...] = attrs.field(converter=_leaves, repr=False)
    initial: float = attrs.field(default=0.0, converter=float)
    link: str = "identity"
    linear: WinsorizedLinearModel | None = None
    bounds: tuple[float, float] | None = attrs.field(
        default=None, converter=attrs.converters.optional(interval)
    )
    noise: Noise | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for word, value, known in (("shape", self.shape, SHAPES), ("link", self.link, LINKS)):
            if value not in known:
                raise ValueError(f"the {word} of trees is {value!r}; it must be one of {', '.join(known)}")
        if len(self.splits) != len(self.leaves):
            raise ValueError(f"{len(self.splits)} trees have splits and {len(self.leaves)} have leaves")
        if {len(values) for values in self.leaves} - {2**self.depth}:
            raise ValueError("trees must all have the same number of leaves, a power of two")
        splits = self.depth if self.shape == "oblivious" else 2**self.depth - 1
        if {len(tree) for tree in self.splits} - {splits}:
            raise ValueError(f"{self.shape} trees with {2**self.depth} leaves have {splits} splits each")
        if not all(0 <= feature < len(self.features) for tree in self.splits for feature, _ in tree):
            raise ValueError(f"a split is on a feature beyond the {len(self.features)} of the model")
        numbers = [self.initial, *(self.bounds or ()), *(value for tree in self.leaves for value in tree)]
        numbers += [threshold for tree in self.splits for _, threshold in tree if threshold is not None]
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a number of the trees is not finite")
        if self.bounds is not None and not self.bounds[0] <= self.bounds[1]:
            raise ValueError(f"bounds are {self.bounds}; the lower one comes first")
        if self.linear is not None and self.linear.features != self.features:
            raise ValueError("the line of the trees has other features than the trees")
        if self.noise is not None:
            self.noise.require(len(self.features), 1, line=self.linear is not None)

    @property
    def depth(self) -> int:
        """The number of splits on the way to a leaf; 1 if there is no tree."""
        return max(1, len(self.leaves[0]).bit_length() - 1) if self.leaves else 1

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X``: a matrix (n x number of features) or a table with names.

        NaN stands for a missing value. For the logistic link, predictions are probabilities.
        """
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        score = self.scores(X)
        match self.link:
            case "logistic":
                score = 1 / (1 + np.exp(-np.clip(score, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)))
            case "log":
                score = np.exp(np.clip(score, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))
        return score if self.bounds is None else np.clip(score, *self.bounds)

    def scores(self, X: Matrix, /) -> Vector:
        """Return the sums, one per row of ``X``, before link and bounds."""
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        from dpkit_model_trees.drawing import add_trees, code  # noqa: PLC0415 - likewise

        X = model_matrix(X, self.features)
        thresholds = self._thresholds()
        total = add_trees(code(X, thresholds), self._trees(thresholds), self._values(), start=self.initial)
        if self.linear is not None:
            total = total + self.linear.predict(np.where(np.isnan(X), list(self.linear.centers), X))
        return total

    @property
    def importances(self) -> Mapping[str, float]:
        """How much each feature alone moves the sum, in its units; computed from the released model.

        The standard deviation of the main effect of a feature over the intervals between its thresholds, with
        equal weights: its part of the line, plus what the trees add beyond a threshold on average over the
        other splits. Noise in single leaves largely averages out, and so do interactions without a main
        effect.
        """
        return {
            name: float(effect.values.std())
            for name, effect in zip(self.features, self._effects(), strict=True)
        }

    @property
    def columns(self) -> Mapping[str, Importance]:
        """How much each column moves the sum, and where the noise is known, what it alone would do.

        Without noise, of each feature.
        """
        return importances_of(self.features, self._effects(), self.noise, self.depth)

    def _effects(self) -> list[Effect]:
        """Return the main effect of each feature, with its splits and its part of the line."""
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        from dpkit_model_trees.drawing import MISSING, split_contrasts  # noqa: PLC0415 - likewise

        # A feature in no tree is cut at the center of the line, between its fences.
        thresholds = self._thresholds()
        trees = self._trees(thresholds)
        if self.linear is not None:
            centers = np.array(self.linear.centers)
            thresholds = [
                column if column.size else centers[j : j + 1] for j, column in enumerate(thresholds)
            ]
        jumps = split_contrasts(self._values(), trees)
        if not trees.oblivious:  # all records reach the root, fewer a split below it
            jumps = jumps / 2 ** np.floor(np.log2(np.arange(jumps.shape[1]) + 1))
        found = []
        for j in range(len(self.features)):
            here, size = (trees.features == j) & (trees.cuts != MISSING), thresholds[j].size + 1
            values: Vector = np.cumsum(np.bincount(trees.cuts[here], jumps[here], minlength=size))
            splits = np.bincount(trees.cuts[here], minlength=size)[1:].astype(np.float64)
            position: Vector = np.zeros(size)
            if self.linear is not None:
                position = _position_between(thresholds[j], self.linear, j)
                values = values + self.linear.coefficients[j] * position
            found.append(Effect(values, splits, position))
        return found

    def _values(self) -> Matrix:
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        return np.array(self.leaves, dtype=np.float64).reshape(len(self.leaves), 2**self.depth)

    def _thresholds(self) -> list[Vector]:
        """Return the distinct thresholds of each feature, increasing."""
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        found: list[set[float]] = [set() for _ in self.features]
        for tree in self.splits:
            for feature, threshold in tree:
                if threshold is not None:
                    found[feature].add(threshold)
        return [np.array(sorted(column)) for column in found]

    def _trees(self, thresholds: list[Vector]) -> Trees:
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        from dpkit_model_trees.drawing import MISSING, Trees, splits_of  # noqa: PLC0415 - likewise

        shape = (len(self.splits), splits_of(self.depth, oblivious=self.shape == "oblivious"))
        splits = [split for tree in self.splits for split in tree]
        features = np.array([feature for feature, _ in splits], dtype=np.intp)
        place = [{value: i + 1 for i, value in enumerate(column.tolist())} for column in thresholds]
        cuts = [MISSING if threshold is None else place[feature][threshold] for feature, threshold in splits]
        return Trees(features.reshape(shape), np.array(cuts, dtype=np.intp).reshape(shape), self.depth)

    def shown(self) -> Shown:
        """Return the most important features, and how the prediction is computed."""
        header, rows, others = listed(self.columns)
        parts = ["an initial score", *(["a line"] if self.linear is not None else [])]
        said = {
            "identity": "The prediction is the sum of",
            "logistic": "The prediction is the probability whose log odds are the sum of",
            "log": "The prediction is the exponential of the sum of",
        }[self.link]
        trees = f"{number_of(len(self.splits), f'{self.shape} tree')} of depth {self.depth}"
        sentences = [
            f"{said} {', '.join(parts)} and {trees}.",
            f"The importance of a {header[0]} is the standard deviation of its main effect on that sum."
            + others,
        ]
        if self.bounds is not None:
            low, high = map(digits, self.bounds)
            sentences.append(f"Predictions are clipped to {low} to {high}.")
        return Shown(header, rows, (" ".join(sentences),))

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "trees",
            "shape": self.shape,
            "link": self.link,
            "initial": self.initial,
            "linear": None if self.linear is None else self.linear.to_document(),
            "bounds": None if self.bounds is None else list(self.bounds),
            "features": list(self.features),
            "trees": [
                {"splits": [list(split) for split in splits], "leaves": list(values)}
                for splits, values in zip(self.splits, self.leaves, strict=True)
            ],
            **({} if self.noise is None else {"noise": self.noise.to_document()}),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TreesModel:
        """Return the model that ``to_document`` wrote."""
        try:
            linear = document["linear"]
            return cls(
                document["features"],
                document["shape"],
                [tree["splits"] for tree in document["trees"]],
                [tree["leaves"] for tree in document["trees"]],
                document["initial"],
                document["link"],
                None if linear is None else WinsorizedLinearModel.from_document(linear),
                document["bounds"],
                noise=_noise(document),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRelease(f"cannot read the trees: {error!r}") from error


@attrs.frozen
class ClassTreesModel:
    """Sums of trees on public thresholds, one for each of several classes, all with the same splits.

    The sum of a class is its ``initial`` plus, for each tree, its value in the leaf of the record. The
    probabilities of the classes are proportional to the exponentials of their sums.

    Attributes
    ----------
    features
        Names of the columns.
    classes
        Names of the classes, in the order of predictions.
    shape
        ``oblivious``, with one split per level, or ``complete``, with one per node.
    splits
        For each tree: features, by their index in ``features``, and thresholds.
    leaves
        For each tree, from left to right: a value for each class.
    initial
        The initial score of each class.
    noise
        As of a ``TreesModel``.

    Examples
    --------
    >>> import numpy as np
    >>> leaves = [[[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]]]
    >>> stump = ClassTreesModel(("x",), ("a", "b", "c"), "oblivious", [[(0, 1.0)]], leaves, (0.0, 0.0, 0.0))
    >>> stump.predict(np.array([[0.9], [1.1]])).round(2).tolist()
    [[0.79, 0.11, 0.11], [0.16, 0.42, 0.42]]
    """

    takes_missing: ClassVar[bool] = True

    features: tuple[str, ...] = attrs.field(converter=_texts)
    classes: tuple[str, ...] = attrs.field(converter=_texts)
    shape: str
    splits: tuple[tuple[tuple[int, float | None], ...], ...] = attrs.field(converter=_splits, repr=False)
    leaves: tuple[tuple[tuple[float, ...], ...], ...] = attrs.field(converter=_rows, repr=False)
    initial: tuple[float, ...] = attrs.field(converter=frozen_floats)
    noise: Noise | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise ValueError(
                f"classes are {', '.join(self.classes)}; there must be at least two, all different"
            )
        if {len(row) for tree in self.leaves for row in tree} - {len(self.classes)}:
            raise ValueError(f"each leaf must have one value for each of {len(self.classes)} classes")
        if len(self.initial) != len(self.classes):
            raise ValueError(f"{len(self.classes)} classes have {len(self.initial)} initial scores")
        if self.noise is not None:
            self.noise.require(len(self.features), len(self.classes), line=False)
        for k in range(len(self.classes)):
            self.of_class(k)

    @property
    def depth(self) -> int:
        """The number of splits on the way to a leaf; 1 if there is no tree."""
        return self.of_class(0).depth

    def of_class(self, k: int) -> TreesModel:
        """Return the sum of class ``k`` as a separate model."""
        leaves = [[row[k] for row in tree] for tree in self.leaves]
        noise = None if self.noise is None else self.noise.of_class(k)
        return TreesModel(self.features, self.shape, self.splits, leaves, self.initial[k], noise=noise)

    def predict(self, X: Matrix, /) -> Matrix:
        """Return the probabilities of the classes, n x ``len(classes)``; NaN stands for a missing value."""
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        scores = np.column_stack([self.of_class(k).scores(X) for k in range(len(self.classes))])
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    @property
    def importances(self) -> Mapping[str, float]:
        """How much each feature alone moves the sums: the root mean square over the classes."""
        of = [self.of_class(k).importances for k in range(len(self.classes))]
        return {name: math.hypot(*(one[name] for one in of)) / math.sqrt(len(of)) for name in self.features}

    @property
    def columns(self) -> Mapping[str, Importance]:
        """As of a ``TreesModel``: the root mean square over the classes."""
        return over_classes([self.of_class(k).columns for k in range(len(self.classes))])

    def shown(self) -> Shown:
        """Return the most important columns, and how the predictions are computed."""
        header, rows, others = listed(self.columns)
        trees = number_of(len(self.splits), f"{self.shape} tree")
        sentence = (
            f"The predictions are the probabilities of {', '.join(self.classes)}, proportional to the "
            f"exponentials of sums, one for each class, of an initial score and {trees} of depth "
            f"{self.depth}. The importance of a {header[0]} is the standard deviation of its main effect on "
            f"these sums, as a root mean square over the classes.{others}"
        )
        return Shown(header, rows, (sentence,))

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "class trees",
            "shape": self.shape,
            "classes": list(self.classes),
            "initial": list(self.initial),
            "features": list(self.features),
            "trees": [
                {"splits": [list(split) for split in splits], "leaves": [list(row) for row in rows]}
                for splits, rows in zip(self.splits, self.leaves, strict=True)
            ],
            **({} if self.noise is None else {"noise": self.noise.to_document()}),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ClassTreesModel:
        """Return the model that ``to_document`` wrote."""
        try:
            return cls(
                document["features"],
                document["classes"],
                document["shape"],
                [tree["splits"] for tree in document["trees"]],
                [tree["leaves"] for tree in document["trees"]],
                document["initial"],
                noise=_noise(document),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRelease(f"cannot read the trees of classes: {error!r}") from error


def _noise(document: Mapping[str, Any]) -> Noise | None:
    return Noise(**document["noise"]) if "noise" in document else None


def _position_between(thresholds: Vector, line: WinsorizedLinearModel, j: int) -> Vector:
    """Return what a line multiplies with for feature ``j``, midway between thresholds and fences."""
    import numpy as np  # noqa: PLC0415 - a model is read and shown without it

    with np.errstate(over="ignore"):
        inner = np.clip((thresholds - line.centers[j]) / line.widths[j], -1.0, 1.0)
    ends = np.concatenate([[-1.0], inner, [1.0]])
    return np.asarray((ends[:-1] + ends[1:]) / 2)
