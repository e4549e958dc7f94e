"""Frank-Wolfe with and without screening, on the worlds and the tables of the paper that proposed it.

python docs/results/screening.py [TABLES]

writes ``tables/screening-*.csv``: on synthetic data what became of the true coefficients, and with a folder
of the paper's tables (abalone, bodyfat, communities, housing and pyrim as Parquet files) errors and what was
selected. Three kinds of rows: the paper's algorithm with the noise it prints and dpkit's ``calibration =
"published"``, neither of which is private, and what is proved. All see the same data; noise is seeded, bounds
are those of the data and transforms are fitted to them: research, not releases.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pages import keep, within
from sklearn.linear_model import LinearRegression, lars_path
from sklearn.preprocessing import PowerTransformer

from dpkit_core import Budget, Column, Dataset, Pipeline, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]

TRIALS, EPSILON = 5, 5.0
RECORDS, FEATURES, PLUS, MINUS = 3000, 600, 35, 35
BOUND = 8.0  # of the synthetic target, which is known to have deviation 1.7 or so
RADIUS = 50.0  # the paper's, in its units
TARGETS = {"abalone": "Rings", "bodyfat": "BodyFat", "communities": "ViolentCrimesPerPop", "housing": "MEDV"}
# Table 3 of the paper, mean squared errors at the same budget: RNM-Screen, and Oracle-K (not private).
PAPER = {
    "abalone": (0.894, 0.560),
    "housing": (0.835, 0.516),
    "bodyfat": (0.689, 0.368),
    "pyrim": (0.451, 0.451),
    "communities": (0.395, 0.382),
}
# Table 5, the same without Yeo-Johnson, for features and target in [-1, 1].
PAPER_RAW = {
    "abalone": (0.010, 0.014),
    "housing": (0.159, 0.051),
    "bodyfat": (0.555, 0.124),
    "pyrim": (0.301, 0.182),
    "communities": (0.034, 0.033),
}


@attrs.frozen(eq=False)
class World:
    """Features in [-1, 1], a target, its public bound, and the coefficients to be found.

    ``radius`` is the paper's constraint, in units of features and target as they are.
    """

    X: Array
    y: Array
    bound: float
    truth: Array
    radius: float

    @property
    def schema(self) -> Schema:
        """The public facts."""
        names = [f"x{j}" for j in range(self.X.shape[1])]
        bounds = {**dict.fromkeys(names, (-1.0, 1.0)), "y": (-self.bound, self.bound)}
        return Schema.numeric(names, "y", bounds)

    @property
    def budget(self) -> Budget:
        """The paper's: epsilon 5, delta 1 / n."""
        return Budget(EPSILON, 1 / len(self.y))


Fit = Callable[[World, int], tuple[Array, Array]]
"""Returns coefficients and predictions."""


