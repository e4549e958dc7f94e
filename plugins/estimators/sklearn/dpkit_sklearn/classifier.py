"""Private classification as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from dpkit_core import Accountant, Column, Matrix, Plan, Regressor, Schema, Scorer, TopKSelector, Vector
from dpkit_core.errors import InvalidOption
from dpkit_core.ledger.ledger import Payer
from dpkit_sklearn.notices import warn_of_exact_score
from dpkit_sklearn.pipeline import RECOMMENDED, ModelEstimator

Labels = npt.NDArray[Any]

#: Declares that the labels that occur in the target are public.
OBSERVED = "observed"

#: Stands for a label that is no class: the name of no category.
_NONE = ""

#: Truth values, which are equal to numbers.
_TRUTHS = {"true": 1.0, "false": 0.0}

#: The assertion that the certificate then repeats.
CLASSES_PUBLIC = "the classes of the target are those that occur in it"


class PrivateClassifier(ClassifierMixin, ModelEstimator):
    """A classifier whose ``fit`` is a private run of a part that predicts probabilities.

    The set of classes is a public fact, because a class with a single record would disclose that record. It
    comes from the schema, with a categorical target, or from ``classes``. With two classes, any other label
    counts as the first; with more, as none.

    Each ``fit`` spends ``epsilon`` and ``delta``, as with ``PrivateRegressor``; there is no ``random_state``
    and no ``sample_weight`` for the same reasons.

    Parameters
    ----------
    scorer, selector
        Parts, or their names; both or neither. Without them the model uses every feature.
    regressor
        A part that learns classes, or its name: ``boosted_trees``, which is also what is recommended by
        default, or for two classes one with ``regressor__loss="logistic"``, such as ``sgbdt``.
    accountant
        A name, or an accountant for the schema's relation; by default ``tight`` if it supports every event of
        the plan, else ``rdp``.
    k
        Number of features to select; 5, or all if there are fewer.
    epsilon, delta
        Budget of one fit.
    select_share
        Fraction of it for the selection, if there is one.
    schema
        The public facts, or the path of a schema file. The categories of its target are the classes; without
        it only the names of the columns and ``classes`` are public.
    classes
        The labels in ``y``, if there is no schema, or ``y`` does not use its category names.
        ``"observed"``, without a schema, declares that the labels that occur are public, which the
        certificate repeats.
    ledger
        The account that pays: ``ledger.payer("account")``. The fits of all copies are charged to it.
    options
        Options of parts given by name, role -> option -> value; also as parameters such as
        ``regressor__trees``.
    on_refusal
        ``"warn"``: a fit whose private test says no ends without a model, with a ``RefusedFit``.
        ``"raise"``: with an ``InvalidRelease``. Its budget is spent in both cases.
    evaluate
        Share of the records, such as .1, that are held out and score the model: ``release_.evaluation``.
    in_sample
        Instead, the fraction of the budget, such as .3, for a score on the records of the fit: optimistic.

    Attributes
    ----------
    classes_
        The classes, in the order of the columns of ``predict_proba``; of two, the second is the positive one.
    release_, certificate_
        The release, and its certificate.
    coef_, intercept_, feature_importances_
        As of ``PrivateRegressor``, where the model has them.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> model = PrivateClassifier(classes=["no", "yes"], epsilon=1.0)
    >>> model.fit(X, np.where(X[:, 0] > 0, "yes", "no")).predict_proba(X).shape
    (2000, 2)
    """

    _roles: ClassVar[tuple[str, ...]] = ("scorer", "selector", "regressor", "accountant")

    def __init__(
        self,
        *,
        scorer: Scorer | str | None = None,
        selector: TopKSelector | str | None = None,
        regressor: Regressor | str = RECOMMENDED,
        accountant: Accountant | str | None = None,
        k: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        select_share: float = 0.05,
        schema: Schema | Path | str | None = None,
        classes: Sequence[Any] | str | None = None,
        ledger: Payer | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        on_refusal: str = "warn",
        evaluate: float | None = None,
        in_sample: float | None = None,
    ) -> None:
        self.scorer = scorer
        self.selector = selector
        self.regressor = regressor
        self.accountant = accountant
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.select_share = select_share
        self.schema = schema
        self.classes = classes
        self.ledger = ledger
        self.options = options
        self.on_refusal = on_refusal
        self.evaluate = evaluate
        self.in_sample = in_sample

    def fit(self, X: Any, y: Any, *, units: Any = None, **fit_params: Any) -> Self:
        """Plan, pay and run.

        Parameters
        ----------
        X, y
            The private records and their labels.
        units
            Of a schema with a unit: whose each record is, one entry a record; by default the unit's columns
            of a table ``X``. Pipelines and searches pass it by metadata routing (``set_fit_request``).
        fit_params
            None is accepted; ``sample_weight`` is refused with the reason.

        Raises
        ------
        InvalidOption
            If neither the schema nor ``classes`` gives the classes.
        DpkitError
            As ``Pipeline.plan`` and ``Plan.run``.
        """
        self._release(X, y, units, fit_params)
        self.classes_ = self._known_classes(y)
        return self

    def predict_proba(self, X: Any) -> Matrix:
        """Return the probability of each class, shape (n, classes), from the release alone.

        Raises
        ------
        InvalidRelease
            If the fit ended in a refusal: there is no model, but the budget is spent.
        """
        predicted = self._predicted(X)
        if predicted.ndim == 2:  # of several classes
            return predicted
        positive = np.clip(predicted, 0.0, 1.0)
        return np.column_stack([1 - positive, positive])

    def predict_log_proba(self, X: Any) -> Matrix:
        """Return the logarithm of each class's probability, shape (n, classes)."""
        return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> Vector | Matrix:
        """Return the log-odds of the positive class, shape (n,); of several classes the log-probabilities."""
        logs = self.predict_log_proba(X)
        odds: Vector | Matrix = logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs
        return odds

    def predict(self, X: Any) -> Labels:
        """Return the more probable class of each record."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, computed from these records without noise.

        Warns
        -----
        ExactScore
            Always, as ``PrivateRegressor.score``.
        """
        warn_of_exact_score()
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on the small tables of scikit-learn's checks
        return tags

    def _plan(self, schema: Schema) -> Plan:
        plan = super()._plan(schema)
        part = plan.assembly.regressor
        if part is not None and not _learns_classes(part.instance):
            raise InvalidOption(
                f"regressor {part.name} fits numbers to 0 and 1, and its predictions are no probabilities; "
                "use boosted_trees, for two classes also a part with loss = 'logistic', such as sgbdt, or "
                "PrivateRegressor"
            )
        return plan

    def _schema(self, names: Sequence[str], y: Any) -> Schema:
        schema = super()._schema(names, y)
        if self.schema is not None:
            _categories(schema)
            return schema
        labels = tuple(str(label) for label in self._known_classes(y))
        target = Column(schema.target.name, "categorical", categories=labels)
        observed = isinstance(self.classes, str)
        return attrs.evolve(schema, target=target, assertions=(CLASSES_PUBLIC,) if observed else ())

    def _known_classes(self, y: Any) -> Labels:
        """Return the classes: those given, those of the schema, or those that occur."""
        if isinstance(self.classes, str) and self.classes == OBSERVED and self.schema is None:
            return _observed(y)
        if self.classes is not None and not isinstance(self.classes, str):
            return _require_several(self.classes, "classes")
        if self.schema is None or self.classes is not None:
            raise InvalidOption(
                f"classes is {self.classes!r}; the classes are a public fact and are not read off the "
                'records. Give classes=["no", "yes"], or a schema whose target has categories; or, without '
                f"a schema, classes={OBSERVED!r}, which declares that the labels that occur are public"
            )
        return np.asarray(_categories(super()._schema((), y)))

    def _target(self, y: Any) -> Any:
        if self.classes is None:
            return y  # as the schema has it
        classes, schema = self._known_classes(y), self._schema((), y) if self.schema is not None else None
        names = [str(label) for label in classes] if schema is None else list(_categories(schema))
        if len(names) != len(classes):
            raise InvalidOption(
                f"classes has {len(classes)} labels, the schema {len(names)} categories; name them in order"
            )
        by_text = {str(label): name for label, name in zip(classes, names, strict=True)}
        numbers = [_number(label) for label in classes]  # a number that two labels spell is ambiguous
        by_number = {
            number: name for number, name in zip(numbers, names, strict=True) if numbers.count(number) == 1
        }
        target = np.full(len(y), _NONE, dtype=object)
        # Entry by entry: its meaning must not depend on the type that NumPy or pandas inferred for all of
        # them.
        for i, label in enumerate(np.asarray(y).tolist()):
            target[i] = by_text.get(str(label), by_number.get(_number(label), _NONE))
        return target


