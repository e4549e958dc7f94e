"""The base of the estimators: parameters for the options of parts, and a fit that is a private run.

*Public facts.* With a schema, those in it. Without one, only the names and the number of the columns: no
bound, category or count is taken from the table. Attributes of a fitted estimator are public or released.

*Budget.* Each ``fit`` spends ``epsilon`` and ``delta``. An estimator keeps no account, because scikit-learn
copies estimators freely: a ledger does (``ledger.payer(...)``), and copies share it.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, _clone_parametrized
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from dpkit_core import Budget, Dataset, Matrix, Plan, Registry, Release, Schema, Vector, compose
from dpkit_core.data.source import is_frame
from dpkit_core.errors import DpkitError, InvalidOption, InvalidRelease
from dpkit_core.ledger.ledger import Payer
from dpkit_core.pipeline.choose import recommend
from dpkit_core.pipeline.parts import option_fields
from dpkit_core.pipeline.recipes import find_recipe
from dpkit_sklearn.notices import RefusedFit, warn_of_exact_steps, warn_of_unpaid_fits, warn_of_waste

#: The default name of the target; the second if a feature has the first.
TARGETS = ("y", "target")

#: The regressor that dpkit recommends for the public facts, as ``dpkit compose`` without parts.
RECOMMENDED = "recommended"


class PipelineEstimator(BaseEstimator):
    """An estimator whose ``fit`` plans a pipeline of parts and runs it.

    The constructor of a subclass stores its parameters: ``schema``, ``ledger``, ``options``, ``epsilon``,
    ``delta``, ``k``, and one for each of ``_roles``, a part or its name.
    """

    _roles: ClassVar[tuple[str, ...]]

    k: int | None
    epsilon: float
    delta: float
    schema: Any
    ledger: Any
    options: Mapping[str, Mapping[str, Any]] | None

    #: An entry for each fit of an estimator and its copies that no ledger paid for; None without copies.
    _fits: list[int] | None = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with ``deep`` also ``role__option`` for each option of each part."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for role in self._roles:
                options = self._options_of(role, params[role])
                params |= {f"{role}__{name}": value for name, value in options.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``role__option`` sets an option of a part."""
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        for name, value in params.items():
            role, _, option = name.partition("__")
            if option:
                self._set_option(role, option, value)
        return self

    def _options_of(self, role: str, part: Any) -> dict[str, Any]:
        """Return the options of a part: as they are set, or their defaults."""
        if not isinstance(part, str):
            return {field.name: getattr(part, field.name) for field in option_fields(type(part))}
        registry = Registry()
        try:
            fields = option_fields(registry.load(registry.find(role, part)))
        except DpkitError:  # ``fit`` will report it
            return {}
        given = _mapping(_mapping(self.options).get(role))
        return {field.name: given.get(field.name, _default(field.default)) for field in fields}

    def _set_option(self, role: str, option: str, value: Any) -> None:
        part: Any = getattr(self, role) if role in self._roles else None
        known = self._options_of(role, part)
        if option not in known:
            raise ValueError(
                f"{type(self).__name__} has no parameter {role}__{option}; "
                + (f"{role} {part!r} has {', '.join(known) or 'no options'}" if part else "nor such a part")
                + ("; name a regressor to set its options" if part == RECOMMENDED else "")
            )
        if isinstance(part, str):
            options = _mapping(self.options)
            self.options = {**options, role: {**_mapping(options.get(role)), option: value}}
        elif attrs.has(type(part)):
            setattr(self, role, attrs.evolve(part, **{option: value}))
        else:
            setattr(self, role, dataclasses.replace(part, **{option: value}))

    def plan(self, X: Any = None, y: Any = None) -> Plan:
        """Return what a fit will spend, and on what; nothing is spent.

        Parameters
        ----------
        X, y
            Only their column names are read; not needed with a schema.
        """
        if self.schema is None and X is None:
            raise InvalidOption(
                "without a schema, a plan needs the names of the columns: give X, or set the schema"
            )
        return self._plan(self._schema(() if X is None else _names(X), y))

    def _plan(self, schema: Schema) -> Plan:
        budget = Budget(epsilon=self.epsilon, delta=self.delta)
        parts, options = {role: getattr(self, role) for role in self._roles}, self.options
        if parts.get("regressor") == RECOMMENDED:
            selecting = parts["selector"] is not None
            recipe = find_recipe(recommend(schema, budget, selecting=selecting).recipe)
            parts["regressor"] = recipe.parts["regressor"]
            options = recipe.revised({}, self.options or {}).options
        return compose(**parts, options=options).plan(
            schema,
            budget,
            k=self.k,
            **{
                name: getattr(self, name)
                for name in ("select_share", "evaluate", "in_sample")
                if hasattr(self, name)
            },
        )

    def _schema(self, names: Sequence[str], y: Any) -> Schema:
        """Return the public facts: the schema, or the names of the columns of a table."""
        given = self.schema
        if isinstance(given, Schema):
            return given
        if isinstance(given, str | Path):
            return Schema.read(given)
        if given is not None:
            raise InvalidOption(f"schema is {given!r}; give a Schema, or the path of one")
        called = getattr(y, "name", None)
        unused = (name for name in TARGETS if name not in names)
        return Schema.numeric(names, target=called if isinstance(called, str) else next(unused, TARGETS[0]))

    def _release(self, X: Any, y: Any, units: Any, fit_params: Mapping[str, Any]) -> Self:
        """Check the records, run the plan on them, and keep the release."""
        _require_none(fit_params)
        payer = self._payer()
        data, schema = self._table(X, y, units)
        warn_of_exact_steps(self)
        plan = self._plan(schema)
        warn_of_waste(plan)
        release = plan.run(data, paid_by=payer)
        if payer is None and self._fits is not None:
            self._fits.append(1)
            if len(self._fits) > 1:
                warn_of_unpaid_fits(self, len(self._fits))
        self.release_ = release
        self.certificate_ = release.certificate
        return self

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy; the copies of an estimator know together how many fits nobody paid for."""
        if self._fits is None:
            self._fits = []
        copy: Self = _clone_parametrized(self)
        copy._fits = self._fits
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """Return what other processes are sent: each counts its own fits."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fits"}

    def _table(self, X: Any, y: Any, units: Any = None) -> tuple[Dataset, Schema]:
        """Return the records, checked, and what is public about them."""
        if y is not None and not hasattr(y, "dtype"):
            # A list: NumPy's common type of all entries would let one record change what the others mean.
            y = np.asarray(y, dtype=object)
        if is_frame(X) and self.schema is not None:  # columns are the schema's, found by name
            validate_data(self, X, y, skip_check_array=True)
            records, target = X, column_or_1d(y, warn=True)
        elif self.schema is not None:  # it defines how missing values and text are encoded
            records = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
            target = column_or_1d(y, warn=True)
        else:
            if is_frame(X):
                _require_numbers(X)
            numeric = self.__sklearn_tags__().classifier_tags is None
            with _advised():
                records, target = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        schema = self._schema([name if isinstance(name, str) else f"x{name}" for name in names], y)
        return Dataset.from_arrays(records, self._target(target), schema, units=units), schema

    def _target(self, y: Any) -> Any:
        """Return the target in the form that a dataset takes."""
        return y

    def _payer(self) -> Payer | None:
        if self.ledger is None or isinstance(self.ledger, Payer):
            return self.ledger
        raise InvalidOption(f"ledger is {self.ledger!r}; give one of its accounts, as ledger.payer(ACCOUNT)")

    def _records(self, X: Any) -> Any:
        """Return new records for the released model: a table unchanged, or the matrix of all features."""
        check_is_fitted(self, "release_")
        if is_frame(X) and self.schema is not None:
            return X
        finite = True if self.schema is None else "allow-nan"
        return validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=finite)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # there is no seed to set: whoever knew it could remove the noise
        tags.target_tags.required = True
        return tags


