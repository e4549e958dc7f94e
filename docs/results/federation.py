"""Boosted trees of 3, 10, 30 and 100 parties in lock-step; prints the table of ``s-gbdt.md``.

    uv run python docs/results/federation.py [--smallest]

Diamonds of docs/data, 12 000 for the fit and 6000 others for the score, dealt to the parties at random;
epsilon 1, delta 1e-6. Every party is a thread of this process, with its own keys, masks and noise: seconds
are those of all parties together. ``--smallest`` shows no more than that it runs.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from dpkit_engine_federation import Identity, Relay, Terms, agree, join, plan_of

from dpkit_core import Budget, Dataset, Plan, Release, Schema, compose, open_source
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smallest", action="store_true")
    smallest = parser.parse_args().smallest
    schema = Schema.read(DATA / "diamonds.schema.toml")
    table = Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema)
    order = np.random.default_rng(0).permutation(table.records)
    few = 1200 if smallest else 12_000
    places = order[:few], order[-6000:]
    fit, score = (attrs.evolve(table, X=table.X[rows], y=table.y[rows]) for rows in places)
    trees, runs = (3, 1) if smallest else (100, 4)
    plan = compose(regressor="boosted_trees", options={"regressor": {"trees": trees}}).plan(schema, BUDGET)

    def r2(release: Release) -> float:
        return float(1 - np.square(release.predict(score.X) - score.y).mean() / score.y.var())

    print("| parties | colluders | R² | noise | bytes a tree | seconds a tree |")
    print("|---|---|---|---|---|---|")
    alone = [r2(plan.run(fit)) for _ in range(runs)]
    print(f"| one place | | {np.mean(alone):.3f} ± {np.std(alone) / runs**0.5:.3f} | 1 | | |")
    for parties in (3,) if smallest else (3, 10, 30, 100):
        rng = np.random.default_rng(parties)
        for colluders in dict.fromkeys((0, 1, parties // 3, parties - 1)):
            keys = {f"party-{place:03}": Identity() for place in range(parties)}
            terms = agree(
                plan,
                {name: key.public for name, key in keys.items()},
                server=Identity().public,
                colluders=colluders,
                least=parties,
                patience=600.0,
            )
            agreed, found, begun = plan_of(terms), [], time.perf_counter()
            several = 1 if parties == 100 else runs
            for _ in range(several):
                release, sent = together(agreed, terms, keys, dealt(fit, parties, rng))
                found.append(r2(release))
            seconds = (time.perf_counter() - begun) / several / trees
            deviation = (parties / (parties - colluders)) ** 0.5
            error = np.std(found) / several**0.5
            print(
                f"| {parties} | {colluders} | {np.mean(found):.3f} ± {error:.3f} | {deviation:.2f} "
                f"| {sent / trees:.0f} | {seconds:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