def _learns_classes(part: Any) -> bool:
    return getattr(type(part), "takes_classes", False) or getattr(part, "loss", None) == "logistic"


def _number(label: Any) -> float | None:
    """Return the number that a label is or spells, such as 1 for "1", 1.0 and true; None for other text."""
    try:
        number = float(_TRUTHS.get(str(label).lower(), label))
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _categories(schema: Schema) -> tuple[str, ...]:
    """Return the classes of a schema, in the order of the columns of probabilities."""
    target = schema.target
    if target.classes:
        return target.classes
    positive = target.positive_category
    if positive is None or len(target.categories) != 2:
        _require_several((), f"target {target.name!r} has no classes, or a positive one of several")
    return (*(name for name in target.categories if name != positive), str(positive))


def _require_several(classes: Sequence[Any], what: str) -> Labels:
    labels = np.asarray(classes)
    if labels.ndim != 1 or len(labels) < 2 or len(set(labels.tolist())) < len(labels):
        raise InvalidOption(f"{what}: {list(classes)!r}; two or more classes are needed, no two alike")
    return labels


def _observed(y: Any) -> Labels:
    """Return the labels that occur, which the user declares to be public."""
    if y is None:
        raise InvalidOption(f"classes is {OBSERVED!r}: give y, too, or the classes")
    labels = np.asarray(y)
    # The type is inferred from all entries here, since they have been declared public.
    labels = np.asarray(labels.tolist()) if labels.dtype == object else labels
    check_classification_targets(labels)
    found: Labels = np.unique(labels)
    if len(found) < 2:
        raise ValueError(f"the target has one class, {found[0]!r}; two classes are needed")
    return found
