"""Trees of 3, 10, 30 and 100 parties in lock-step: ``tables/federation-*.csv``, and the picture of ``sgbdt``.

    uv run python docs/results/federation.py [--part sgbdt] [--trees 800 --parties 100] [--picture FILE.svg]

Diamonds of docs/data, 3000 (``boosted_trees``: 12 000) for the fit and 6000 others for the score, dealt to
the parties at random; epsilon 1, delta 1e-6. Every party is a thread of this process, with its own keys,
masks and noise: seconds are of processor time, of all parties together. Run i has the same public coins, so
the same random trees, for every number of parties. The first row is one place. As many colluders as there are
others make *noise per party*, as the paper of S-GBDT has it (section IX): each party then adds all the noise.
Behind ± are standard errors. ``--smallest`` shows no more than that it runs. With ``--trees`` each score is
of one run, and only printed.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import matplotlib as mpl
import numpy as np
from dpkit_engine_federation import Identity, Relay, Terms, agree, join, plan_of
from matplotlib import pyplot as plt
from pages import keep

from dpkit_core import (
    Budget,
    Dataset,
    Plan,
    Release,
    Schema,
    compose,
    open_source,
)
from dpkit_core.pipeline.observers import Observers

DATA = Path(__file__).parents[1] / "data"
BUDGET = Budget(1.0, 1e-6)


@attrs.define(eq=False)
class Counting:
    """A relay that counts what one party sends."""

    relay: Relay
    counted: str
    sent: int = 0

    def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        """As of the relay."""
        return self.relay.meet(phase, name, members, message)

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        """As of the relay, and count."""
        self.sent += len(message) if name == self.counted else 0
        return self.relay.add(room, name, members, message)

    def leave(self, name: str, /) -> None:
        """As of the relay."""
        self.relay.leave(name)


def dealt(data: Dataset, parties: int, rng: np.random.Generator) -> list[Dataset]:
    """Return the records of each party."""
    order = rng.permutation(data.records)
    return [attrs.evolve(data, X=data.X[rows], y=data.y[rows]) for rows in np.array_split(order, parties)]


def together(
    plan: Plan, terms: Terms, keys: dict[str, Identity], pieces: list[Dataset], seed: int
) -> tuple[Release, int]:
    """Return the release of all parties, whose public coins a seed decides, and the bytes that one sent."""
    server = Counting(Relay(tuple(terms.parties), terms.patience), next(iter(keys)))
    ends: dict[str, Any] = {}

    def party(name: str, data: Dataset) -> None:
        try:
            ends[name] = join(
                data,
                terms,
                identity=keys[name],
                transport=server,
                plan=plan,
                observers=Observers(()),
                seed=seed if name == server.counted else 0,
            )
        except BaseException as error:
            ends[name] = error

    threads = [threading.Thread(target=party, args=pair) for pair in zip(keys, pieces, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    release = ends[server.counted]
    if not isinstance(release, Release):
        raise release
    return release, server.sent


@attrs.frozen
class Part:
    """What is fitted to how many records, how often, and against how many colluders."""

    name: str
    records: int
    size: str  # the option that says how many trees
    options: dict[str, Any]
    runs: Callable[[int], int]
    columns: tuple[str, ...]
    trees: int = 100


SHARES, ALL = "one colluder", "noise per party"
#: How many collude, of so many parties.
COLLUDERS: dict[str, Callable[[int], int]] = {
    "no colluders": lambda parties: 0,
    SHARES: lambda parties: min(1, parties - 1),
    "a third": lambda parties: parties // 3,
    ALL: lambda parties: parties - 1,
}


PARTS = {
    "boosted_trees": Part(
        "boosted_trees",
        12_000,
        "trees",
        {},
        lambda parties: 1 if parties == 100 else 4,
        tuple(COLLUDERS),
    ),
    "sgbdt": Part(
        "sgbdt",
        3000,
        "rounds",
        {"noise": "gaussian"},
        lambda parties: 2,
        (SHARES, ALL),
    ),
}


def standard_error(scores: Sequence[float]) -> float:
    """Return that of the mean of some runs; nan of one, which does not tell."""
    return float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else np.nan


def shown(scores: Sequence[float]) -> str:
    """Return mean and standard error, such as 0.850 ± 0.050."""
    error = standard_error(scores)
    return f"{np.mean(scores):.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")


def drawn(part: Part, alone: list[float], found: dict[tuple[int, int], list[float]], file: Path) -> None:
    """Draw the score by the number of parties."""
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.axhline(float(np.mean(alone)), color="0.4", linestyle="--", label="one place")
    numbers = sorted({parties for parties, _ in found})
    for label, colluders in (("shares, one colluder", SHARES), ("noise per party", ALL)):
        scores = [found[k, COLLUDERS[colluders](k)] for k in numbers]
        means, errors = [np.mean(s) for s in scores], [standard_error(s) for s in scores]
        axes.errorbar(numbers, means, errors, marker="o", capsize=3, label=label)
    axes.set(xscale="log", xlabel="parties", ylabel="R² on other diamonds", title=f"{part.name}, epsilon 1")
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.minorticks_off()
    axes.legend()
    with mpl.rc_context({"svg.hashsalt": "dpkit"}):
        figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Keep the table of a part, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="boosted_trees")
    parser.add_argument("--trees", type=int)
    parser.add_argument("--parties", type=int, nargs="+", default=[3, 10, 30, 100])
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--smallest", action="store_true")
    given = parser.parse_args()
    smallest, part = given.smallest, PARTS[given.part]
    if trees := 3 if smallest else given.trees:
        part = attrs.evolve(part, trees=trees, runs=lambda parties: 1)
    schema = Schema.read(DATA / "diamonds.schema.toml")
    table = Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema)
    order = np.random.default_rng(0).permutation(table.records)
    few = 1200 if smallest else part.records
    places = order[:few], order[-6000:]
    fit, score = (attrs.evolve(table, X=table.X[rows], y=table.y[rows]) for rows in places)
    options = {"regressor": {part.size: part.trees, **part.options}}
    plan = compose(regressor=part.name, options=options).plan(schema, BUDGET)

    def r2(release: Release) -> float:
        return float(1 - np.square(release.predict(score.X) - score.y).mean() / score.y.var())

    def fitted(parties: int, colluders: int) -> tuple[list[float], float, float]:
        """Return scores of runs, and bytes of a party and seconds of all for each tree."""
        rng, found, sent = np.random.default_rng(parties), list[float](), 0
        keys = {f"party-{place:03}": Identity() for place in range(parties)}
        terms = agree(
            plan,
            {name: key.public for name, key in keys.items()},
            server=Identity().public,
            colluders=colluders,
            least=parties,
            patience=600.0,
        )
        agreed, runs, begun = plan_of(terms), part.runs(parties), time.process_time()
        for run in range(runs):
            release, sent = together(agreed, terms, keys, dealt(fit, parties, rng), run)
            found.append(r2(release))
        return found, sent / part.trees, (time.process_time() - begun) / runs / part.trees

    scores: dict[tuple[int, int], list[float]] = {}

    def rows() -> Iterator[list[str]]:
        for parties in (1, 3) if smallest else (1, *given.parties):
            colluders = [COLLUDERS[name](parties) for name in part.columns]
            found = {number: fitted(parties, number) for number in dict.fromkeys(colluders)}
            scores.update({(parties, number): each for number, (each, _, _) in found.items()})
            told = {number: shown(each) for number, (each, _, _) in found.items()}
            _, sent, _ = found[colluders[0]]
            seconds = np.mean([each for _, _, each in found.values()])
            yield [f"{parties}", *(told[number] for number in colluders), f"{sent:.0f}", f"{seconds:.4f}"]

    heads = ["parties", *part.columns, "bytes a tree", "seconds a tree, all parties"]
    keep("" if smallest or given.trees else f"federation-{part.name}", heads, rows())
    alone = scores.pop((1, 0))
    if given.picture is not None:
        drawn(part, alone, scores, given.picture)


if __name__ == "__main__":
    main()