def synthetic(correlation: float, seed: int) -> World:
    """Return the paper's world: normal features, 35 coefficients of 1 and 35 of -1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(RECORDS, FEATURES))
    for j in range(1, FEATURES):
        X[:, j] = correlation * X[:, j - 1] + math.sqrt(1 - correlation**2) * X[:, j]
    X /= np.abs(X).max()
    truth = np.zeros(FEATURES)
    chosen = rng.permutation(FEATURES)[: PLUS + MINUS]
    truth[chosen[:PLUS]], truth[chosen[PLUS:]] = 1.0, -1.0
    return World(X, X @ truth, BOUND, truth, RADIUS)


def pipeline(
    regressor: Mapping[str, Any] | None = None,
    scorer: Mapping[str, Any] | None = None,
    selector: str = "peel",
    *,
    share: float = 0.05,
) -> Fit:
    """Return the fit of ``frank_wolfe``, with screening where options of the scorer are given.

    A radius is in the paper's units, those of features and target as they are.
    """

    def fit(world: World, seed: int) -> tuple[Array, Array]:
        options = {"regressor": dict(regressor or {})}
        if options["regressor"].pop("paper_radius", False):
            options["regressor"]["radius"] = world.radius / world.bound
        parts: dict[str, Any] = {"regressor": "frank_wolfe"}
        if scorer is not None:
            parts |= {"scorer": "screening", "selector": selector}
            options["scorer"] = dict(scorer)
        return fitted(compose(**parts, options=options), world, seed, share=share)

    return fit


def fitted(
    parts: Pipeline, world: World, seed: int, *, k: int | None = None, share: float = 0.05
) -> tuple[Array, Array]:
    """Return coefficients of all features and predictions for the records of the fit."""
    plan = parts.plan(world.schema, world.budget, k=k, select_share=share)
    data = Dataset.from_arrays(world.X, world.y, world.schema)
    release = plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())
    assert release.model is not None
    names = list(data.names)
    places = [names.index(name) for name in release.model.features]
    coefficients = np.zeros(len(names))
    coefficients[places] = getattr(release.model, "slopes", getattr(release.model, "coefficients", None))
    return coefficients, release.predict(world.X[:, places])


def unwatched(step: int, w: Array) -> None:
    """Look at no iterate."""


def printed(
    world: World,
    seed: int,
    *,
    rounds: int = 1000,
    every: int = 1,
    screens: str = "one",
    watch: Callable[[int, Array], None] = unwatched,
) -> Any:
    """Return what the paper's algorithms give with the noise that they print: one a step, or all below 0."""
    rng = np.random.default_rng([seed, 7])
    X, y, L = world.X, world.y, world.radius
    n, d = X.shape
    delta = 1 / n
    first, second = (4.9, 0.1) if screens == "one" else (2.5, 2.5)
    step_noise = 2 * L * math.sqrt(8 * rounds * math.log(1 / (0.75 * delta))) / (n * first)
    times = rounds // every
    if screens == "one":
        scale = 2 * L / n + 2 * L**2 / n + 2 * L * (1 + L) / n
        noise = partial(rng.laplace, 0.0, scale * math.sqrt(8 * times * math.log(4 / delta)) / second, d)
    else:
        each = second / (2 * math.sqrt(2 * times * math.log((times + 1) / (0.5 * delta))))
        sensitivity = math.sqrt(d) * (2 * L / n + 2 * L**2 / n + 2 * L * (1 + L) / n)
        deviation = sensitivity * math.sqrt(2 * math.log(1.25 * (times + 1) / (0.5 * delta))) / each
        noise = partial(rng.normal, 0.0, deviation, d)
    gram, products, norms = X.T @ X / n, X.T @ y / n, np.sqrt(np.square(X).sum(axis=0) / n)
    w = rng.dirichlet(np.ones(d)) * rng.choice((-1.0, 1.0), d) * L
    for t in range(1, rounds + 1):
        slopes = L * (gram @ w - products)
        vertex = int((np.concatenate((-slopes, slopes)) + rng.laplace(0, step_noise, 2 * d)).argmax())
        w = (1 - 2 / (t + 2)) * w
        w[vertex % d] += 2 / (t + 2) * L * (1 if vertex < d else -1)
        if t % every:
            watch(t, w)
            continue
        c, square = gram @ w - products, max(float(w @ gram @ w), 0.0)
        inner = float(w @ c)
        gap = max(inner + L * float(np.abs(c).max()), 0.0)
        rule = np.abs(c) + inner + (norms + math.sqrt(square)) * math.sqrt(gap) + noise()
        if screens == "one":
            worst = int(rule.argmin())
            w[worst] *= rule[worst] >= 0
        else:
            w[rule < 0] = 0.0
        watch(t, w)
    return w, X @ w


SYNTHETIC: dict[str, Fit] = {
    "paper: RNM-Screen as printed, T = 1000": printed,
    "paper: the same, every 50th step": partial(printed, every=50),
    "paper: the same, last step": partial(printed, every=1000),
    "paper: ADP-Screen as printed, every 50th step": partial(printed, every=50, screens="all"),
    "published calibration, rnm-screen, T = 100": pipeline(
        {"form": "gram", "calibration": "published", "paper_radius": True, "every": 1},
        {"calibration": "published"},
    ),
    "**proved**: `frank_wolfe`": pipeline(),
    "**proved**: T = 60": pipeline({"rounds": 60}),
    "**proved**: T = 300": pipeline({"rounds": 300}),
    "**proved**: clip 0.1": pipeline({"residual_clip": 0.1}),
    "**proved**: radius 50, clip 3, in the paper's units": pipeline(
        {"paper_radius": True, "residual_clip": 3 / BOUND}
    ),
    "**proved**: gradient (gram), T = 100": pipeline({"form": "gram"}),
    "**proved**: `rnm-screen`, every 10th step": pipeline({}, {}),
    "**proved**: `rnm-screen`, every step": pipeline({"every": 1}, {}),
    "**proved**: `rnm-screen`, every 50th step": pipeline({"every": 50}, {}),
    "**proved**: `rnm-screen`, last step": pipeline({"every": 100}, {}),
    "**proved**: `rnm-screen`, smallest gradient": pipeline({}, {"rule": "smallest"}),
    "**proved**: `rnm-screen`, relaxed rule (gram)": pipeline({"form": "gram"}, {"rule": "relaxed"}),
    "**proved**: `adp-screen` by components (gram), every 50th step": pipeline(
        {"form": "gram", "every": 50}, {"rule": "components"}, "gaussian_threshold", share=0.5
    ),
    "**proved**: `adp-screen`, every 50th step": pipeline({"every": 50}, {}, "gaussian_threshold", share=0.5),
}


