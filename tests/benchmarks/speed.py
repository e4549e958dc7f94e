"""How fast dpkit is beside what a user would pick instead.

uv run --with interpret-core python tests/benchmarks/speed.py --growth
uv run python tests/benchmarks/speed.py --quick
uv run python tests/benchmarks/speed.py kendall trees-54000

The first, about half an hour, prints a line for each row of ``rows.py`` and writes the page
``docs/results/speed.md``, its table and its picture; with names of rows, these alone are measured anew.
Without ``--growth``, it takes half as long, and exponents stay as they were. With ``--quick``, tables are
small, and ratios are printed beside earlier ones: a change that slows a row by a quarter is marked, and fails
nothing. Rows that are the same on small tables are run once.

Both sides have one thread and a process of their own and are run in turns, three times unless that takes more
than ``ENOUGH`` seconds. The least processor time counts, with that of processes that they start.
"""

import argparse
import csv
import functools
import math
import multiprocessing
import os
import resource
import runpy
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "shared"))
THREADS = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ |= THREADS  # before anything loads a library that reads them
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start would compile every module

from rows import ROWS, Cost, Work, megabytes  # noqa: E402 - after the lines above

ROOT = Path(__file__).parents[2]
PAGE, TABLE = ROOT / "docs/results/speed.md", ROOT / "docs/results/tables/speed.csv"
TIMES, ENOUGH, ENOUGH_QUICKLY = 3, 15.0, 3.0
BEGIN, END = "<!-- written by tests/benchmarks/speed.py -->", "<!-- until here -->"
SLOWER = 0.8  # of the earlier ratio: a quarter slower


def timed(work: Callable[[], object]) -> Cost:
    """Run it, and return what it cost; the memory is the most that this process has had so far."""
    start = time.process_time()
    result = work()
    if isinstance(result, Cost):
        return result
    return Cost(time.process_time() - start, megabytes(peak()))