class ModelEstimator(PipelineEstimator):
    """An estimator whose run ends with a model, or with a refusal."""

    on_refusal: str

    def _release(self, X: Any, y: Any, units: Any, fit_params: Mapping[str, Any]) -> Self:
        if self.on_refusal not in ("warn", "raise"):
            raise InvalidOption(f"on_refusal is {self.on_refusal!r}; give 'warn' or 'raise'")
        super()._release(X, y, units, fit_params)
        refusal = self.release_.refusal
        if refusal is not None:
            said = f"the fit has spent its budget and has no model: {refusal}"
            if self.on_refusal == "raise":
                raise InvalidRelease(said)
            warnings.warn(said, RefusedFit, stacklevel=3)
        return self

    @property
    def coef_(self) -> Vector:
        """The coefficients of a linear model per unit of each feature, where nothing is clipped.

        Shape (features of the schema,), encoded; 0 for a feature that was not selected.
        """
        line = self._line()
        return self._of_features(line.features, line.slopes)

    @property
    def intercept_(self) -> float:
        """The value of the line where every feature is 0."""
        return float(self._line().level)

    @property
    def feature_importances_(self) -> Vector:
        """How much each feature alone moves what the model says, scaled to a sum of 1, for models of trees.

        Shape (features of the schema,), encoded; 0 for a feature that was not selected.
        """
        model = self._model()
        moved = getattr(model, "importances", None)
        if moved is None:
            raise AttributeError(f"{_kind(model)} has no feature importances; see coef_")
        shares = self._of_features(model.features, [moved[name] for name in model.features])
        return shares / (shares.sum() or 1.0)

    def _model(self) -> Any:
        check_is_fitted(self, "release_")
        return self.release_.model

    def _line(self) -> Any:
        model = self._model()
        if not hasattr(model, "slopes"):
            raise AttributeError(f"{_kind(model)} has no coefficients")
        return model

    def _of_features(self, names: tuple[str, ...], values: Sequence[float]) -> Vector:
        every = np.zeros(len(self.certificate_.schema.features))
        every[positions(self.release_, names)] = values
        return every

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return the features that the model may use, in the order of their release."""
        check_is_fitted(self, "release_")
        every = (feature.name for feature in self.certificate_.schema.features)
        return np.array(self.release_.selected or [*every], dtype=object)

    def _predicted(self, X: Any) -> Vector | Matrix:
        """Return the predictions of the released model."""
        records, release = self._records(X), self.release_
        if isinstance(records, np.ndarray) and release.model is not None:
            records = columns_of(records, release, release.model.features)
        return release.predict(records)


def positions(release: Release, names: tuple[str, ...]) -> list[int]:
    """Return the indices of ``names`` among the features of a release's schema."""
    known = {feature.name: j for j, feature in enumerate(release.certificate.schema.features)}
    return [known[name] for name in names]


