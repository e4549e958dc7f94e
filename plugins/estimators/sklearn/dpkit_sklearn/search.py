"""A search over parameters that accounts for its folds and its candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dpkit_core import Dataset, Randomness, Release, Schema
from dpkit_core.errors import AgainstPolicy, InvalidOption, OverBudget
from dpkit_core.files.documents import digest
from dpkit_core.ledger.entries import Charge, planned
from dpkit_core.ledger.ledger import Payer, Reservation
from dpkit_core.pipeline.payment import claim_of
from dpkit_core.pipeline.policy import Policy
from dpkit_core.privacy.filters import Claim, add
from dpkit_core.release.signing import unsigned
from dpkit_sklearn.classifier import PrivateClassifier
from dpkit_sklearn.folds import SearchPlan, compare, fold_schema, folds_of, gains, rows, shown
from dpkit_sklearn.pipeline import ModelEstimator
from dpkit_sklearn.regressor import PrivateRegressor

#: Parameters that all candidates share: they are compared on one table, and the search pays.
SHARED = ("classes", "ledger", "schema")


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Fits each candidate in each fold, selects one privately, and fits that one on all records.

    ``GridSearchCV`` with a private estimator costs k fits for each candidate, and its scores are exact. Here
    records are divided into folds at random, each record pays for the k - 1 fits of each candidate that it is
    in, and candidates are compared by one private selection on bounded gains, without publishing any score.
    ``plan`` shows the cost; the proof is in ``dpkit_sklearn.folds``. Where the schema has a unit, folds are
    drawn by unit.

    Fits and comparison are one charge with one certificate, ``certificate_``. The last fit is another charge,
    with the certificate ``best_estimator_.certificate_``. Before anything is spent, the account must have
    enough for both.

    Parameters
    ----------
    estimator
        A ``PrivateRegressor`` or ``PrivateClassifier`` with the budget of one fit.
    param_grid
        As for ``GridSearchCV``: lists of values, or a list of such grids. Candidates may differ in cost, so
        ``epsilon`` may be among the parameters.
    cv
        Number of folds.
    compare_epsilon
        Epsilon of the selection of a candidate.
    selector
        The name of the selector.
    accountant
        The name of the accountant; by default ``tight`` if it supports every event, else ``rdp``.
    delta
        Delta of the total; by default the sum over all fits.
    error_bound
        The error from which on the gain of a prediction is 0, in units of the target as the schema transforms
        it; public. By default the distance of the target's bounds in the schema. 1 for probabilities.
    refit
        Whether to fit the selected candidate on all records.
    ledger
        The account that pays: ``ledger.payer("account")``.

    Attributes
    ----------
    best_index_, best_params_
        The selected candidate.
    best_estimator_
        The selected candidate, fitted on all records.
    certificate_
        The certificate of fits and comparison.
    release_
        The certificate as a release, for ``verify``.
    plan_
        The plan of the search.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> search = PrivateSearchCV(
    ...     PrivateRegressor(regressor="winsorized_least_squares"),
    ...     {"regressor__fence_share": [0.2, 0.4]},
    ...     cv=3,
    ...     error_bound=5.0,
    ... )
    >>> len(search.plan(X).fits)
    2
    """

    def __init__(
        self,
        estimator: PrivateRegressor | PrivateClassifier,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        cv: int = 5,
        compare_epsilon: float = 0.5,
        selector: str = "peel",
        accountant: str | None = None,
        delta: float | None = None,
        error_bound: float | None = None,
        refit: bool = True,
        ledger: Payer | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.compare_epsilon = compare_epsilon
        self.selector = selector
        self.accountant = accountant
        self.delta = delta
        self.error_bound = error_bound
        self.refit = refit
        self.ledger = ledger

    def plan(self, X: Any = None, y: Any = None) -> SearchPlan:
        """Return what a search will spend, and on what; nothing is spent.

        Parameters
        ----------
        X, y
            Only their column names are read; not needed with a schema.

        Raises
        ------
        InvalidOption
            If a candidate changes a parameter that all must share.
        CannotCompose
            If a fit cannot be planned or is not private, or there is no finite total.
        """
        return self._plan(self._base().plan(X, y).schema)

    def fit(self, X: Any, y: Any, *, units: Any = None) -> Self:
        """Plan, pay, fit every candidate in every fold, compare, and fit the best on all records.

        Parameters
        ----------
        X, y
            The private records and their targets.
        units
            As for ``PrivateRegressor.fit``. All records of one unit are in one fold.

        Raises
        ------
        OverBudget
            If the account cannot pay for both search and last fit; nothing is spent.
        InvalidData
            If there are fewer than 100 records, or units with a complete record; nothing is spent.
        DpkitError
            As ``Pipeline.plan`` and ``Plan.run``.
        """
        base = self._base()
        data, schema = base._table(X, y, units)
        plan, bound = self._plan(schema), self._bound(schema)
        folds = folds_of(data, plan.folds, Randomness.from_os())
        reservation = self._reserve(plan)
        try:
            releases, index = _searched(plan, data, folds, bound)
        except BaseException:
            self._settle(reservation, None)
            raise
        witness = None if reservation is None else reservation.witness
        self.plan_, self.best_index_, self.best_params_ = plan, index, dict(plan.candidates[index])
        self.certificate_ = plan.certificate(releases, witness)
        self.release_ = Release((), None, None, self.certificate_)
        self._settle(reservation, self.release_)
        self.n_features_in_ = base.n_features_in_
        if self.refit:
            best = self._candidate(self.best_params_).set_params(ledger=_of_last_fit(self.ledger))
            self.best_estimator_ = best.fit(X, y, units=units)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predictions of the selected candidate."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    def _predict_proba(self, X: Any) -> npt.NDArray[Any]:
        """Return the probability of each class, by the selected candidate."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    # Only if the estimator has it.
    predict_proba = available_if(lambda search: hasattr(search.estimator, "predict_proba"))(_predict_proba)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes of the selected candidate."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.classes_

    def score(self, X: Any, y: Any) -> float:
        """Return the score of the selected candidate on these records, without noise; it warns."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.input_tags = inner.target_tags, inner.input_tags
        tags.non_deterministic = True
        return tags

    def _base(self) -> ModelEstimator:
        given: object = self.estimator
        if not isinstance(given, ModelEstimator):
            raise InvalidOption(f"estimator is {given!r}; give a PrivateRegressor or a PrivateClassifier")
        if self.estimator.ledger is not None:
            raise InvalidOption("the estimator has its own ledger; give the ledger to the search, which pays")
        return clone(self.estimator)

    def _candidate(self, params: Mapping[str, Any]) -> ModelEstimator:
        # A grid's values are the caller's objects, and an estimator never changes its parameters.
        return self._base().set_params(**params)

    def _plan(self, schema: Schema) -> SearchPlan:
        cv: object = self.cv  # scikit-learn's searches take splitters, too
        if isinstance(cv, bool) or not isinstance(cv, int) or cv < 2:
            raise InvalidOption(f"cv is {cv!r}; give a number of folds, 2 or more: they are drawn privately")
        candidates = tuple(ParameterGrid(self.param_grid))
        for params in candidates:
            shared = sorted(set(params) & set(SHARED))
            if shared:
                raise InvalidOption(
                    f"candidate {shown(params)} changes {shared[0]}, which all candidates share; set it on "
                    f"the {'search' if shared[0] == 'ledger' else 'estimator'}"
                )
        self._bound(schema)
        estimators = [self._candidate(params) for params in candidates]
        fits = tuple(each._plan(fold_schema(schema)) for each in estimators)
        refits = fits if schema.records is None else tuple(each._plan(schema) for each in estimators)
        return SearchPlan.of(
            candidates,
            fits,
            refits if self.refit else (),
            folds=self.cv,
            comparison=(self.selector, self.compare_epsilon),
            accountant=self.accountant,
            schema=schema,
            delta=self.delta,
        )

    def _bound(self, schema: Schema) -> float:
        """Return the public error from which on the gain is 0."""
        if isinstance(self.estimator, PrivateClassifier):
            return 1.0
        bounds = schema.outcome.bounds
        if self.error_bound is None and bounds is None:
            raise InvalidOption(
                f"target {schema.target.name!r} has no public bounds, so errors are unbounded; give "
                "error_bound, the error from which on a prediction is worthless, from public knowledge"
            )
        bound = self.error_bound if self.error_bound is not None or bounds is None else bounds[1] - bounds[0]
        if not (isinstance(bound, int | float) and 0 < bound < np.inf):
            raise InvalidOption(f"error_bound is {bound!r}; give a finite number above 0")
        return float(bound)

    def _reserve(self, plan: SearchPlan) -> Reservation | None:
        """Charge fits and comparison together, if the account can pay for the last fit as well."""
        policy = Policy.of_site()
        policy.require_budget(plan.together)
        if policy.ledger is not None:
            raise AgainstPolicy(
                "the site charges every run separately, and a search pays for its fits together; use "
                "GridSearchCV, which pays for each"
            )
        payer = self._base().set_params(ledger=self.ledger)._payer()
        if payer is None:
            return None
        claim = Claim(plan.epsilon, plan.delta, tuple(plan.charged), plan.schema.neighboring)
        about = {
            "search": f"{len(plan.fits)} candidates, {plan.folds} folds",
            "accountant": plan.accountant.name,
        }
        document = plan.certificate().to_document()
        identity: Mapping[str, Any] = {} if payer.charge is None else {"id": payer.charge}
        charge = Charge(payer.account, claim, plan.schema, digest(planned(document)), about, **identity)
        _require_both(plan, payer, charge)
        return payer.ledger.reserve(charge)

    def _settle(self, reservation: Reservation | None, release: Release | None) -> None:
        if reservation is None or self.ledger is None:
            return
        if release is None:
            self.ledger.ledger.settle(reservation, "failed")
        else:
            self.ledger.ledger.settle(reservation, "released", digest(unsigned(release.to_document())))


def _of_last_fit(payer: Payer | None) -> Payer | None:
    """Return the payer of the last fit: a second charge, since the search has the given identity."""
    if payer is None or payer.charge is None:
        return payer
    return attrs.evolve(payer, charge=f"{payer.charge}, last fit")


def _require_both(plan: SearchPlan, payer: Payer, charge: Charge) -> None:
    """Raise unless the account can pay for the search and the last fit of any candidate."""
    statement = payer.ledger.statement(payer.account)
    measure, limits = statement.account.measure, statement.account.limits
    spent = add(statement.total, payer.ledger.price(charge))
    beside = _of_last_fit(payer)
    identity: Mapping[str, Any] = {} if beside is None or beside.charge is None else {"id": beside.charge}
    for refit in plan.refits:
        last = payer.ledger.price(Charge(payer.account, claim_of(refit), refit.schema, "", **identity))
        if not measure.admits(add(spent, last), limits):
            raise OverBudget(
                f"account {payer.account} cannot pay for the search and its last fit: spent so far "
                f"{measure.in_words(statement.total, limits)}; after both, "
                f"{measure.in_words(add(spent, last), limits)}. Nothing is charged, and no part was given "
                "data. Try fewer candidates or folds, or fits with a smaller budget"
            )


def _searched(
    plan: SearchPlan, data: Dataset, folds: npt.NDArray[np.int64], bound: float
) -> tuple[tuple[Release, ...], int]:
    """Return every run's release, the comparison's last, and the selected candidate's number."""
    table = np.zeros((data.records, len(plan.fits)))
    releases = []
    for fold in range(plan.folds):
        inside = folds == fold
        outside, kept = rows(data, ~inside), rows(data, inside)
        for c, fit in enumerate(plan.fits):
            release = fit.run(outside)
            releases.append(release)
            table[inside, c] = gains(release, kept, bound)
    chosen = compare(plan, table)
    names = [column.name for column in plan.comparison.schema.columns]
    return (*releases, chosen), names.index(chosen.selected[0])
