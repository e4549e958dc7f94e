"""One trial: plan, run, score on the held-out records. A pure function of the trial and its split.

A split is in two files that workers map into memory: the permuted records, training records first. So
training and held-out records are views, and a table is in memory once for any number of workers.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from threadpoolctl import threadpool_limits

from dpkit_command_bench.code import code_hash
from dpkit_command_bench.metrics import Outcome, measure
from dpkit_command_bench.sources import Loaded
from dpkit_command_bench.suite import TrialSpec
from dpkit_core import (
    Budget,
    Certificate,
    Dataset,
    Matrix,
    Model,
    Neighboring,
    Plan,
    Randomness,
    Release,
    Schema,
    Vector,
    __version__,
    compose,
)
from dpkit_core.errors import DpkitError, PartFailed
from dpkit_core.pipeline.choose import FALLBACK
from dpkit_core.pipeline.observers import Observers

RESEARCH = (
    "trials are seeded research, not releases: they are run many times on the same records",
    "metrics are computed on held-out private records, without noise",
)

Row = dict[str, Any]


@attrs.frozen
class Split:
    """A random split of one table, on disk, with what a worker needs to know about the table.

    Attributes
    ----------
    X, y
        Files of the permuted records; the first ``train`` of them are the training records.
    whose
        File of the unit of each, as a number; None without a unit. No unit has records on both sides.
    """

    X: Path
    y: Path
    whose: Path | None
    train: int
    schema: Schema
    origin: str
    sha256: str
    relevant: tuple[str, ...]
    assertions: tuple[str, ...]

    @classmethod
    def write(cls, loaded: Loaded, trial: TrialSpec, folder: Path) -> Split:
        """Return a split of the table, written to ``folder`` one column at a time."""
        data = loaded.data
        rows = len(data.y)
        rng = np.random.default_rng(trial.split_seed)
        if loaded.schema.unit is None:
            order, held_out = rng.permutation(rows), _held_out(trial, rows)
        else:
            _, places = np.unique(data.whose, return_inverse=True)
            units = int(places.max()) + 1
            turn = rng.permutation(units)[places]
            order = np.argsort(turn, kind="stable")
            held_out = int((turn >= units - _held_out(trial, units)).sum())
        X, y = folder / "X.npy", folder / "y.npy"
        # Written, not mapped: on a full disk this raises an error, while a mapping would end in a bus error.
        with X.open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f8", "fortran_order": True, "shape": data.X.shape}
            )
            for j in range(data.X.shape[1]):
                file.write(np.ascontiguousarray(data.X[order, j], dtype="<f8").data)
        np.save(y, data.y[order])
        whose = None
        if loaded.schema.unit is not None:
            whose = folder / "whose.npy"
            np.save(whose, data.whose[order])
        schema = loaded.schema
        if schema.neighboring is Neighboring.REPLACE_ONE:  # the number of records is then public
            schema = attrs.evolve(schema, records=rows - held_out)
        return cls(
            X,
            y,
            whose,
            rows - held_out,
            schema,
            loaded.origin,
            loaded.sha256,
            loaded.relevant,
            loaded.assertions,
        )

    def read(self) -> tuple[Dataset, Matrix, Vector]:
        """Return the training records, and the held-out features and targets, mapped from disk."""
        X, y = np.load(self.X, mmap_mode="r"), np.load(self.y, mmap_mode="r")
        units = None
        if self.whose is not None and self.schema.unit is not None:
            numbers = np.load(self.whose)[: self.train]
            units = dict.fromkeys(self.schema.unit.columns, numbers)
        train = Dataset.from_arrays(X[: self.train], y[: self.train], self.schema, units=units)
        return train, X[self.train :], y[self.train :]


def _held_out(trial: TrialSpec, apart: int) -> int:
    """Return how many records, or units, of so many are held out: at least one, of all but two."""
    return min(max(1, round(trial.test_fraction * apart)), apart - 2)


def run_trial(trial: TrialSpec, split: Split) -> Row:
    """Return the row of results of one trial.

    Failure is a result, too: ``impossible`` if the composition cannot be planned for this table, ``failed``
    if a part raised, ``refused`` if a private test refused.

    Raises
    ------
    DpkitError
        If a part is not installed on the worker.
    """
    # One thread: sums have the same order on every machine, and jobs do not compete for cores.
    with threadpool_limits(1):
        _reset_peak_memory()
        started = Clock.now()
        row = _identity(trial, split) | {"private": False, "reasons": [*RESEARCH, *split.assertions]}
        try:
            plan = _planned(trial, split)
        except DpkitError as error:
            return (
                row | _stopped("impossible", error) | {"plan_seconds": started.wall()} | Clock.now().usage()
            )
        row |= _parts(plan) | {"plan_seconds": started.wall()}
        train, X, y = split.read()
        started = Clock.now()
        try:
            release = plan.run(
                train, randomness=Randomness.from_seed(trial.noise_seed), observers=Observers.none()
            )
        except DpkitError as error:
            return row | _stopped("failed", error) | started.usage()
        row |= started.usage()
        try:
            return row | _judged(split, release, X, y)
        except PartFailed as error:
            return row | _stopped("failed", error)


def _planned(trial: TrialSpec, split: Split) -> Plan:
    composition = trial.composition
    if trial.accountant_by_default == FALLBACK and "accountant" not in composition.parts:
        composition = composition.revised({"accountant": FALLBACK}, {})
    recipe = json.dumps(composition.to_document(), sort_keys=True)
    return _plan(recipe, split.schema, Budget(trial.epsilon, trial.delta), trial.k)


@functools.lru_cache(maxsize=256)
def _plan(recipe: str, schema: Schema, budget: Budget, k: int | None) -> Plan:
    """Return the plan of a recipe, given as JSON; cached, since calibration can take longer than a trial."""
    document = json.loads(recipe)
    pipeline = compose(**document["parts"], options=document.get("options", {}))
    share: dict[str, Any] = {key: float(document[key]) for key in ("select_share",) if key in document}
    return pipeline.plan(schema, budget, k=k, **share)


def _identity(trial: TrialSpec, split: Split) -> Row:
    """Return what is needed to repeat the trial."""
    rows = int(np.load(split.y, mmap_mode="r").shape[0])
    return {
        "key": trial.key,
        "suite": trial.suite,
        "seed": trial.seed,
        "table": trial.table.name,
        "origin": split.origin,
        "data_sha256": split.sha256,
        "records": rows,
        "training_records": split.train,
        "features": len(split.schema.features),
        "composition": trial.composition.name,
        "recipe": json.dumps(trial.composition.to_document(), sort_keys=True),
        "neighboring": trial.neighboring.value,
        "unit": None if (unit := split.schema.unit) is None else f"{unit}, {unit.most_records} of each",
        "epsilon": trial.epsilon,
        "delta": trial.delta,
        "k": trial.k,
        "test_fraction": trial.test_fraction,
        "split": trial.split,
        "trial": trial.repeat,
        "code_sha256": code_hash(trial.composition),
        "dpkit": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _parts(plan: Plan) -> Row:
    parts = [f"{part.role} {part.record.qualified} {part.version}".rstrip() for part in plan.parts]
    return {"parts": parts, "mechanism_private": not plan.reasons}


def _stopped(outcome: str, error: DpkitError) -> Row:
    return {"outcome": outcome, "message": str(error)}


def _judged(split: Split, release: Release, X: Matrix, y: Vector) -> Row:
    positions = {feature.name: j for j, feature in enumerate(split.schema.features)}
    selected, relevant = ([positions[name] for name in names] for names in (release.selected, split.relevant))
    predictions = None
    if release.model is not None:
        columns = [positions[name] for name in release.model.features]
        predictions = _predicted(release.model, np.ascontiguousarray(X[:, columns]))
    certificate = release.certificate
    outcome = Outcome(np.asarray(y), predictions, tuple(selected), tuple(relevant))
    return {
        "outcome": certificate.outcome,
        "message": release.refusal,
        "selected": list(release.selected),
        "spent_epsilon": certificate.epsilon,
        "certificate_sha256": certificate_hash(certificate),
        "reasons": list(dict.fromkeys((*certificate.reasons, *RESEARCH, *split.assertions))),
        **measure(outcome, refused=release.refusal is not None),
    }


def _predicted(model: Model, X: Matrix) -> Vector:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            predictions = np.asarray(model.predict(X), dtype=np.float64)
    except Exception as error:
        raise PartFailed(f"the model failed while predicting ({type(error).__name__}: {error})") from error
    if predictions.shape != X.shape[:1]:
        raise PartFailed(f"the model predicted {predictions.shape} numbers for {len(X)} records")
    return predictions


def certificate_hash(certificate: Certificate) -> str:
    """Return the SHA-256 of a certificate as JSON with sorted keys."""
    text = json.dumps(certificate.to_document(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@attrs.frozen
class Clock:
    """A point in wall-clock time and in this process's processor time."""

    _wall: float
    _cpu: float

    @classmethod
    def now(cls) -> Clock:
        """Return the current time."""
        return cls(time.perf_counter(), time.process_time())

    def wall(self) -> float:
        """Return the seconds since then."""
        return time.perf_counter() - self._wall

    def usage(self) -> Row:
        """Return the time that the process used since then, and its peak memory since the trial began."""
        return {
            "wall_seconds": self.wall(),
            "cpu_seconds": time.process_time() - self._cpu,
            "peak_memory_mb": _peak_memory_mb(),
        }


_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _reset_peak_memory() -> None:
    """Reset the worker's peak memory, if the system can (Linux), so that trials do not share it."""
    if os.access(_RESET, os.W_OK):
        _RESET.write_text("5")  # proc(5): resets the peak resident set size


def _peak_memory_mb() -> float | None:
    """Return the peak resident memory of the worker process, in megabytes of 2^20 bytes."""
    if _STATUS.is_file():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    try:
        import resource
    except ImportError:
        return None
    unit = 2**20 if sys.platform == "darwin" else 2**10  # bytes on macOS, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