def columns_of(X: Matrix, release: Release, names: tuple[str, ...]) -> Matrix:
    """Return some columns of a matrix of all features."""
    return X[:, positions(release, names)]


def _kind(model: Any) -> str:
    return "a refused fit" if model is None else f"a model of kind {model.to_document()['kind']!r}"


def _names(X: Any) -> list[str]:
    if is_frame(X):
        return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]
    return [f"x{j}" for j in range(np.shape(X)[1])]


def _require_numbers(X: Any) -> None:
    from dpkit_core.data.frames import frame_kinds  # noqa: PLC0415 - arrays are used without pyarrow

    others = [name for name, kind in frame_kinds(X, {}).items() if kind != "numeric"]
    if others:
        raise InvalidOption(
            f"column {others[0]!r} holds dates; declare it in a schema, for example by Schema.from_frame"
        )


@contextmanager
def _advised() -> Iterator[None]:
    """Replace scikit-learn's advice to impute missing values, because that would release them."""
    try:
        yield
    except ValueError as error:
        what = str(error).split("\n", 1)[0]
        if "NaN" not in what:
            raise
        raise ValueError(
            f"{what} Without a schema nothing says how to read a missing value: give one, with missing = "
            "'drop', 'constant' or 'indicator' for the column. An imputer would read exact statistics off "
            "the records, which no certificate covers"
        ) from None


def _require_none(fit_params: Mapping[str, Any]) -> None:
    if fit_params.get("sample_weight") is not None:
        raise InvalidOption(
            "sample_weight is not accepted: a weight multiplies the influence of one record, and the noise "
            "is calibrated for records that all count once. Omit it"
        )
    unknown = sorted(set(fit_params) - {"sample_weight"})
    if unknown:
        raise TypeError(f"fit() has no parameter {unknown[0]!r}; it takes X, y and units")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _default(default: Any) -> Any:
    return None if default is attrs.NOTHING or hasattr(default, "takes_self") else default
