"""What a part does when it is not tested: the source of a process without the kit.

Run as ``python -c`` with this text, and again under the kit; if the two disagree, the part can tell them
apart. Nothing of ``dpkit_check`` is imported, so that a part cannot recognize it.
"""

import base64
import functools
import importlib
import importlib.util
import io
import json
import logging
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

SLOW_TO_IMPORT = ("scipy.stats", "sklearn", "pandas", "matplotlib", "dp_accounting")


def main() -> None:
    """Load the part that the standard input names, and print what it did."""
    request = json.loads(sys.stdin.readline())
    sys.path[:] = request["path"]
    try:
        importlib.import_module(request["module"])
    except ImportError:
        load(request["module"], request["file"])
    slow = [name for name in SLOW_TO_IMPORT if name in sys.modules]
    found: dict[str, Any] = {"slow": slow}
    if request["part"]:
        # What the interpreter compiled of a library that is imported late is no file of the part.
        sys.dont_write_bytecode = True
        # NumPy 1 starts lscpu where this is first imported, as SciPy does.
        importlib.import_module("numpy.testing")
        opened = watch_files()
        try:
            make = pickle.loads(base64.b64decode(request["part"]))
        except Exception:
            make = None
        found["told"] = None
        if make is not None and (request["kind"] == "accountant" or scores_tables(make())):
            with Descriptors() as descriptors:
                found["told"] = told(make, request["kind"], opened, written=descriptors.read)
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def scores_tables(part: Any) -> bool:
    """Return whether a part is given tables, and not the iterates of a regressor alone."""
    return getattr(type(part), "forms", None) != ("iterates",)


def load(name: Any, file: Any) -> None:
    """Import a module that is not installed, from its file."""
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, file
    assert spec.loader is not None, file
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def watch_files() -> list[str]:
    """Return a list to which whatever is written, started or connected to is added."""
    opened: list[str] = []

    def hook(event: Any, arguments: Any) -> None:
        if event == "open":
            path, _, flags = (*arguments, 0, 0)[:3]
            written = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            name = os.fsdecode(path) if isinstance(path, str | bytes) else str(path)
            if written and name != os.devnull and not isinstance(path, int):
                opened.append(f"opened {name} for writing")
        elif event in {
            "os.mkdir",
            "os.rename",
            "os.link",
            "os.symlink",
            "socket.connect",
            "subprocess.Popen",
        }:
            opened.append(f"{event} {arguments[0]}")

    sys.addaudithook(hook)
    return opened


class Descriptors:
    """Keeps what is written to the descriptors 1 and 2 themselves; what is printed goes nowhere."""

    def __enter__(self) -> Any:
        self._streams = sys.stdout, sys.stderr
        self._kept = os.dup(1), os.dup(2)
        self._files = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        for stream, file, descriptor in zip(self._streams, self._files, (1, 2), strict=True):
            stream.flush()
            os.dup2(file.fileno(), descriptor)
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        return self

    def read(self) -> str:
        """Return what was written since it was last read."""
        text = ""
        for stream, file in zip(self._streams, self._files, strict=True):
            stream.flush()
            file.seek(0)  # the place of the descriptor, too
            text += file.read().decode(errors="replace")
            file.seek(0)
            file.truncate()
        return text

    def __exit__(self, *error: object) -> None:
        sys.stdout, sys.stderr = self._streams
        for stream, kept, descriptor in zip(self._streams, self._kept, (1, 2), strict=True):
            stream.flush()
            os.dup2(kept, descriptor)
            os.close(kept)


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__(0)
        self.lines: list[str] = []

    def emit(self, record: Any) -> None:
        """Keep one."""
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def told(
    make: Any, kind: str, opened: Any = (), *, once: bool = False, written: Callable[[], str] = str
) -> dict[str, Any]:
    """Return the plans and releases of a part, and everything else that runs leave behind.

    With ``once``, it is given one table only and not its neighbor. ``written`` returns what was written to
    the descriptors of standard output and error.
    """
    results: dict[str, Any] = {}
    wrote: dict[str, str] = {}
    logged: dict[str, list[str]] = {}
    kept: dict[str, dict[str, str]] = {}
    handler = Lines()
    root = logging.getLogger()
    level, before = root.level, dict(os.environ)
    changed: set[str] = set()
    root.addHandler(handler)
    root.setLevel(1)
    first = len(opened)
    try:
        for name, run in runs(make, kind):
            if once and name.endswith(("a neighbor", "a table again")):
                continue
            handler.lines = []
            modules = len(sys.modules)
            results[name] = run()
            logged[name] = list(handler.lines)
            wrote[name] = written()
            kept[name] = variables(make)
            # A library may set variables when it is imported; what the part sets, it sets in other runs, too.
            if len(sys.modules) == modules:
                changed |= {key for key in {*before, *os.environ} if before.get(key) != os.environ.get(key)}
            os.environ.clear()
            os.environ.update(before)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    left = {"opened": list(opened)[first:], "environment": sorted(changed)}
    return {"results": results, "logged": logged, "wrote": wrote, "kept": kept, **left}


