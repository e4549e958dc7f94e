"""What scripts of this folder share: the tables that they measure on, and how pages get what they found."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
PAGES = (*HERE.glob("*.md"), HERE.parents[1] / "README.md")
END = "<!-- its end -->"

Row = Sequence[object]


def benchmark(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and table of those of the suite ``dpkendall`` with files, fetched if the folder has none."""
    from dpkit_command_bench.sources import load  # noqa: PLC0415 - not in the environments of other libraries
    from dpkit_command_bench.suite import find_suite  # noqa: PLC0415

    suite = find_suite("dpkendall")
    for spec in (spec for spec in suite.tables if spec.file):
        yield (
            spec.name,
            load(spec, data_dir=folder, folder=suite.folder, seed=suite.seed, neighboring=suite.neighboring),
        )


def r_squared(y: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]) -> float:
    """Return the coefficient of determination."""
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def markdown(head: Row, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(map(str, head))} |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def plain(row: Row) -> list[str]:
    """Return cells without marks of Markdown."""
    return [str(cell).translate({ord(mark): None for mark in "`*"}) for cell in row]


def keep(name: str, head: Row, rows: Iterable[Row]) -> None:
    """Print a table in Markdown as its rows are found, and keep it when it is whole.

    It is kept as ``tables/NAME.csv``, on pages that have ``<!-- NAME.csv -->``, and in pictures drawn
    from it. Without a name it is only printed.
    """
    found: list[Row] = []

    def listed() -> Iterator[Row]:
        for row in rows:
            found.append(row)
            yield row

    lines = []
    for line in markdown(head, listed()):
        print(line, flush=True)
        lines.append(line)
    print(flush=True)
    if not name:
        return
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(map(plain, [head, *found]))
    (HERE / "tables" / f"{name}.csv").write_text(written.getvalue(), encoding="utf-8")
    begin = f"<!-- {name}.csv -->\n"
    for page in PAGES:
        before, found, rest = page.read_text(encoding="utf-8").partition(begin)
        if found:
            table = "\n".join(lines)
            rest = rest.partition(END)[2]
            page.write_text(f"{before}{begin}\n{table}\n\n{END}{rest}", encoding="utf-8")
    draw(name)


def draw(table: str) -> None:
    """Draw the pictures of pages that show a table."""
    spec = importlib.util.spec_from_file_location("pictures", HERE.with_name("results_pictures.py"))
    assert spec is not None
    assert spec.loader is not None
    pictures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pictures)
    for page, dots in pictures.PICTURES.items():
        if dots.table == table:
            (HERE / f"{page}.svg").write_text(pictures.picture(page), encoding="utf-8")