def rates(found: Array, truth: Array) -> tuple[float, float, float]:
    """Return true and false positive rate and F1 of the features with coefficients."""
    a, b = found != 0, truth != 0
    hits = float((a & b).sum())
    return (
        hits / max(b.sum(), 1),
        float((a & ~b).sum() / max((~b).sum(), 1)),
        2 * hits / max(a.sum() + b.sum(), 1),
    )


def show_synthetic() -> None:
    """Keep a table for each of the two worlds."""
    heads = ["", "TPR", "FPR", "F1", "share of coefficients", "error / variance"]

    def rows(correlation: float) -> Iterator[list[str]]:
        for method, fit in SYNTHETIC.items():
            found = []
            for trial in range(TRIALS):
                world = synthetic(correlation, trial)
                coefficients, prediction = fit(world, trial)
                error = float(np.square(world.y - prediction).mean() / world.y.var())
                found.append((*rates(coefficients, world.truth), float((coefficients != 0).mean()), error))
            yield [method, *(f"{x:.3f}" for x in np.mean(found, axis=0))]

    for correlation, name in ((0.0, "uncorrelated"), (0.5, "correlated")):
        keep(f"screening-{name}", heads, rows(correlation))


def table(path: Path, *, transformed: bool) -> World:
    """Return one of the paper's tables; its truth is a Lasso solution with a third of the features."""
    frame = pq.read_table(path).to_pandas()
    target = TARGETS.get(path.stem, frame.columns[-1])
    if path.stem == "communities":
        frame = frame.drop(columns=["state", "county", "community", "communityname", "fold"], errors="ignore")
    columns = {}
    for name in frame.columns:
        column = frame[name]
        codes = column if column.dtype.kind in "fiu" else column.astype("category").cat.codes
        columns[name] = codes.fillna(codes.median()).to_numpy(dtype=float)
    y = columns.pop(target)
    X = np.column_stack([column for column in columns.values() if np.ptp(column) > 0])
    if transformed:
        X = PowerTransformer().fit_transform(X)
        y = PowerTransformer().fit_transform(y[:, np.newaxis])[:, 0]
    else:
        y = y / np.abs(y).max()
    X = X / np.abs(X).max(axis=0)
    bound = float(np.abs(y).max())
    truth = lasso(X, y, -(-X.shape[1] // 3))
    return World(X, y, bound, truth, float(np.abs(truth).sum()))


def lasso(X: Array, y: Array, features: int) -> Array:
    """Return the Lasso solution with about so many features."""
    _, _, path = lars_path(X - X.mean(axis=0), y - y.mean(), method="lasso")
    counts = (path != 0).sum(axis=0)
    solution: Array = path[:, int(np.abs(counts - features).argmin())]
    return solution


def kept(count: int, fit: Fit, world: World, seed: int) -> tuple[Array, Array]:
    """Return a fit of which only the largest coefficients are kept, as many as the Lasso has."""
    w, prediction = fit(world, seed)
    small = np.argsort(-np.abs(w))[count:]
    dropped = world.X[:, small] @ w[small]
    w[small] = 0.0
    return w, prediction - dropped


def oracle(world: World, seed: int) -> tuple[Array, Array]:
    """Return Oracle-K of ``frank_wolfe``: K is not private."""
    return kept(int((world.truth != 0).sum()), pipeline(), world, seed)


def preselect(regressor: str, world: World, seed: int) -> tuple[Array, Array]:
    """Return the fit to as many features as the Lasso has, selected by their correlations.

    The recipe selects by ``kendall``, which needs no bounds and more noise.
    """
    parts = compose(scorer="correlation", selector="peel", regressor=regressor)
    return fitted(parts, world, seed, k=int((world.truth != 0).sum()), share=0.2)


def everything(world: World, seed: int) -> tuple[Array, Array]:
    """Return winsorized least squares on all features."""
    return fitted(compose(regressor="winsorized_least_squares"), world, seed)


REAL: dict[str, Fit] = {
    "no privacy: NP-FW": pipeline(
        {"form": "gram", "calibration": "none", "paper_radius": True, "rounds": 1000}
    ),
    "no privacy: RNM-Screen as printed": partial(printed, rounds=100),
    "no privacy: published calibration": pipeline(
        {"form": "gram", "calibration": "published", "paper_radius": True, "every": 1},
        {"calibration": "published"},
    ),
    "K not private: Oracle-K of `frank_wolfe`": oracle,
    "**proved**: `frank_wolfe`": pipeline(),
    "**proved**: T = 30": pipeline({"rounds": 30}),
    "**proved**: T = 10": pipeline({"rounds": 10}),
    "**proved**: `rnm-screen`": pipeline({}, {}),
    "**proved**: `adp-screen`": pipeline({"every": 50}, {}, "gaussian_threshold", share=0.5),
    "**proved**: correlation + peel + `frank_wolfe`": partial(preselect, "frank_wolfe"),
    "**proved**: correlation + peel + `winsorized_least_squares`": partial(
        preselect, "winsorized_least_squares"
    ),
    "**proved**: `winsorized_least_squares`": everything,
}


def explained(world: World, coefficients: Array) -> float:
    """Return R^2 of the features of the Lasso that were not chosen, from those that were; NaN without any."""
    chosen, missed = coefficients != 0, (world.truth != 0) & (coefficients == 0)
    if not chosen.any() or not missed.any():
        return math.nan
    model = LinearRegression().fit(world.X[:, chosen], world.X[:, missed])
    return float(model.score(world.X[:, chosen], world.X[:, missed]))


def show_real(folder: Path) -> None:
    """Keep errors, and what was selected, on each of the tables."""
    paths = sorted(folder.glob("*.parquet"))
    for transformed, paper in ((True, PAPER), (False, PAPER_RAW)):
        worlds = {path.stem: table(path, transformed=transformed) for path in paths}
        results = {
            method: {name: repeated(fit, world) for name, world in worlds.items()}
            for method, fit in REAL.items()
        }
        published = [
            [row, *(f"{paper[name][place]:.3f}" for name in worlds)]
            for place, row in enumerate(("paper: RNM-Screen", "paper: Oracle-K"))
        ]
        errors = [
            [method, *(f"{found[name][0]:.3f}" for name in worlds)] for method, found in results.items()
        ]
        selected = [
            [method, *("—" if math.isnan(x) else f"{x:.2f}" for name in worlds for x in found[name][1:])]
            for method, found in results.items()
        ]
        ending = "-yeo-johnson" if transformed else ""
        told = ("F1", "share of coefficients", "R2 of chosen on unchosen")
        keep(f"screening-error{ending}", ["", *worlds], [*published, *errors])
        keep(f"screening-f1{ending}", ["", *(f"{name} {what}" for name in worlds for what in told)], selected)


def show_public(folder: Path) -> None:
    """Keep errors on pyrim where bounds and transforms are public, in the paper's units of the target.

    The table was published scaled to [0.1, 0.9]. The power of the features is one number for all of them, and
    not fitted; errors are measured after the transform that the paper fits to the target, by nobody's leave.
    """
    frame = pq.read_table(folder / "pyrim.parquet").to_pandas()
    y = frame.pop(frame.columns[-1]).to_numpy(dtype=float)
    X = frame.loc[:, np.ptp(frame.to_numpy(dtype=float), axis=0) > 0].to_numpy(dtype=float)
    units = PowerTransformer().fit(y[:, np.newaxis])

    def error(prediction: Array) -> float:
        one, other = (units.transform(values[:, np.newaxis]) for values in (y, prediction))
        return float(np.square(one - other).mean())

    def mean(power: float | None, **options: Any) -> float:
        facts: dict[str, Any] = {"lower": 0.1, "upper": 0.9, "clip": True}
        columns = [Column(f"x{j}", **facts, yeo_johnson=power) for j in range(X.shape[1])]
        schema = Schema(columns, Column("y", **facts))
        plan = compose(regressor="frank_wolfe", options={"regressor": options}).plan(
            schema, Budget(EPSILON, 1 / len(y))
        )
        data, quiet = Dataset.from_arrays(X, y, schema), Observers.none()
        releases = (plan.run(data, randomness=Randomness.from_seed(s), observers=quiet) for s in range(20))
        return float(np.mean([error(release.predict(X)) for release in releases]))

    powers = {"no power": None, "power 0": 0.0, "power -2": -2.0, "power -5": -5.0}
    rows = (
        [f"**proved**: {name}", *(f"{mean(power, **options):.3f}" for power in powers.values())]
        for name, options in PUBLIC.items()
    )
    keep("screening-pyrim", ["", *powers], rows)


PUBLIC: dict[str, dict[str, Any]] = {
    "`frank_wolfe`": {},
    "T = 50": {"rounds": 50},
    "clip 0.1": {"residual_clip": 0.1},
    "T = 50, clip 0.1": {"rounds": 50, "residual_clip": 0.1},
}

STEPS_SHOWN = (1, 10, 30, 100, 300, 1000)


def gaps(world: World, seed: int, rounds: int, choose: Callable[[Array, Any], int]) -> dict[int, float]:
    """Return G / n by step, where all that the corrected rule allows is dropped after each, without noise."""
    rng = np.random.default_rng([seed, 11])
    X, y, L = world.X, world.y, world.radius
    gram, products, lengths = X.T @ X, X.T @ y, np.sqrt(np.square(X).sum(axis=0))
    w, found = np.zeros(X.shape[1]), {}
    for t in range(1, rounds + 1):
        vertex = choose(w, rng)
        w *= 1 - 2 / (t + 2)
        w[vertex % w.size] += 2 / (t + 2) * L * (1 if vertex < w.size else -1)
        c, length = gram @ w - products, math.sqrt(max(float(w @ gram @ w), 0.0))
        gap = max(float(w @ c) + L * float(np.abs(c).max()), 0.0)
        w[L * np.abs(c) + float(w @ c) + (L * lengths + length) * math.sqrt(gap) < 0] = 0.0
        if t in STEPS_SHOWN:
            found[t] = gap / len(y)
    return found


def show_gaps() -> None:
    """Keep the gap by step: without noise, with noise as printed, and with that of ``frank_wolfe``."""
    cells = []
    for correlation, kind in ((0.0, "uncorrelated"), (0.5, "correlated")):
        rows: dict[str, list[dict[int, float]]] = {}
        for seed in range(TRIALS):
            world = synthetic(correlation, seed)
            X, y, L, n = world.X, world.y, world.radius, len(world.y)
            gram, products = X.T @ X, X.T @ y
            printed_noise = 2 * L * math.sqrt(8 * 1000 * math.log(n / 0.75)) / 4.9

            def slopes(w: Array, at: tuple[Array, Array] = (gram, products)) -> Array:
                c = at[0] @ w - at[1]
                return np.concatenate((-c, c))

            def laplace(w: Array, rng: Any, scale: float = printed_noise / L, at: Any = slopes) -> int:
                return int((at(w) + rng.laplace(0, scale, 2 * w.size)).argmax())

            def exact(w: Array, rng: Any, at: Any = slopes) -> int:
                return int(at(w).argmax())

            # The part's own events: a step has bounded range epsilon over scores that move apart by 2 clips.
            options = {"regressor": {"rounds": 100, "steps": "published"}}
            plan = compose(regressor="frank_wolfe", options=options).plan(world.schema, world.budget)
            (stage,) = plan.stages
            clip = 0.25 * BOUND
            scale = 2 * clip / stage.plan.settings.vertex.epsilon

            def private(
                w: Array, rng: Any, at: World = world, clip: float = clip, scale: float = scale
            ) -> int:
                c = at.X.T @ np.clip(at.X @ w - at.y, -clip, clip)
                return int((np.concatenate((-c, c)) + rng.gumbel(0, scale, 2 * w.size)).argmax())

            for name, rounds, choose in (
                ("no noise", 1000, exact),
                ("noise as the paper prints it, T = 1000", 1000, laplace),
                ("noise of `frank_wolfe`, proved, T = 100", 100, private),
            ):
                rows.setdefault(f"{kind}, {name}", []).append(gaps(world, seed, rounds, choose))
        for name, found in rows.items():
            means = (f"{np.mean([f[t] for f in found]):.3g}" if t in found[0] else "" for t in STEPS_SHOWN)
            cells.append([name, *means])
    keep("screening-gap", ["step", *STEPS_SHOWN], cells)


def simulated(world: World, seed: int, rounds: int, watch: Callable[[int, Array], None]) -> None:
    """Follow the iterates of ``frank_wolfe`` in float64, with the noise of its plan, in units of the data."""
    rng = np.random.default_rng([seed, 13])
    plan = compose(regressor="frank_wolfe", options={"regressor": {"rounds": rounds}}).plan(
        world.schema, world.budget
    )
    (stage,) = plan.stages
    clip, radius = 0.25 * world.bound, 4.0 * world.bound
    X = np.column_stack((world.X, np.ones(len(world.y))))
    w, d = np.zeros(X.shape[1]), X.shape[1]
    for t in range(1, rounds + 1):
        c = X.T @ np.clip(X @ w - world.y, -clip, clip)
        noise = rng.gumbel(0, 2 * clip / stage.plan.settings.vertex.epsilon, 2 * d)
        vertex = int((np.concatenate((-c, c)) + noise).argmax())
        w = w * t / (t + 1)
        w[vertex % d] += radius / (t + 1) * (1 if vertex < d else -1)
        watch(t, w)


def show_steps(folder: Path | None) -> None:
    """Keep what iterates have found, or their errors, by step: the paper's Figures 1 to 3."""
    followed: dict[str, Callable[[World, int, Callable[[int, Array], None]], Any]] = {
        "paper: RNM-Screen as printed": lambda world, seed, watch: printed(world, seed, watch=watch),
        "paper: the same, every 50th step": lambda world, seed, watch: printed(
            world, seed, every=50, watch=watch
        ),
        "paper: ADP-Screen as printed, every 50th step": lambda world, seed, watch: printed(
            world, seed, every=50, screens="all", watch=watch
        ),
        "**proved**: `frank_wolfe`, T = 100": lambda world, seed, watch: simulated(world, seed, 100, watch),
    }
    found: dict[int, list[Any]] = {}
    heads = ["step", *(f"{step} {rate}" for step in STEPS_SHOWN for rate in ("TPR", "FPR"))]
    for correlation, kind in ((0.0, "uncorrelated"), (0.5, "correlated")):
        rows: list[list[str]] = []
        for name, follow in followed.items():
            found = {}
            for seed in range(TRIALS):
                world = synthetic(correlation, seed)

                def watch(
                    t: int, w: Array, world: World = world, found: dict[int, list[Any]] = found
                ) -> None:
                    if t in STEPS_SHOWN:
                        found.setdefault(t, []).append(rates(w[: world.X.shape[1]], world.truth)[:2])

                follow(world, seed, watch)
            means = [np.mean(found[t], axis=0) if t in found else None for t in STEPS_SHOWN]
            shown = [["", ""] if mean is None else [f"{rate:.2f}" for rate in mean] for mean in means]
            rows.append([name, *itertools.chain.from_iterable(shown)])
        keep(f"screening-steps-{kind}", heads, rows)
    if folder is None:
        return
    errors: list[list[str]] = []
    for path in sorted(folder.glob("*.parquet")):
        world = table(path, transformed=True)
        for name in ("paper: RNM-Screen as printed", "**proved**: `frank_wolfe`, T = 100"):
            found = {}

            def watch_error(
                t: int, w: Array, world: World = world, found: dict[int, list[Any]] = found
            ) -> None:
                if t in STEPS_SHOWN:
                    d = world.X.shape[1]
                    residuals = world.y - world.X @ w[:d] - w[d:].sum()
                    found.setdefault(t, []).append(float(np.square(residuals).mean()))

            for seed in range(TRIALS):
                followed[name](world, seed, watch_error)
            cells = (f"{np.mean(found[t]):.3f}" if t in found else "" for t in STEPS_SHOWN)
            errors.append([f"{path.stem}, {name}", *cells])
    keep("screening-error-by-step", ["step", *STEPS_SHOWN], errors)


def repeated(fit: Fit, world: World) -> Array:
    """Return mean squared error, F1, share of coefficients and R^2 of chosen on unchosen, over the trials."""
    rows = []
    for trial in range(TRIALS):
        w, prediction = fit(world, trial)
        error = float(np.square(world.y - prediction).mean())
        rows.append((error, rates(w, world.truth)[2], float((w != 0).mean()), explained(world, w)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mean of nothing, where everything was chosen
        found: Array = np.nanmean(rows, axis=0)
    return found


def main() -> None:
    """Keep all tables."""
    folder = within(Path(sys.argv[1]), "bodyfat.parquet") if len(sys.argv) > 1 else None
    if folder is not None:
        show_real(folder)
        show_public(folder)
    show_synthetic()
    show_gaps()
    show_steps(folder)


if __name__ == "__main__":
    main()