def variables(make: Any) -> dict[str, str]:
    """Return the plain values in variables of the part's module and class."""
    cls = make.func if isinstance(make, partial) else make
    module = sys.modules.get(getattr(cls, "__module__", ""))
    plain = (str, bytes, int, float, list, tuple, dict, set)
    return {
        name: repr(value)
        for place in (module, cls)
        for name, value in vars(place).items()
        if isinstance(value, plain) and not name.startswith("__")
    }


def runs(make: Any, kind: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield names and functions, each of which returns a result of the part."""
    import numpy as np

    from dpkit_core import Neighboring, Schema
    from dpkit_core.data.schema import Column

    bounds = {"a": (-1.0, 1.0), "b": (0.0, 4.0), "c": (-2.0, 0.0), "y": (0.0, 3.0)}
    for neighboring in Neighboring:
        column = Column("g", "categorical", categories=("u", "v"))
        numbers = [Column(n, lower=low, upper=high) for n, (low, high) in bounds.items()]
        for shape, schema in (
            ("bounded", Schema.numeric("abc", "y", bounds, neighboring)),
            ("unbounded", Schema.numeric("abc", "y", neighboring=neighboring)),
            ("categories", Schema((column, numbers[0]), numbers[-1], neighboring)),
        ):
            prefix = f"{neighboring.value}, {shape}"
            d = len(schema.features)
            rng = np.random.default_rng(7)
            X, y = rng.uniform(-1, 2, (60, d)).round(1), rng.uniform(0, 3, 60).round(1)
            if shape == "categories":
                X[:, :2] = np.eye(2)[rng.integers(2, size=60)]
            X[-1, shape == "categories" and 2 :], y[-1] = 2.0, 3.0  # what only one of the two tables has
            replaced = (np.vstack((X[:-1], X[:1])), np.append(y[:-1], y[0]))
            less = (X[:-1], y[:-1]) if neighboring is Neighboring.ADD_OR_REMOVE_ONE else replaced
            if kind == "scorer":
                yield f"{prefix}: sensitivity", partial(sensitivities, make, schema)
            if kind == "accountant":
                yield f"{prefix}: totals", partial(totals, make, neighboring)
            plans: dict[str, Any] = {}
            for table, data in (("a table", (X, y)), ("a neighbor", less), ("a table again", (X, y))):
                yield (
                    f"{prefix}: {table}",
                    partial(release, make, kind, schema, data, plans),
                )


def sensitivities(make: Any, schema: Any) -> list[str]:
    """Return the sensitivities of the first rounds, in words."""
    from dpkit_core.errors import DpkitError

    try:
        return [repr(make().sensitivity(schema, r)) for r in range(3)]
    except DpkitError as error:
        return [type(error).__name__]


def totals(make: Any, neighboring: Any) -> list[Any]:
    """Return some totals of an accountant."""
    from dpkit_core.privacy.events import ApproxDP, Gaussian, Laplace, PureDP

    found: list[Any] = []
    for event in (
        Laplace(2.0, neighboring),
        PureDP(0.5, neighboring),
        Gaussian(2.0, neighboring),
        ApproxDP(0.3, 1e-5, neighboring),
    ):
        total = make(neighboring=neighboring)
        if total.supports(event):
            total = total.compose(event, 3)
            found.append([repr(total.epsilon(delta)) for delta in (1e-6, 1e-3)] + [repr(total.delta(1.0))])
    return found


def release(make: Any, kind: Any, schema: Any, data: Any, plans: Any) -> str | None:
    """Return the events and the outcome of one composition, by a seed."""
    from dpkit_core import Budget, Randomness, compose
    from dpkit_core.errors import CannotCompose
    from dpkit_core.pipeline.observers import Observers

    if "plan" not in plans:
        scorer, selector, regressor, accountants = partners(schema.neighboring)
        parts = {"scorer": scorer, "selector": selector, "regressor": regressor}
        if kind == "accountant":
            accountants = [make(neighboring=schema.neighboring)]
        else:
            parts[kind] = make()
        plans["plan"] = None
        for budget, accountant in (
            (b, a) for b in (Budget(2.0, 1e-6), Budget(12.0, 0.1)) for a in accountants
        ):
            try:
                pipeline = compose(**parts, accountant=accountant, registry=installed())
                plans["plan"] = pipeline.plan(schema, budget, k=2)
            except CannotCompose:
                continue
            break
    plan = plans["plan"]
    if plan is None or any(stage.plan.foreign for stage in plan.stages):
        return None
    from dpkit_core import Dataset

    X, y = data
    found = plan.run(
        Dataset.from_arrays(X, y, schema), randomness=Randomness.from_seed(3), observers=Observers(())
    ).to_document()
    said = [found["selected"], found["model"], found["refusal"], [repr(event) for event in plan.events]]
    return json.dumps(said, sort_keys=True)


def partners(neighboring: Any) -> tuple[Any, Any, Any, list[Any]]:
    """Return small parts to compose with, defined here so that they belong to no installed package."""
    import attrs
    import numpy as np

    from dpkit_core import LinearModel, Sensitivity, StagePlan
    from dpkit_core.mechanisms.picks import PickSettings, fixed_scores, select_picks
    from dpkit_core.privacy.events import ExponentialMechanism, Laplace, Repeated

    facts = {"api": 3, "proof": "as small as can be", "reference": "none", "__doc__": "A partner."}
    times = 1.0 if neighboring.value == "add-remove" else 2.0

    scorer = attrs.frozen(
        type(
            "Products",
            (),
            {
                **facts,
                "adaptive": False,
                "sensitivity": lambda self, schema, round_index, /: Sensitivity.general(
                    times, schema.neighboring
                ),
                "prepare": lambda self, data, plan, meter, /: fixed_scores(
                    np.clip(data.X, -1, 1).T @ np.clip(data.y, -1, 1)
                ),
            },
        )
    )

    # Both share their epsilon evenly, by basic composition: the planner asks for plans many times, and to
    # search for the best noise each time would take longer than all the runs.
    def picks(self: Any, request: Any, /) -> Any:
        settings = PickSettings(ExponentialMechanism, request.budget.epsilon / sum(request.picks))
        rounds = zip(request.rounds, request.picks, strict=True)
        return StagePlan(
            [Repeated(settings.event(round_), count) for round_, count in rounds],
            settings=settings,
        )

    selector = attrs.frozen(
        type(
            "Picks",
            (),
            {
                **facts,
                "plan": picks,
                "select": lambda self, scores, plan, meter, /: select_picks(scores, plan, meter),
            },
        )
    )

    def plan(self: Any, request: Any, /) -> Any:
        event = Laplace(1 / request.budget.epsilon, request.neighboring, sensitivity=times, shape=())
        return StagePlan([event], settings=event)

    def fit(self: Any, data: Any, plan: Any, meter: Any, /) -> Any:
        event = plan.settings
        total = meter.laplace(
            np.clip(data.y, -1, 1).sum(), sensitivity=times, noise_multiplier=event.noise_multiplier
        )
        return LinearModel(data.names, (0.0,) * len(data.names), float(total))

    regressor = attrs.frozen(type("Total", (), {**facts, "plan": plan, "fit": fit}))
    accountants = [found(neighboring=neighboring) for found in installed_accountants()]
    return scorer(), selector(), regressor(), accountants


@functools.cache
def installed() -> Any:
    """Return what is installed, read once for all compositions."""
    from dpkit_core.plugins.registry import Registry

    return Registry()


@functools.cache
def installed_accountants() -> list[Any]:
    """Return the classes of the accountants to plan with, the first that can serve first."""
    from dpkit_core.errors import DpkitError

    registry = installed()
    found: list[Any] = []
    for name in ("basic", "rdp"):
        try:
            found.append(registry.load(registry.find("accountants", name)))
        except DpkitError:
            continue
    return found


if __name__ == "__main__":
    main()
