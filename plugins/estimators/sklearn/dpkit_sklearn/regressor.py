"""Private regression as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from sklearn.base import RegressorMixin

from dpkit_core import Accountant, Regressor, Schema, Scorer, TopKSelector, Vector
from dpkit_core.ledger.ledger import Payer
from dpkit_sklearn.pipeline import ModelEstimator, warn_of_exact_score


class PrivateRegressor(RegressorMixin, ModelEstimator):
    """A regressor whose ``fit`` is a private run, with or without a private selection before it.

    Each ``fit`` spends ``epsilon`` and ``delta``: cross-validation with k folds spends k times, a grid search
    k times for each candidate and once more for the refit. Give a ledger to have that added up, and stopped
    where it ends. There is no ``random_state``, because whoever knows a seed can remove the noise, and no
    ``sample_weight``, because a weight would change the sensitivity.

    Parameters
    ----------
    scorer, selector
        Parts, or their names; both or neither. Without them the model uses every feature.
    regressor
        A part, or its name.
    accountant
        A name, or an accountant of the schema's relation; by default ``tight`` where it composes every event
        of the plan, else ``rdp``.
    k
        How many features to select; 5, or all where there are fewer.
    epsilon, delta
        What one fit may spend.
    select_share
        Fraction of it for the selection, where there is one.
    schema
        The public facts, or the path of a schema file. With it, columns of data frames are found by name, and
        a matrix holds its features in order. Without it, the names of the columns are public and nothing
        else.
    ledger
        Who pays: ``ledger.payer("account")``. The fits of all copies are charged to that account.
    options
        Options of parts that are given by name, role -> option -> value; also as parameters such as
        ``regressor__feature_norm``.

    Attributes
    ----------
    release_
        What was released: selected features, model, certificate.
    certificate_
        The certificate of ``release_``.
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
        regressor: Regressor | str = "winsorized_least_squares",
        accountant: Accountant | str | None = None,
        k: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        select_share: float = 0.05,
        schema: Schema | Path | str | None = None,
        ledger: Payer | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
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

    def fit(self, X: Any, y: Any, **fit_params: Any) -> Self:
        """Plan, pay and run.

        Parameters
        ----------
        X, y
            The private records and their targets.
        fit_params
            None is accepted; ``sample_weight`` is refused with the reason.

        Raises
        ------
        DpkitError
            As ``Pipeline.plan`` and ``Plan.run``.
        """
        return self._release(X, y, fit_params)

    def predict(self, X: Any) -> Vector:
        """Return one prediction per record, by released numbers alone.

        Raises
        ------
        InvalidRelease
            If the fit ended in a refusal: then there is no model, and the budget is spent.
        """
        return self._predicted(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R2, computed from these records without noise.

        Warns
        -----
        ExactScore
            Always: the score of private records is a release that no certificate covers, in
            cross-validation, too. Ignore the warning where the records are public.
        """
        warn_of_exact_score()
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # on the few records of scikit-learn's checks
        return tags
