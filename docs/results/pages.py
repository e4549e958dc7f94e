"""What scripts of this folder share: the tables that they measure on, and how pages get what they found.

python docs/results/pages.py PAGE FOLDER

rebuilds a page by the commands that it shows, with its tables and pictures, and prints how long each takes.
FOLDER has the tables of all suites, at any depth.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).parent
PAGES = (*HERE.glob("*.md"), HERE.parents[1] / "README.md")
#: A table of a page that a file has: which, what of it, and what the page has now.
MARKED = re.compile(
    r"(?P<begin><!-- (?P<name>[\w-]+)\.csv(?:: (?P<asked>.*?))? -->\n\n)(?P<table>.*?)"
    r"(?P<end>\n\n<!-- its end -->)",
    re.DOTALL,
)

Row = Sequence[object]


def within(folder: Path, name: str) -> Path:
    """Return the folder, of any depth, in which there is such a file; the first one if there is none."""
    return next((path.parent for path in sorted(folder.rglob(name))), folder)


def benchmark(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and table of those of the suite ``dpkendall`` with files, fetched if the folder has none."""
    from dpkit_command_bench.sources import load  # noqa: PLC0415 - not in the environments of other libraries
    from dpkit_command_bench.suite import find_suite  # noqa: PLC0415

    suite = find_suite("dpkendall")
    for spec in (spec for spec in suite.tables if spec.file):
        yield (
            spec.name,
            load(
                spec,
                data_dir=within(folder, spec.file),
                folder=suite.folder,
                seed=suite.seed,
                neighboring=suite.neighboring,
            ),
        )


def r_squared(y: npt.NDArray[np.float64], predicted: npt.NDArray[np.float64]) -> float:
    """Return the coefficient of determination."""
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def short(value: float) -> str:
    """Return a number with two digits, and no 0 before them."""
    return f"{value:z.2f}".replace("0.", ".", abs(value) < 1)


def markdown(head: Row, rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield f"| {' | '.join(map(str, head))} |"
    yield "|---" + "|---:" * (len(head) - 1) + "|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def plain(row: Row) -> list[str]:
    """Return cells without marks of Markdown."""
    return [str(cell).translate({ord(mark): None for mark in "`*"}) for cell in row]


def shown(asked: str, table: str, head: Row, rows: Sequence[Row]) -> str:
    """Return the Markdown of a table for a page: all of it, or as much as is asked for.

    ``table; epsilon | error; share`` asks for four columns, of which the first two name a row. Which rows
    there are, in which order, and what is above them stays as the page has it.

    Raises
    ------
    ValueError
        If there is no such column or row, or if rows have the same name.
    """
    if not asked:
        return "\n".join(markdown(head, rows))
    names, numbers = ([column.strip() for column in part.split(";")] for part in asked.split("|"))
    columns = plain(head)
    if missing := {*names, *numbers} - {*columns}:
        raise ValueError(
            f"a page asks for {', '.join(sorted(missing))}, and the columns are {', '.join(columns)}"
        )
    cells = [dict(zip(columns, [*map(str, row)], strict=True)) for row in rows]
    known = {
        tuple(plain([row[name] for name in names])): [row[column] for column in numbers] for row in cells
    }
    if len(known) < len(cells):
        raise ValueError(f"several rows of the table have the same {', '.join(names)}: ask by more columns")
    lines = table.splitlines()
    for place, line in enumerate(lines[2:], 2):
        listed = [cell.strip() for cell in line.strip("|").split("|")][: len(names)]
        if (found := known.get(tuple(plain(listed)))) is None:
            raise ValueError(f"a page lists {', '.join(listed)}, which is not in the table")
        lines[place] = f"| {' | '.join([*listed, *found])} |"
    return "\n".join(lines)


def keep(name: str, head: Row, rows: Iterable[Row]) -> None:
    """Print a table in Markdown as its rows are found, and keep it when it is whole.

    It is kept as ``tables/NAME.csv``, on pages that have ``<!-- NAME.csv -->`` or ask for a part of it by
    ``<!-- NAME.csv: ... -->``, and in pictures drawn from it. Without a name it is only printed.
    """
    found: list[Row] = []

    def listed() -> Iterator[Row]:
        for row in rows:
            found.append(row)
            yield row

    for line in markdown(head, listed()):
        print(line, flush=True)
    print(flush=True)
    if not name:
        return
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(map(plain, [head, *found]))

    def renewed(at: re.Match[str]) -> str:
        if at["name"] != name:
            return at[0]
        return f"{at['begin']}{shown(at['asked'] or '', at['table'], head, found)}{at['end']}"

    texts = {page: MARKED.sub(renewed, page.read_text(encoding="utf-8")) for page in PAGES}
    (HERE / "tables" / f"{name}.csv").write_text(written.getvalue(), encoding="utf-8")
    for page, text in texts.items():
        page.write_text(text, encoding="utf-8")
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


def commands(page: str) -> list[str]:
    """Return the commands of a page that measure what it shows."""
    text = (HERE / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"^ *((?:uv run .*)?python docs/results/\w+\.py.*)$", text, re.MULTILINE)


def rebuild(page: str, folder: Path) -> None:
    """Run the commands of a page where what they keep is thrown away, and print their processor time."""
    for command in commands(page):
        words = shlex.split(command.replace("docs/results", str(HERE)).replace("FOLDER", str(folder)))
        words[:1] = [sys.executable] if words[0] == "python" else words[:1]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        with tempfile.TemporaryDirectory() as place:
            environment = os.environ | {"UV_PROJECT": str(HERE.parents[1])}
            subprocess.run(words, check=True, cwd=place, env=environment)
        seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        print(f"{command}: {seconds:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    rebuild(sys.argv[1], Path(sys.argv[2]).resolve())
