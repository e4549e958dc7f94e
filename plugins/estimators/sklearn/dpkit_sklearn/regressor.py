"""Private regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from sklearn.base import RegressorMixin

from dpkit_core import Accountant, Regressor, Schema, Scorer, TopKSelector, Vector
from dpkit_core.ledger.ledger import Payer
from dpkit_sklearn.notices import warn_of_exact_score
from dpkit_sklearn.pipeline import RECOMMENDED, ModelEstimator


class PrivateRegressor(RegressorMixin, ModelEstimator):
    """A regressor whose ``fit`` is a private run, with or without a private selection before it.

    Each ``fit`` spends ``epsilon`` and ``delta``: cross-validation with k folds spends them k times, a grid
    search k times for each candidate and once more for the refit. Use a ledger to add these up and to enforce
    a limit. There is no ``random_state``, because anyone who knows the seed can remove the noise, and no
    ``sample_weight``, because a weight would change the sensitivity.

    Parameters
    ----------
    scorer, selector
        Parts, or their names; both or neither. Without them the model uses every feature.
    regressor
        A part, or its name; by default what dpkit recommends for the public facts, as ``dpkit compose`` does.
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
        The public facts, or the path of a schema file. With it, columns of data frames are found by name, and
        a matrix has its features in order. Without it, only the names of the columns are public.
    ledger
        The account that pays: ``ledger.payer("account")``. The fits of all copies are charged to it.
    options
        Options of parts given by name, role -> option -> value; also as parameters such as
        ``regressor__feature_norm``.
    on_refusal
        ``"warn"``: a fit whose private test says no ends without a model, with a ``RefusedFit``.
        ``"raise"``: with an ``InvalidRelease``. Its budget is spent in both cases.
    evaluate
        Share of the records, such as .1, that are held out and score the model: ``release_.evaluation``.
    in_sample
        Instead, the fraction of the budget, such as .3, for a score on the records of the fit: optimistic.

    Attributes
    ----------
    release_
        The release: selected features, model, certificate.
    certificate_
        The certificate of ``release_``.
    coef_, intercept_
        Of a linear model: the line where nothing is clipped, in the order of the schema's features.
    feature_importances_
        Of trees: how much each feature alone moves the prediction, in the same order.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> model = PrivateRegressor(epsilon=1.0, delta=1e-6).fit(X, X @ [1.0, 2.0, 0.0])
    >>> model.predict(X).shape
    (2000,)
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
            The private records and their targets.
        units
            Of a schema with a unit: whose each record is, one entry a record; by default the unit's columns
            of a table ``X``. Pipelines and searches pass it by metadata routing (``set_fit_request``).
        fit_params
            None is accepted; ``sample_weight`` is refused with the reason.

        Raises
        ------
        DpkitError
            As ``Pipeline.plan`` and ``Plan.run``.
        """
        return self._release(X, y, units, fit_params)

    def predict(self, X: Any) -> Vector:
        """Return one prediction per record, from the release alone.

        Raises
        ------
        InvalidRelease
            If the fit ended in a refusal: there is no model, but the budget is spent.
        """
        return self._predicted(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2, computed from these records without noise.

        Warns
        -----
        ExactScore
            Always: the score of private records is a release that no certificate covers, also in
            cross-validation. Ignore the warning if the records are public.
        """
        warn_of_exact_score()
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the small tables of scikit-learn's checks
        return tags
