"""Runs the pending trials of a suite, on this machine's cores or on a Dask cluster.

One loop serves every kind of worker: keep a few trials in flight, write each row when it arrives, and keep a
split on disk for as long as a trial needs it. Rows are written only here, under the trial's key, so a trial
that a cluster runs twice, because a worker died, still counts once.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from dpkit_command_bench.code import Code
from dpkit_command_bench.errors import InvalidResults, MissingTable
from dpkit_command_bench.forecast import TimeEstimate
from dpkit_command_bench.results import Results
from dpkit_command_bench.sources import Loaded, load
from dpkit_command_bench.suite import Suite, TrialSpec
from dpkit_command_bench.trial import Row, Split, run_trial
from dpkit_core.errors import DpkitError, MissingDependency, install

_WATCH = 0.5  # seconds between two checks of whether the parent is alive

Report = Callable[[int, int, float | None], None]
"""Called with trials done, trials in total, and the seconds left, None while unknown."""


@attrs.frozen
class RunOutcome:
    """What a run did.

    Attributes
    ----------
    done, before
        Trials done now, and before.
    skipped
        "table NAME" or "composition NAME" -> why it is not available.
    trials_skipped
        How many trials were skipped for that reason.
    code
        The code of the trials.
    """

    done: int
    before: int
    skipped: dict[str, str]
    trials_skipped: int
    code: Code


@attrs.frozen
class Workers:
    """An executor that runs ``count`` functions at a time, with ``ahead`` of them in flight."""

    executor: Any
    count: int
    ahead: int

    @classmethod
    def of(cls, executor: Any, count: int) -> Workers:
        """Return workers that each have one trial running and one waiting."""
        return cls(executor, count, 2 * count)


@contextmanager
def local_workers(jobs: int) -> Iterator[Workers]:
    """Yield ``jobs`` processes of this machine; -1 means one per core, 1 means this process."""
    import joblib

    count = joblib.cpu_count() if jobs == -1 else jobs
    if count == 1:
        yield Workers(_InThisProcess(), 1, 1)
        return
    executor = joblib.externals.loky.get_reusable_executor(
        max_workers=count, initializer=_end_with, initargs=(os.getpid(),)
    )
    with _interrupts_ignored():
        for _ in range(count):  # they start while this process reads the first table
            executor.submit(importlib.import_module, run_trial.__module__)
    try:
        yield Workers.of(executor, count)
    finally:
        with _lost_work_ignored():
            executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def cluster_workers(address: str) -> Iterator[Workers]:
    """Yield the workers of a Dask scheduler, which must have access to the folder of results."""
    try:
        distributed: Any = importlib.import_module("distributed")  # untyped
    except ImportError as error:
        raise MissingDependency("distributed", "--scheduler", install("[dask]")) from error
    try:
        client = distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidResults(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InvalidResults(f"the Dask scheduler at {address} has no workers; start some")
        # pure=False: results are not cached by arguments; a trial of a dead worker is run again by another.
        yield Workers.of(client.get_executor(pure=False), threads)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes that ignore ctrl-C, which a terminal sends to all, and leave it to this one."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a signal handler
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by the processes started
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _lost_work_ignored() -> Iterator[None]:
    """Suppress errors about the trials that a shutdown discards.

    The thread of loky's executor drops pending work, and then, if some was submitted just before, looks it
    up again: a KeyError there, after the workers are killed, which would print a traceback.
    """
    before = threading.excepthook

    def told(failure: threading.ExceptHookArgs, /) -> None:
        if not issubclass(failure.exc_type, KeyError):
            before(failure)

    threading.excepthook = told
    try:
        yield
    finally:
        threading.excepthook = before


def _end_with(parent: int) -> None:
    """End this process when its parent has ended or was killed, since nothing would take its results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _InThisProcess:
    """An executor that runs each function at once, in this process."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # raised again for the caller of result()
            future.set_exception(error)
        return future


def run(
    suite: Suite,
    results: Results,
    workers: Workers,
    *,
    data_dir: Path | None = None,
    report: Report = lambda done, total, left: None,
) -> RunOutcome:
    """Run every pending trial of the suite, and return what was done."""
    code = Code.of(suite)
    with results.locked():
        results.begin(suite.to_document())
        known = list(results.stored("key", "table", "data_sha256"))
        keys = {row["key"] for row in known}
        trials = list(suite.trials())
        pending = [trial for trial in trials if trial.key not in keys]
        ready = [trial for trial in pending if trial.composition.name not in code.missing]
        seen = {row["table"]: row["data_sha256"] for row in known}
        with _Splits(suite, ready, results.folder / "splits", data_dir, seen) as splits:
            done = _drain(ready, splits, results, workers, report)
        results.pack()
    absent = {trial.composition.name for trial in pending} & code.missing.keys()
    skipped = {f"composition {name}": code.missing[name] for name in sorted(absent)}
    skipped |= {f"table {name}": reason for name, reason in splits.missing.items()}
    return RunOutcome(done, len(trials) - len(pending), skipped, len(pending) - done, code)


def _drain(
    pending: Sequence[TrialSpec], splits: _Splits, results: Results, workers: Workers, report: Report
) -> int:
    """Return how many trials were run: all whose table is available."""
    forecast = TimeEstimate(pending, workers.count)
    waiting = iter(pending)
    flying: dict[concurrent.futures.Future[Row], TrialSpec] = {}

    def launch() -> None:
        for trial in waiting:
            if (split := splits.of(trial)) is not None:
                flying[workers.executor.submit(run_trial, trial, split)] = trial
                return
            forecast.drop(trial)

    for _ in range(workers.ahead):
        launch()
    done = 0
    report(done, forecast.total, None)
    while flying:
        landed, _ = concurrent.futures.wait(flying, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in landed:
            trial, row = flying.pop(future), _row(future, results)
            results.add(row)
            splits.release(trial)
            done += 1
            forecast.note(trial, row["plan_seconds"] + row["wall_seconds"], row["records"] * row["features"])
            launch()
            report(done, forecast.total, forecast.seconds_left())
    return done


def _row(future: concurrent.futures.Future[Row], results: Results) -> Row:
    """Return a row.

    Raises
    ------
    InvalidResults
        If the trial did not finish, with the reason as far as it is known.
    """
    rest = f"Finished trials are in {results.folder}: run again with --resume"
    try:
        return future.result()
    except BrokenProcessPool as error:
        died = "a worker process died, perhaps for lack of memory"
        raise InvalidResults(f"{died} ({error}). {rest}, and fewer --jobs") from error
    except DpkitError as error:
        raise InvalidResults(f"a worker cannot run a trial: {error}. {rest}") from error
    except OSError as error:
        raise InvalidResults(
            f"a worker cannot run a trial: {error}. Remote workers must have access to the folder of "
            f"results. {rest}"
        ) from error
    except concurrent.futures.CancelledError as error:
        raise InvalidResults(f"the scheduler gave up a trial ({error}). {rest}") from error
    except Exception as error:
        if type(error).__module__.startswith("distributed."):
            raise InvalidResults(f"the scheduler gave up a trial: {error}. {rest}") from error
        raise


class _Splits:
    """The splits of the trials in flight: written for the first trial of a split, removed after the last."""

    def __init__(
        self,
        suite: Suite,
        pending: Sequence[TrialSpec],
        folder: Path,
        data_dir: Path | None,
        seen: Mapping[str, str],
    ) -> None:
        self.missing: dict[str, str] = {}
        self._suite = suite
        self._seen = seen
        self._folder = folder
        self._data_dir = data_dir
        self._owed = Counter((trial.table.name, trial.split) for trial in pending)
        self._ready: dict[tuple[str, int], Split] = {}
        self._unsplit = Counter(table for table, _ in self._owed)
        self._table: tuple[str, Loaded] | None = None  # the table being split; trials come table by table

    def __enter__(self) -> _Splits:
        shutil.rmtree(self._folder, ignore_errors=True)  # leftovers of a killed run
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def of(self, trial: TrialSpec) -> Split | None:
        """Return the split that the trial needs, or None if its table is not available."""
        place = trial.table.name, trial.split
        if trial.table.name in self.missing:
            return None
        if place not in self._ready:
            try:
                loaded = self._loaded(trial)
            except MissingTable as error:
                self.missing[trial.table.name] = str(error)
                return None
            folder = self._path(place)
            try:
                folder.mkdir(parents=True)
                self._ready[place] = Split.write(loaded, trial, folder)
            except OSError as error:
                raise InvalidResults(
                    f"cannot write a split of table {trial.table.name!r} to {folder}: "
                    f"{error.strerror or error}; make room, and run again with --resume"
                ) from error
            self._unsplit[trial.table.name] -= 1
            if not self._unsplit[trial.table.name]:
                self._table = None  # all its splits are on disk; free its memory
        return self._ready[place]

    def release(self, trial: TrialSpec) -> None:
        """Release the split of a finished trial."""
        place = trial.table.name, trial.split
        self._owed[place] -= 1
        if not self._owed[place]:
            del self._ready[place]
            shutil.rmtree(self._path(place), ignore_errors=True)

    def _path(self, place: tuple[str, int]) -> Path:
        table = next(i for i, spec in enumerate(self._suite.tables) if spec.name == place[0])
        return self._folder.absolute() / f"{table}-{place[1]}"

    def _loaded(self, trial: TrialSpec) -> Loaded:
        if self._table is None or self._table[0] != trial.table.name:
            loaded = load(
                trial.table,
                data_dir=self._data_dir,
                folder=self._suite.folder,
                seed=trial.seed,
                neighboring=trial.neighboring,
            )
            if self._seen.get(trial.table.name, loaded.sha256) != loaded.sha256:
                raise InvalidResults(
                    f"{self._folder.parent} has results on another table {trial.table.name!r} than the one "
                    f"from {loaded.origin}: the numbers differ. Choose another --results"
                )
            self._table = trial.table.name, loaded
        return self._table[1]
