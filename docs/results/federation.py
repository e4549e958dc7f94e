"""Trees of 3, 10, 30 and 100 parties in lock-step; prints the tables of ``s-gbdt.md`` and draws a picture.

    uv run python docs/results/federation.py [--part sgbdt] [--picture FILE.svg] [--smallest]

Diamonds of docs/data, 12 000 for the fit and 6000 others for the score, dealt to the parties at random;
epsilon 1, delta 1e-6. Every party is a thread of this process, with its own keys, masks and noise: seconds
are those of all parties together. As many colluders as there are others make *noise per party*, as the paper
of S-GBDT has it (section IX): each party then adds all the noise. Scores of ``sgbdt``, which has 800 trees,
are those of one place with the noise of all parties, which is the same sum; bytes and seconds are those of
the parties, over 20 trees. ``--smallest`` shows no more than that it runs.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import matplotlib as mpl
import numpy as np
from dpkit_engine_federation import Identity, Relay, Terms, agree, join, plan_of
from dpkit_engine_federation.shares import share_of
from matplotlib import pyplot as plt

from dpkit_core import (
    Budget,
    Dataset,
    Integers,
    Plan,
    Randomness,
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
    plan: Plan, terms: Terms, keys: dict[str, Identity], pieces: list[Dataset]
) -> tuple[Release, int]:
    """Return the release of all parties, and the bytes that the first of them sent."""
    server = Counting(Relay(tuple(terms.parties), terms.patience), next(iter(keys)))
    ends: dict[str, Any] = {}

    def party(name: str, data: Dataset) -> None:
        try:
            ends[name] = join(
                data, terms, identity=keys[name], transport=server, plan=plan, observers=Observers(())
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


@attrs.define(eq=False)
class Summed:
    """All parties in one: their records are in one place, and their shares of noise are one number."""

    members: int
    colluders: int
    coins: Randomness
    spare: int = 0
    engine: tuple[str, str, str] = ("federation", "", "")
    assumptions: tuple[str, ...] = ("at most 1 of the 1 parties that hold the records share",)

    @property
    def inflation(self) -> float:
        """As of ``Joint``."""
        return math.sqrt(self.members / (self.members - self.colluders))

    def compared(self, released: str, /) -> tuple[str, ...]:
        """As of ``Joint``."""
        return ()

    def total(self, value: Integers, scale: int, noise: Any, attempt: Any, /) -> Integers:
        """As of ``Joint``."""
        # A sum of discrete Gaussians is one, but for what no run of these would show (``shares``).
        share = share_of(scale, self.members, self.colluders)
        return value + noise(math.ceil(share * math.sqrt(self.members)))


@attrs.frozen
class Part:
    """What is fitted, how often for each number of parties, and against how many colluders.

    Attributes
    ----------
    summed
        Whether scores are those of one place with the noise of all parties.
    trees
        Of the parties' runs.
    """

    name: str
    options: dict[str, Any]
    trees: int
    summed: bool
    runs: Callable[[int], int]
    colluders: Callable[[int], tuple[int, ...]]


PARTS = {
    "boosted_trees": Part(
        "boosted_trees",
        {"trees": 100},
        100,
        False,
        lambda parties: 1 if parties == 100 else 4,
        lambda parties: (0, 1, parties // 3, parties - 1),
    ),
    "sgbdt": Part(
        "sgbdt", {"noise": "gaussian"}, 20, True, lambda parties: 8, lambda parties: (1, parties - 1)
    ),
}
SMALLEST = {
    "boosted_trees": attrs.evolve(PARTS["boosted_trees"], options={"trees": 3}, trees=3),
    "sgbdt": attrs.evolve(PARTS["sgbdt"], options={"rounds": 3, "noise": "gaussian"}, trees=3),
}


def drawn(part: Part, alone: list[float], found: dict[tuple[int, int], list[float]], file: Path) -> None:
    """Draw the score by the number of parties."""
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.axhline(float(np.mean(alone)), color="0.4", linestyle="--", label="one place")
    numbers = sorted({parties for parties, _ in found})
    for label, colluders in (("shares, one colluder", lambda k: 1), ("noise per party", lambda k: k - 1)):
        scores = [found[k, colluders(k)] for k in numbers]
        means, errors = [np.mean(s) for s in scores], [np.std(s) / len(s) ** 0.5 for s in scores]
        axes.errorbar(numbers, means, errors, marker="o", capsize=3, label=label)
    axes.set(xscale="log", xlabel="parties", ylabel="R² on other diamonds", title=f"{part.name}, epsilon 1")
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.minorticks_off()
    axes.legend()
    with mpl.rc_context({"svg.hashsalt": "dpkit"}):
        figure.savefig(file, metadata={"Date": None})


def main() -> None:
    """Print the table of a part, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, default="boosted_trees")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--smallest", action="store_true")
    given = parser.parse_args()
    smallest, part = given.smallest, (SMALLEST if given.smallest else PARTS)[given.part]
    schema = Schema.read(DATA / "diamonds.schema.toml")
    table = Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema)
    order = np.random.default_rng(0).permutation(table.records)
    few = 1200 if smallest else 12_000
    places = order[:few], order[-6000:]
    fit, score = (attrs.evolve(table, X=table.X[rows], y=table.y[rows]) for rows in places)
    plan = compose(regressor=part.name, options={"regressor": part.options}).plan(schema, BUDGET)

    def r2(release: Release) -> float:
        return float(1 - np.square(release.predict(score.X) - score.y).mean() / score.y.var())

    print("| parties | colluders | R² | noise | bytes a tree | seconds a tree |")
    print("|---|---|---|---|---|---|")

    def in_one_place(parties: int, colluders: int, runs: int) -> list[float]:
        # Each run has its own trees, which are those of every number of parties.
        joints = (Summed(parties, colluders, Randomness.from_seed(seed)) for seed in range(runs))
        return [r2(plan.run(fit, joint=joint)) for joint in joints]

    if part.summed:
        alone = in_one_place(1, 0, 1 if smallest else part.runs(1))
        cheap = {**part.options, "rounds": part.trees}
        sent_plan = compose(regressor=part.name, options={"regressor": cheap}).plan(schema, BUDGET)
    else:
        alone, sent_plan = [r2(plan.run(fit)) for _ in range(1 if smallest else 4)], plan
    print(f"| one place | | {np.mean(alone):.3f} ± {np.std(alone) / len(alone) ** 0.5:.3f} | 1 | | |")
    scores: dict[tuple[int, int], list[float]] = {}
    for parties in (3,) if smallest else (3, 10, 30, 100):
        rng = np.random.default_rng(parties)
        for colluders in dict.fromkeys(part.colluders(parties)):
            keys = {f"party-{place:03}": Identity() for place in range(parties)}
            terms = agree(
                sent_plan,
                {name: key.public for name, key in keys.items()},
                server=Identity().public,
                colluders=colluders,
                least=parties,
                patience=600.0,
            )
            agreed, found, sent = plan_of(terms), list[float](), 0
            runs = 1 if smallest else part.runs(parties)
            times, begun = 1 if part.summed else runs, time.perf_counter()
            for _ in range(times):
                release, sent = together(agreed, terms, keys, dealt(fit, parties, rng))
                found.append(r2(release))
            seconds = (time.perf_counter() - begun) / times / part.trees
            if part.summed:
                found = in_one_place(parties, colluders, runs)
            scores[parties, colluders] = found
            deviation = (parties / (parties - colluders)) ** 0.5
            error = np.std(found) / runs**0.5
            print(
                f"| {parties} | {colluders} | {np.mean(found):.3f} ± {error:.3f} | {deviation:.2f} "
                f"| {sent / part.trees:.0f} | {seconds:.3f} |",
                flush=True,
            )
    if given.picture is not None:
        drawn(part, alone, scores, given.picture)


if __name__ == "__main__":
    main()