def peak() -> int:
    """Return the most memory that this process has had, as ``getrusage`` counts it."""
    status = Path("/proc/self/status")
    if status.exists():  # where getrusage has that of the process that started this one
        return int(status.read_text(encoding="ascii").partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def serve(name: str, ours: bool, size: Mapping[str, int], orders: Connection) -> None:
    """Prepare one side of a row, run it whenever told to, and answer with its cost."""
    row = ROWS[name]
    work = (row.ours if ours else row.theirs)(**size)
    while orders.recv():
        orders.send(timed(work))


def in_turns(name: str, size: Mapping[str, int], sides: Sequence[bool], times: int) -> list[Cost]:
    """Return the cost of each side, dpkit's being True, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    costs: list[list[Cost]] = [[] for _ in sides]
    workers = []
    for ours in sides:
        here, there = context.Pipe()
        process = context.Process(target=serve, args=(name, ours, size, there), daemon=True)
        process.start()
        there.close()
        workers.append((process, here))
    # Not by the clock: on a busy machine, only the first turns would count, which import and warm up.
    while len(costs[0]) < times and sum(cost.seconds for found in costs for cost in found) < ENOUGH:
        for (_, orders), found in zip(workers, costs, strict=True):
            orders.send(True)
            found.append(orders.recv())
    for process, orders in workers:
        orders.send(False)
        process.join()
    return [Cost(min(c.seconds for c in found), max(c.memory for c in found)) for found in costs]


def quickly(name: str) -> float:
    """Return the ratio on small tables, both sides in this process."""
    row = ROWS[name]
    return row.parts_in(row.quick) * _ratio(row.ours, row.theirs, *row.quick.items())


@functools.cache
def _ratio(ours: Callable[..., Work], theirs: Callable[..., Work], *size: tuple[str, int]) -> float:
    sides = [side(**dict(size)) for side in (ours, theirs)]
    times: list[list[float]] = []
    while len(times) < TIMES and sum(map(sum, times)) < ENOUGH_QUICKLY:
        times.append([timed(work).seconds for work in sides])
    ours_least, theirs_least = map(min, zip(*times, strict=True))
    return theirs_least / ours_least


def growth(name: str, seconds: float) -> str:
    """Return the exponent of each size in dpkit's time, by a table that has half as much of it."""
    size = ROWS[name].size
    found = []
    for each, value in size.items():
        (half,) = in_turns(name, {**size, each: value // 2}, [True], TIMES)
        found.append(f"{each}^{math.log2(seconds / half.seconds):.1f}")
    return ", ".join(found)


def fully(name: str, *, grown: bool, before: Mapping[str, str]) -> dict[str, str]:
    """Return the line of a row in the table; its growth is the earlier one unless that is measured, too."""
    row = ROWS[name]
    ours, theirs = in_turns(name, row.size, [True, False], TIMES)
    peer = theirs.seconds * row.parts_in(row.size)
    return {
        "row": name,
        "work": row.work,
        "peer": row.peer,
        "size": ", ".join(f"{each} = {value}" for each, value in row.size.items()),
        "ours, CPU s": f"{ours.seconds:.3g}",
        "peer, CPU s": f"{peer:.3g}",
        "ours, MB": f"{ours.memory:.0f}",
        "peer, MB": f"{theirs.memory:.0f}",
        "goal": f"{row.goal:.2g}",
        "reached": f"{peer / ours.seconds:.3g}",
        "quick": f"{quickly(name):.3g}",
        "grows as": growth(name, ours.seconds) if grown else before.get("grows as", ""),
        "bound": row.bound,
    }


def known() -> dict[str, dict[str, str]]:
    """Return the lines of the committed table."""
    if not TABLE.exists():
        return {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {line["row"]: line for line in csv.DictReader(file)}


def write(lines: Sequence[Mapping[str, str]]) -> None:
    """Write the table, the part of the page that shows it, and the pictures."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    shown = "\n".join(markdown(lines))
    PAGE.write_text(f"{before}{BEGIN}\n\n{shown}\n\n{END}{after}", encoding="utf-8")
    runpy.run_path(str(ROOT / "docs/results_pictures.py"), run_name="__main__")


def markdown(lines: Iterable[Mapping[str, str]]) -> Iterator[str]:
    yield "| row | dpkit | beside | CPU s | MB | goal | reached | what bounds it |"
    yield "|---|---|---|---:|---:|---:|---:|---|"
    for line in lines:
        seconds, megabytes = (f"{line[f'ours, {u}']} / {line[f'peer, {u}']}" for u in ("CPU s", "MB"))
        work = f"{line['work']}; {line['size']}" if line["size"] else line["work"]
        cells = f"`{line['row']}`", work, line["peer"], seconds, megabytes, line["goal"], line["reached"]
        yield f"| {' | '.join(cells)} | {line['bound']} |"


def main() -> None:
    """Measure rows and print them; a full run writes the page as well."""
    parser = argparse.ArgumentParser(description="How fast dpkit is beside what a user would pick instead.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small tables, which show no more than a change")
    parser.add_argument(
        "--growth", action="store_true", help="also fit how dpkit's time grows with each size"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.rows if name not in ROWS]:
        parser.error(f"there is no row {unknown[0]}; rows are {', '.join(ROWS)}")
    lines = known()
    for name in given.rows or ROWS:
        row = ROWS[name]
        if not row.installed:
            print(f"{name}: not measured, since {row.needs} is not installed", flush=True)
        elif given.quick:
            ratio, before = quickly(name), float(lines[name]["quick"]) if name in lines else math.nan
            slower = "  slower by a quarter" if ratio < SLOWER * before else ""
            print(f"{name:18} {ratio:9.3g} times, {before:9.3g} before{slower}", flush=True)
        else:
            lines[name] = fully(name, grown=given.growth, before=lines.get(name, {}))
            print("; ".join(f"{head} {cell}" for head, cell in lines[name].items() if cell), flush=True)
            write([lines[each] for each in ROWS if each in lines])


if __name__ == "__main__":
    main()
