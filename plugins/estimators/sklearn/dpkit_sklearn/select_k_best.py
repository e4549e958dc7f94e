"""Private selection of features as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted

from dpkit_core import Accountant, Schema, Scorer, TopKSelector, Vector
from dpkit_core.errors import InvalidOption
from dpkit_core.ledger.ledger import Payer
from dpkit_sklearn.pipeline import PipelineEstimator, positions


class PrivateSelectKBest(SelectorMixin, PipelineEstimator):
    """Keeps the k features that a private selection has released, as ``sklearn`` selectors do.

    Each ``fit`` spends ``epsilon`` and ``delta``. Later steps of a pipeline see the records, so the pipeline
    as a whole is private only if they are: use a ``PrivateRegressor``, whose cost is added.

    Parameters
    ----------
    scorer, selector
        Parts, or their names.
    accountant
        A name, or an accountant for the schema's relation; by default ``tight`` if it supports every event of
        the plan, else ``rdp``.
    k
        Number of features to select; 5, or all if there are fewer.
    epsilon, delta
        Budget of one fit.
    schema
        The public facts, or the path of a schema file. All its columns must be numeric.
    ledger
        The account that pays: ``ledger.payer("account")``.
    options
        Options of parts given by name, role -> option -> value; also as parameters such as
        ``scorer__penalty``.

    Attributes
    ----------
    release_
        The release; ``release_.selected`` has the names in the order of the selection.
    certificate_
        The certificate of ``release_``.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> selector = PrivateSelectKBest(k=1, epsilon=3.0).fit(X, X[:, 1])
    >>> selector.transform(X).shape
    (2000, 1)
    """

    _roles: ClassVar[tuple[str, ...]] = ("scorer", "selector", "accountant")

    def __init__(
        self,
        *,
        scorer: Scorer | str = "kendall",
        selector: TopKSelector | str = "peel",
        accountant: Accountant | str | None = None,
        k: int | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | Path | str | None = None,
        ledger: Payer | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.scorer = scorer
        self.selector = selector
        self.accountant = accountant
        self.k = k
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.ledger = ledger
        self.options = options

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
        if self.schema is not None:
            _require_numeric(self._schema((), y))
        return self._release(X, y, units, fit_params)

    @property
    def scores_(self) -> Vector:
        """Nothing: scores are as private as records, and a selection releases which features are best."""
        check_is_fitted(self, "release_")
        raise AttributeError(
            "a private selection releases which features are best, not their scores; release_.selected has "
            "them in order"
        )

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self, "release_")
        mask = np.zeros(len(self.certificate_.schema.features), dtype=bool)
        mask[positions(self.release_, self.release_.selected)] = True
        return mask


def _require_numeric(schema: Schema) -> None:
    categorical = [column.name for column in schema.columns if column.kind != "numeric"]
    if categorical:
        raise InvalidOption(
            f"column {categorical[0]!r} is categorical: a scikit-learn selector keeps or drops whole "
            "columns, while dpkit selects categories. Encode it first by OneHotEncoder with public "
            "categories, or use PrivateRegressor, which does both"
        )
