"""What is timed: each row is work of dpkit's beside the same work by what a user would pick instead.

Both sides are functions of the sizes that prepare everything and return what is timed. What a user types is a
process of its own, and says itself what it cost; all else runs where it was prepared.
"""

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import numpy as np

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Schema, Scores, SelectionRequest, Sensitivity
from dpkit_core import compose as composed
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.recipes import find_recipe
from dpkit_core.plugins.registry import Registry

Work = Callable[[], object]
DPKIT = Path(sys.executable).with_name("dpkit")
BUDGET = Budget(1.0, 1e-6)
AR = Neighboring.ADD_OR_REMOVE_ONE


@attrs.frozen
class Cost:
    """Processor time in seconds, and the most memory in MB."""

    seconds: float
    memory: float


@attrs.frozen
class Row:
    """One line of the table.

    Attributes
    ----------
    work, peer
        What dpkit does, and what it is compared with.
    ours, theirs
        Prepare either side for the sizes and return what is timed.
    goal
        How many times as fast dpkit should be.
    bound
        What keeps it from being faster.
    size, quick
        Sizes of the table, and small ones that show no more than a change.
    parts
        The peer does one in so many equal parts of its work, which is multiplied; or the size that says so.
    needs
        A library that the peer needs and the development environment lacks.
    """

    work: str
    peer: str
    ours: Callable[..., Work]
    theirs: Callable[..., Work]
    goal: float
    bound: str
    size: Mapping[str, int]
    quick: Mapping[str, int]
    parts: int | str = 1
    needs: str | None = None

    def parts_in(self, size: Mapping[str, int]) -> int:
        return size[self.parts] if isinstance(self.parts, str) else self.parts

    @property
    def installed(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


def folder() -> Path:
    """Return a folder that lasts as long as the process."""
    made = tempfile.TemporaryDirectory(prefix="dpkit-speed-")
    _FOLDERS.append(made)
    return Path(made.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


# The memory of a process includes that of whoever started it, since it is counted from before its program was
# loaded: so this small one starts it.
_STARTER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def typed(*words: object) -> Cost:
    """Run a command, and return what it cost."""
    starter = [sys.executable, "-S", "-c", _STARTER, *map(str, words)]
    said = subprocess.run(starter, check=True, capture_output=True, text=True).stdout.split()
    return Cost(float(said[0]), megabytes(int(said[1])))


def megabytes(peak: int) -> float:
    """Return what ``getrusage`` gives in bytes on macOS, else in KB."""
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def facts(d: int, *, bounded: bool = False) -> Schema:
    names = [f"x{j}" for j in range(d)]
    return Schema.numeric(
        names, "y", {**dict.fromkeys(names, (-4.0, 4.0)), "y": (-20.0, 20.0)} if bounded else {}
    )


def table(
    n: int, d: int, *, digits: int | None = None, bounded: bool = False, order: Literal["C", "F"] = "C"
) -> Dataset:
    """Return normal columns and a target that follows half of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X[:, : (d + 1) // 2].sum(axis=1) + rng.standard_normal(n)
    if digits is not None:
        X, y = X.round(digits), y.round(digits)
    return Dataset.from_arrays(np.asarray(X, order=order), y, facts(d, bounded=bounded))


def parquet(n: int, d: int) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = table(n, d)
    path = folder() / "table.parquet"
    columns = {**dict(zip(data.names, data.X.T, strict=True)), "y": data.y}
    pq.write_table(pa.table(columns), path, row_group_size=250_000)
    return path


def released(n: int, d: int, budget: Budget = BUDGET, *, bounded: bool = False, **parts: Any) -> Work:
    """Return a run on a table, beginning with the plan."""
    pipeline, data, schema = composed(**parts), table(n, d, bounded=bounded), facts(d, bounded=bounded)

    def run() -> Any:
        plan = pipeline.plan(schema, budget)
        return plan.run(data, randomness=Randomness.from_seed(0), observers=Observers.none())

    return run


# Kendall


def kendall(pairs: str, digits: int | None) -> Callable[..., Work]:
    from dpkit_scorer_kendall import KendallScorer

    from dpkit_core import StagePlan

    def prepare(n: int, d: int, k: int) -> Work:
        data = table(n, d, digits=digits)

        def rounds() -> object:
            scores = KendallScorer(pairs=pairs).prepare(data, StagePlan(()), None)
            return [scores(tuple(range(picked))) for picked in range(k)]

        return rounds

    return prepare


def scipy_round(digits: int | None) -> Callable[..., Work]:
    def prepare(n: int, d: int, k: int) -> Work:
        from scipy.stats import kendalltau

        data = table(n, d, digits=digits)
        return lambda: [kendalltau(x, data.y, method="asymptotic") for x in data.X.T]

    return prepare


def k_tukey(n: int, d: int, k: int) -> Work:
    path = parquet(n, d)
    words = ["--recipe", "k-tukey", "-k", k, "--target", "y", "--epsilon", 5, "--delta", 1e-6, "--anyway"]
    out = path.with_name("release.json")
    return lambda: typed(DPKIT, "compose", path, *words, "-o", out, "--force")


def published_k_tukey(n: int, d: int, k: int) -> Work:
    path = parquet(n, d)
    return lambda: typed(sys.executable, Path(__file__).with_name("published.py"), path, k)


# Trees


def trees(n: int, d: int) -> Work:
    return released(n, d, regressor="boosted_trees")


def histogram_trees(n: int, d: int, rounds: int = 100) -> Work:
    from sklearn.ensemble import HistGradientBoostingRegressor

    data = table(n, d)
    model = HistGradientBoostingRegressor(max_iter=rounds, early_stopping=False)
    return lambda: model.fit(data.X, data.y)


def deep_histogram_trees(n: int, d: int, rounds: int) -> Work:
    from sklearn.ensemble import HistGradientBoostingRegressor

    data = table(n, d)
    model = HistGradientBoostingRegressor(max_iter=rounds, max_depth=6, early_stopping=False)
    return lambda: model.fit(data.X, data.y)


def explainable_trees(n: int, d: int) -> Work:
    from interpret.privacy import DPExplainableBoostingRegressor

    data = table(n, d)
    model = DPExplainableBoostingRegressor(
        privacy_bounds=dict.fromkeys(range(d), (-4.0, 4.0)),
        privacy_target_min=-20.0,
        privacy_target_max=20.0,
        epsilon=BUDGET.epsilon,
        delta=BUDGET.delta,
        n_jobs=1,
    )
    return lambda: model.fit(data.X, data.y)


def predictions(n: int, d: int) -> Work:
    data, run = table(n, d), released(n, d, regressor="boosted_trees")
    model = run().model
    return lambda: model.predict(data.X)


def histogram_predictions(n: int, d: int) -> Work:
    data, fit = table(n, d), histogram_trees(n, d)
    model: Any = fit()
    return lambda: model.predict(data.X)


def sgbdt(n: int, d: int, rounds: int) -> Work:
    options = {"regressor": {"rounds": rounds, "depth": 6}}
    return released(n, d, bounded=True, regressor="sgbdt", options=options)


# Linear models


def winsorized_file(n: int, d: int) -> Work:
    path = parquet(n, d)
    words = ["--regressor", "winsorized_least_squares", "--target", "y", "--epsilon", 1, "--delta", 1e-6]
    out = path.with_name("release.json")
    return lambda: typed(DPKIT, "compose", path, *words, "-o", out, "--force")


def one_pass(n: int, d: int) -> Work:
    import pyarrow.parquet as pq

    path = parquet(n, d)

    def add() -> object:
        file = pq.ParquetFile(path)
        moments = np.zeros((d + 1, d + 1))
        for i in range(file.num_row_groups):
            A = np.column_stack([column.to_numpy() for column in file.read_row_group(i).columns])
            moments += A.T @ A
        return moments

    return add


def data_frame(n: int, d: int) -> Work:
    path = parquet(n, d)
    code = (
        f"import numpy as np, pandas as pd; t = pd.read_parquet({str(path)!r}); y = t.pop('y'); "
        "np.linalg.lstsq(np.column_stack([t.to_numpy(), np.ones(len(t))]), y.to_numpy(), rcond=None)"
    )
    return lambda: typed(sys.executable, "-c", code)


def winsorized(n: int, d: int) -> Work:
    return released(n, d, regressor="winsorized_least_squares")


def least_squares(n: int, d: int) -> Work:
    data = table(n, d)
    return lambda: np.linalg.lstsq(np.column_stack([data.X, np.ones(n)]), data.y, rcond=None)


def correlation(order: Literal["C", "F"]) -> Callable[..., Work]:
    from dpkit_scorer_correlation import CorrelationScorer

    from dpkit_core import StagePlan

    def prepare(n: int, d: int) -> Work:
        data = table(n, d, bounded=True, order=order)
        return lambda: CorrelationScorer().prepare(data, StagePlan(()), None)(())

    return prepare


def clipped_copy(order: Literal["C", "F"]) -> Callable[..., Work]:
    def prepare(n: int, d: int) -> Work:
        data = table(n, d, bounded=True, order=order)
        return lambda: np.clip(data.X, -1, 1).T @ data.y

    return prepare


def screened(n: int, d: int, steps: int) -> Work:
    recipe = find_recipe("rnm-screen").revised({}, {"regressor": {"rounds": steps, "form": "gram"}})
    options = dict(recipe.options)
    return released(n, d, Budget(5.0, 1e-5), bounded=True, **recipe.parts, options=options)


def naive_steps(n: int, d: int, steps: int) -> Work:
    data = table(n, d)

    def walk() -> object:
        w = np.zeros(d)
        for _ in range(steps // STEPS_IN_PARTS):
            gradient = data.X.T @ (data.X @ w - data.y)
            w[np.abs(gradient).argmax()] += 0.1
        return w

    return walk


STEPS_IN_PARTS = 20


def tukey(n: int, d: int) -> Work:
    return released(n, d, Budget(5.0, 1e-6), regressor="tukey")


def loop_of_fits(n: int, d: int) -> Work:
    from sklearn.linear_model import LinearRegression

    data = table(n, d)
    size = d + 3  # the coefficients, the intercept and two more, as the part has it
    starts = range(0, n // FITS_IN_PARTS - size, size)
    return lambda: [
        LinearRegression().fit(data.X[at : at + size], data.y[at : at + size]).coef_ for at in starts
    ]


FITS_IN_PARTS = 10


# Selections


def selection(name: str) -> Callable[..., Work]:
    def prepare(d: int, k: int) -> Work:
        from dpkit_check import ReferenceAccountant, StageMeter

        from dpkit_core.mechanisms.picks import rounds_of

        registry = Registry()
        selector = registry.load(registry.find("selector", name))()
        rounds = rounds_of(d, (k,), (Sensitivity.general(1.0, AR),))
        request = SelectionRequest(rounds, BUDGET, ReferenceAccountant(AR))
        plan = selector.plan(request)
        scores = Scores(scores_of(d), rounds[0], np.ones(d, dtype=bool))
        randomness = Randomness.from_os()
        return lambda: selector.select(scores, plan, StageMeter("selection", plan, AR, randomness))

    return prepare


def scores_of(d: int) -> Any:
    return 10 * np.random.default_rng(0).standard_normal(d)


def gumbel(d: int, k: int) -> Work:
    scores, rng = scores_of(d), np.random.default_rng(0)
    return lambda: np.argpartition(-(scores + rng.gumbel(size=d)), k)[:k]


def all_classes(d: int, k: int) -> Work:
    scores, rng = scores_of(d), np.random.default_rng(0)

    def choose() -> object:
        ordered, best = np.sort(scores)[::-1], []
        worst, log_sizes = np.arange(k, d), np.zeros(d - k)
        for missing in range(k - 2, k - 2 - max(1, k // CLASSES_IN_PARTS), -1):
            log_sizes += np.log((worst - missing - 1) / (k - missing - 1))
            noise = log_sizes - np.log(rng.standard_exponential(worst.size))
            best.append((0.25 * ordered[worst] - 0.25 * ordered[missing] + noise).argmax())
        return best

    return choose


CLASSES_IN_PARTS = 20


# Commands


def command(*words: str) -> Callable[[], Work]:
    return lambda: lambda: typed(DPKIT, *words)


def bare() -> Work:
    return lambda: typed(sys.executable, "-c", "pass")


def ledger(entries: int) -> str:
    from many_entries import filled

    from dpkit_core.ledger.ledger import Ledger

    return filled(Ledger.create(str(folder() / "ledger.db")), entries).url


def shown(*words: str) -> Callable[..., Work]:
    def prepare(entries: int) -> Work:
        url = ledger(entries)
        return lambda: typed(DPKIT, "ledger", words[0], url, *words[1:])

    return prepare


def sqlite_rows(entries: int) -> Work:
    code = (
        f"import sqlite3\nfor row in sqlite3.connect({ledger(entries)!r}).execute("
        "'SELECT * FROM entry ORDER BY sequence'): print(*row, sep='|')"
    )
    return lambda: typed(sys.executable, "-c", code)


ORDERS: tuple[Literal["C"], Literal["F"]] = ("C", "F")

#: Goals are those that the project set itself, measured on two cores.
ROWS = {
    "kendall": Row(
        "kendall, all rounds, no ties",
        "scipy.stats.kendalltau for each pair",
        kendall("all", None),
        scipy_round(None),
        50.0,
        "a random read and four counters for each value and round; two threads take half of the time",
        {"n": 100_000, "d": 100, "k": 10},
        {"n": 20_000, "d": 10, "k": 4},
        parts="k",
    ),
    "kendall-tied": Row(
        "kendall, all rounds, one decimal",
        "scipy.stats.kendalltau for each pair",
        kendall("all", 1),
        scipy_round(1),
        16.0,
        "ranks of each column: a sort of all values",
        {"n": 100_000, "d": 100, "k": 10},
        {"n": 20_000, "d": 10, "k": 4},
        parts="k",
    ),
    "kendall-some": Row(
        "kendall, all rounds, three decimals",
        "scipy.stats.kendalltau for each pair",
        kendall("all", 3),
        scipy_round(3),
        15.0,
        "three more random accesses for each value and round; two threads take half of the time",
        {"n": 100_000, "d": 100, "k": 10},
        {"n": 20_000, "d": 10, "k": 4},
        parts="k",
    ),
    "near": Row(
        "kendall, pairs=near, no ties",
        "scipy.stats.kendalltau for each pair",
        kendall("near", None),
        scipy_round(None),
        60.0,
        "comparing 32 pairs a value, half; 40 MB of bits read in each round, a third",
        {"n": 100_000, "d": 100, "k": 10},
        {"n": 20_000, "d": 10, "k": 4},
        parts="k",
    ),
    "near-tied": Row(
        "kendall, pairs=near, one decimal",
        "scipy.stats.kendalltau for each pair",
        kendall("near", 1),
        scipy_round(1),
        27.0,
        "three times as many bits",
        {"n": 100_000, "d": 100, "k": 10},
        {"n": 20_000, "d": 10, "k": 4},
        parts="k",
    ),
    "k-tukey": Row(
        "dpkit compose, kendall, peel and tukey",
        "the published stages: SciPy and scikit-learn in loops",
        k_tukey,
        published_k_tukey,
        40.0,
        "imports, 1.2 s, of which scipy.special, a quarter; Kendall's scores, a third; the plan, a seventh",
        {"n": 100_000, "d": 80, "k": 10},
        {"n": 10_000, "d": 8, "k": 2},
    ),
    **{
        f"trees-{n}": Row(
            "boosted_trees, told nothing",
            "HistGradientBoosting, 100 trees",
            trees,
            histogram_trees,
            15.0,
            "1200 draws of noise, some 40 calls of NumPy each: a sixth of the least table; of the "
            "largest, 14 bytes of each record moved in a round, a third, rows of the line, a fifth, "
            "and sorts that count cells, an eighth",
            {"n": n, "d": d},
            {"n": 5_000, "d": d},
        )
        for n, d in ((54_000, 26), (200_000, 30), (1_000_000, 20))
    },
    "trees-ebm": Row(
        "boosted_trees, told nothing",
        "DP-EBM of interpret",
        trees,
        explainable_trees,
        15.0,
        "1200 draws of noise, some 40 calls of NumPy each: a sixth of the least table; of the "
        "largest, 14 bytes of each record moved in a round, a third, rows of the line, a fifth, "
        "and sorts that count cells, an eighth",
        {"n": 54_000, "d": 26},
        {"n": 5_000, "d": 26},
        needs="interpret",
    ),
    "predict": Row(
        "predictions of boosted_trees",
        "those of HistGradientBoosting",
        predictions,
        histogram_predictions,
        1.0,
        "ten times as many trees",
        {"n": 54_000, "d": 26},
        {"n": 5_000, "d": 26},
    ),
    **{
        f"sgbdt-{d}": Row(
            "sgbdt, depth 6",
            "HistGradientBoosting, as many trees",
            sgbdt,
            deep_histogram_trees,
            10.0,
            "sums by leaf in NumPy of what each record contributes, a quarter, and their checks, a sixth; "
            "1000 draws of noise, a seventh",
            {"n": 48_842, "d": d, "rounds": 1000},
            {"n": 5_000, "d": d, "rounds": 100},
        )
        for d in (14, 100)
    },
    "winsorized-file": Row(
        "dpkit compose, winsorized_least_squares, Parquet",
        "one pass of row groups and A'A in NumPy",
        winsorized_file,
        one_pass,
        1 / 12,
        "ten passes for releases that follow from each other: decoding, two fifths; fences, a quarter",
        {"n": 3_000_000, "d": 12},
        {"n": 50_000, "d": 12},
    ),
    "winsorized-frame": Row(
        "dpkit compose, winsorized_least_squares, Parquet",
        "pandas and numpy.linalg.lstsq in memory",
        winsorized_file,
        data_frame,
        1.5,
        "ten passes for releases that follow from each other: decoding, two fifths; fences, a quarter",
        {"n": 3_000_000, "d": 12},
        {"n": 50_000, "d": 12},
    ),
    "winsorized": Row(
        "winsorized_least_squares in memory",
        "numpy.linalg.lstsq",
        winsorized,
        least_squares,
        1.0,
        "three counts of each column for its fences, half: a random read a value; products of "
        "rows in whole units, a fifth; their scaling, a seventh",
        {"n": 1_000_000, "d": 50},
        {"n": 20_000, "d": 50},
    ),
    "canonical": Row(
        "canonical_lipschitz",
        "all k (d - k) + 1 classes in NumPy",
        selection("canonical_lipschitz"),
        all_classes,
        1000.0,
        "partitions of the scores, and passes for the members of a set",
        {"d": 1_000_000, "k": 1000},
        {"d": 10_000, "k": 40},
        parts=CLASSES_IN_PARTS,
    ),
    **{
        f"{name}-{k}-{d}": Row(
            name,
            "Gumbel noise for all and a partition",
            selection(name),
            gumbel,
            goal,
            bound,
            {"d": d, "k": k},
            {"d": min(d, 100_000), "k": k},
        )
        for name, k, d, goal, bound in (
            ("peel", 10, 10**7, 20.0, "two passes over scores; noise of 9766 groups and 8192 scores a pick"),
            ("oneshot_laplace", 10, 10**7, 0.15, "noise for each score"),
            ("peel", 50, 10**5, 0.6, "noise for 1563 groups and 512 scores a pick, in fifty calls of NumPy"),
            (
                "joint",
                10,
                10**5,
                0.2,
                "a sort of the scores, a pass over them for each position, and one for each pick",
            ),
        )
    },
    **{
        f"clipped-{order}": Row(
            f"correlation, order {order}",
            "np.clip(X).T @ y",
            correlation(order),
            clipped_copy(order),
            4.0,
            "one pass over memory",
            {"n": 50_000, "d": 2000},
            {"n": 5_000, "d": 200},
        )
        for order in ORDERS
    },
    "frank-wolfe": Row(
        "frank_wolfe with screening, gram",
        "X'(Xw - y) at each step, unscreened",
        screened,
        naive_steps,
        300.0,
        "X'X of values in steps, a third; a draw of 562 at each step",
        {"n": 50_000, "d": 280, "steps": 1000},
        {"n": 5_000, "d": 40, "steps": 100},
        parts=STEPS_IN_PARTS,
    ),
    "tukey": Row(
        "tukey, 20000 models",
        "as many fits of scikit-learn's",
        tukey,
        loop_of_fits,
        250.0,
        "one batch of small factorizations",
        {"n": 180_000, "d": 6},
        {"n": 18_000, "d": 6},
        parts=FITS_IN_PARTS,
    ),
    **{
        name: Row(
            f"dpkit {name}",
            "python -c pass",
            command(name),
            bare,
            goal,
            bound,
            {},
            {},
        )
        for name, goal, bound in (
            ("list", 0.14, "imports of typer and attrs, and metadata of all distributions"),
            ("--help", 0.12, "the same; a terminal gets boxes by rich, which take as long again"),
        )
    },
    **{
        f"ledger-{words[0]}": Row(
            f"dpkit ledger {' '.join(words)}",
            "sqlite3 printing the rows",
            shown(*words),
            sqlite_rows,
            1 / 3,
            bound,
            {"entries": 100_000},
            {"entries": 2_000},
        )
        for words, bound in (
            (("show", "--account", "diamonds", "--limit", "all"), "reading JSON of each entry, and its line"),
            (("audit",), "a hash and JSON of each entry"),
        )
    },
}
