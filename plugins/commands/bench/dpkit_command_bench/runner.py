"""Runs the trials of a suite that are not done yet, on this machine's cores or on a Dask cluster.

One loop serves every kind of worker: keep a few trials in flight, write each row when it comes, and keep a
split on disk for as long as a trial needs it. Rows are written here and nowhere else, under the trial's key,
so a trial that a cluster runs twice, because a worker died, still counts once.
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

_WATCH = 0.5  # seconds between two looks at whether the parent is there

Report = Callable[[int, int, float | None], None]
"""Called with trials done, trials in all, and the seconds that are left, None while nobody can tell."""


@attrs.frozen
class RunOutcome:
    """What a run did.

    Attributes
    ----------
    done, before
        Trials done now, and before.
    skipped
        "table NAME" or "composition NAME" -> why it is not at hand.
    trials_skipped
        How many trials are not done for that reason.
    code
        With which the trials were run.
    """

    done: int
    before: int
    skipped: dict[str, str]
    trials_skipped: int
    code: Code


@attrs.frozen
class Workers:
    """Something that runs functions elsewhere, ``count`` at a time, of which ``ahead`` are kept in flight."""

    executor: Any
    count: int
    ahead: int

    @classmethod
    def of(cls, executor: Any, count: int) -> Workers:
        """Return workers that each have one trial running and one waiting."""
        return cls(executor, count, 2 * count)


@contextmanager
def local_workers(jobs: int) -> Iterator[Workers]:
    """Give that many processes of this machine; -1 means one for each core. One job runs in this process."""
    import joblib

    count = joblib.cpu_count() if jobs == -1 else jobs
    if count == 1:
        yield Workers(_InThisProcess(), 1, 1)
        return
    executor = joblib.externals.loky.get_reusable_executor(
        max_workers=count, initializer=_end_with, initargs=(os.getpid(),)
    )
    with _interrupts_ignored():
        for _ in range(count):  # they start while the first table is read here
            executor.submit(importlib.import_module, run_trial.__module__)
    try:
        yield Workers.of(executor, count)
    finally:
        with _lost_work_ignored():
            executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def cluster_workers(address: str) -> Iterator[Workers]:
    """Give the workers of a Dask scheduler. They must see the folder of results, where the splits lie."""
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
        # pure=False: results are not shared by what they were called with; a trial that a dead worker had is
        # run again by another.
        yield Workers.of(client.get_executor(pure=False), threads)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes that leave ctrl-C, which a terminal sends to all of them, to this one."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by what is started
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _lost_work_ignored() -> Iterator[None]:
    """Keep quiet about the trials that a shutdown throws away.

    The thread of loky's executor drops the work that waits, and then, if some was handed in just before,
    looks for it once more: a KeyError there, after the workers are killed, which would print a traceback.
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
    """End this process when its parent is gone, even killed: there is nobody to take its results."""
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
        except Exception as error:  # handed to whoever asks for the result
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
    """Return what was done, after every trial of the suite that was not done before has its row."""
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
    """Return how many trials were run: all whose table is at hand."""
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
        If the trial did not come to an end; with what is known of the reason.
    """
    rest = f"What is done is kept in {results.folder}: run again with --resume"
    try:
        return future.result()
    except BrokenProcessPool as error:
        died = "a worker process died, perhaps for want of memory"
        raise InvalidResults(f"{died} ({error}). {rest}, and fewer --jobs") from error
    except DpkitError as error:
        raise InvalidResults(f"a worker cannot run a trial: {error}. {rest}") from error
    except OSError as error:
        raise InvalidResults(
            f"a worker cannot run a trial: {error}. Workers elsewhere must see the folder of results. {rest}"
        ) from error
    except concurrent.futures.CancelledError as error:
        raise InvalidResults(f"the scheduler gave up a trial ({error}). {rest}") from error
    except Exception as error:
        if type(error).__module__.startswith("distributed."):
            raise InvalidResults(f"the scheduler gave up a trial: {error}. {rest}") from error
        raise


class _Splits:
    """The splits that trials in flight need: written when the first asks, removed after the last."""

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
        self._table: tuple[str, Loaded] | None = None  # the one being split; trials come table by table

    def __enter__(self) -> _Splits:
        shutil.rmtree(self._folder, ignore_errors=True)  # of a run that was killed
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def of(self, trial: TrialSpec) -> Split | None:
        """Return the split that the trial needs, or None where its table is not at hand."""
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
                self._table = None  # it is on disk, and takes no more memory here
        return self._ready[place]

    def release(self, trial: TrialSpec) -> None:
        """Say that a trial is done with its split."""
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
