"""Runs the default kit on shipped parts by many seeds, and keeps a table of what it said.

``python tests/shared/seeds.py FILE`` tries every shipped part by the seeds 0 to 49, the cheapest first, and
adds a line to FILE for each run; started again, it goes on after the last. Names of parts after FILE limit it
to these; ``--seeds 10`` stops at seed 9. A file belongs to one version of kit and parts: begin another for
the next. ``--table docs/reference/kit-costs.csv`` writes what a file says of each part, and tries none.
"""

import argparse
import csv
import resource
import time
from pathlib import Path

import attrs
from dpkit_check import checks_for, trial_for
from dpkit_check.attacks.memory import fresh_processes
from dpkit_check.kit import _run
from dpkit_check.options import with_options
from dpkit_check.trial import Trial

from dpkit_core.plugins.registry import Registry

SEEDS = range(50)
COLUMNS = ("part", "kind", "seed", "status", "failed", "level", "seconds", "checks", "detail")


class Watched(Trial):
    """A trial that knows whether its seed was asked for; copies of it, hashes and comparisons ask, too."""

    def __getattribute__(self, name):
        if name == "seed":
            # A copy has none: whoever made it has asked.
            object.__getattribute__(self, "__dict__").get("asked", []).append(name)
        return object.__getattribute__(self, name)


def watched(trial):
    """Return the same trial, watched."""
    facts = {field.name: getattr(trial, field.name) for field in attrs.fields(Trial)}
    found = object.__new__(Watched)
    object.__setattr__(found, "asked", [])
    Trial.__init__(found, **facts)
    found.asked.clear()
    return found


def by_seeds(make, kind, seeds=SEEDS):
    """Yield each seed with the results of the checks that were made by it.

    A check that never asks for its seed does the same for every seed: it is made once.
    """
    checks = checks_for(kind)
    with fresh_processes(make) as fresh:
        for seed in seeds:
            results, seeded = [], []
            for check in checks:
                asked = []

                def run(make, trial, check=check, asked=asked):
                    seen = watched(trial)
                    try:
                        return check.run(make, seen)
                    finally:
                        asked += seen.asked

                trial = attrs.evolve(trial_for(kind, seed=seed), fresh=fresh)
                results.append(_run(check, run, make, trial, None))
                if asked:
                    seeded.append(check)
            checks = tuple(seeded)
            yield seed, results


def shipped():
    """Return the name and kind of each part that comes with dpkit, and what makes it for ``dpkit check``."""
    registry = Registry()
    refs = [ref for ref in registry.refs() if ref.distribution.startswith("dpkit-")]
    return [(ref.name, ref.role, with_options(registry.load(ref), {})) for ref in refs]


def main():
    """Add the runs that a file lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--seeds", type=int, default=len(SEEDS))
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if given.table is not None:
        _write_table(given.table, _rows(given.file))
        return
    parts = {name: (kind, make) for name, kind, make in shipped() if name in given.parts or not given.parts}
    if unknown := set(given.parts) - set(parts):
        parser.error(f"no shipped part is called {', '.join(sorted(unknown))}")
    if not given.file.exists():
        given.file.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    for name, (kind, make) in parts.items():  # once each, so that it is known which are cheap
        _add(given.file, name, kind, make, range(1))
    cost = {name: float(row["seconds"]) for (name, seed), row in _rows(given.file).items() if not seed}
    for name in sorted(parts, key=cost.__getitem__):
        _add(given.file, name, *parts[name], SEEDS[: given.seeds])


def _write_table(table, rows):
    """Write processor seconds by seed 0, which makes every check, and by others; and how many runs failed."""
    found = {}
    for (name, seed), row in rows.items():
        found.setdefault(name, {})[seed] = row
    lines = []
    for name, runs in sorted(found.items(), key=lambda each: float(each[1][0]["seconds"])):
        others = [float(row["seconds"]) for seed, row in runs.items() if seed]
        again = f"{sum(others) / len(others):.1f}" if others else ""
        failed = sum(row["status"] == "failed" for row in runs.values())
        lines.append((name, f"{float(runs[0]['seconds']):.1f}", len(runs), failed, again))
    with table.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(
            ("part", "processor seconds", "seeds", "false alarms", "seconds for each further seed")
        )
        writer.writerows(lines)


def _rows(file):
    with file.open(encoding="utf-8", newline="") as lines:
        return {(row["part"], int(row["seed"])): row for row in csv.DictReader(lines)}


def _add(file, name, kind, make, seeds):
    known = {seed for part, seed in _rows(file) if part == name}
    missing = [seed for seed in seeds if seed not in known]
    if not missing:
        return
    before = _seconds()
    # Which checks ask for the seed, seed 0 says; a file that has it has not what it said.
    for seed, results in by_seeds(make, kind, [0, *(seed for seed in missing if seed)]):
        before, spent = _seconds(), _seconds() - before
        if seed in known:
            continue
        failed = [result for result in results if result.status == "failed"]
        row = (
            name,
            kind,
            seed,
            "failed" if failed else "passed",
            " ".join(result.check for result in failed),
            f"{sum(result.level for result in results):.3g}",
            f"{spent:.2f}",
            len(results),
            " | ".join(result.detail for result in failed),
        )
        with file.open("a", encoding="utf-8", newline="") as lines:
            csv.writer(lines, lineterminator="\n").writerow(row)


def _seconds():
    """Return the processor seconds of this process and those that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
