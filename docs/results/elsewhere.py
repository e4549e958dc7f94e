"""What dpkit's kit finds in functions of other libraries: the table and the picture of ``elsewhere.md``.

python docs/results/elsewhere.py [--quick] [--only PART ...]

Makes an environment for each library, with dpkit and the kit beside it, by ``uv``; asks the kit of each part
in ``elsewhere/parts.py``; and makes the attacks of ``elsewhere/attacks.py``, which need the library and NumPy
alone. Writes ``tables/elsewhere.csv`` and the table of the page. With ``--quick`` only attacks are made, on
fewer runs, two minutes on a free core together, and what they prove is printed.

A fault has a row only if a public thread names it; a function with any other fault has none.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TABLE, PAGE = HERE / "tables/elsewhere.csv", HERE / "elsewhere.md"
BEGIN, END = "<!-- written by elsewhere.py -->\n\n", "\n<!-- its end -->"
COLUMNS = ("function", "fault", "claimed", "proved", "counts", "runs", "kit", "kit tells")


@attrs.frozen
class Library:
    """A library: its name for people, what is installed, and in which version."""

    name: str
    package: str
    version: str
    beside: tuple[str, ...] = ()
    alone: bool = False  # without what it depends on

    @property
    def words(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"


OPENDP = Library("OpenDP", "opendp", "0.16.0", ("scikit-learn",))
DIFFPRIVLIB = Library("diffprivlib", "diffprivlib", "0.6.6", ("scikit-learn<1.9",))
INTERPRET = Library("InterpretML", "interpret-core", "0.7.8")
GOOGLE = Library("dp-accounting", "dp-accounting", "0.6.0")
OPACUS = Library("Opacus", "opacus", "1.6.0", ("scipy",), alone=True)


@attrs.frozen
class Row:
    """A function: which part wraps it, what it claims, and a fault, if one is public."""

    library: Library
    part: str
    function: str
    claim: str
    attack: str = ""
    fault: str = ""


ROWS = (
    Row(
        OPENDP,
        "OpenDPLinearRegression",
        "`sklearn.linear_model.LinearRegression`",
        "`measurement.map(1)`, symmetric distance; asks to enable `contrib`, `honest-but-curious` and "
        "`idealized-numerics`",
        attack="theil_sen",
        fault="`_make_private_theil_sen/__init__.py:16` drops the last of an odd number of rows, so that one "
        "in front replaces it: distance 2, where line 58 has `stability_map=lambda b_in: b_in * runs` "
        "([opendp#2950](https://github.com/opendp/opendp/issues/2950))",
    ),
    Row(
        DIFFPRIVLIB,
        "DiffprivlibLinearRegression",
        "`models.LinearRegression`",
        '"Differential privacy is guaranteed with respect to the training sample"',
        attack="linear_regression",
        fault="`linear_regression.py:144`: `np.abs([bounds_X[0][i], bounds_X[0][i]])`, the lower bound twice "
        "([#105](https://github.com/IBM/differential-privacy-library/issues/105), "
        "[#104](https://github.com/IBM/differential-privacy-library/issues/104); mended by "
        "[#110](https://github.com/IBM/differential-privacy-library/pull/110), not merged)",
    ),
    Row(
        INTERPRET,
        "DPEBM",
        "`privacy.DPExplainableBoostingRegressor`",
        '"epsilon: Total privacy budget to be spent"',
        attack="dp_ebm",
        fault="`_ebm.py:965`: `max_target - min_target`, for residuals that begin at the target itself "
        "([interpret#523](https://github.com/interpretml/interpret/issues/523), closed)",
    ),
    Row(
        OPACUS,
        "OpacusGdp",
        "`GaussianAccountant` (GDP)",
        'none: warns "GDP accounting is experimental and can underestimate privacy expenditure"',
        fault="it can, as it says ([opacus#384](https://github.com/meta-pytorch/opacus/issues/384))",
    ),
    Row(OPENDP, "OpenDPMean", "clamp, sum, `then_laplace`", "`map(1)`, symmetric distance"),
    Row(OPENDP, "OpenDPMedian", "`then_private_quantile`", "`map(1)`, symmetric distance"),
    Row(OPENDP, "OpenDPTopK", "`then_noisy_top_k`", "`map`, distance of scores"),
    Row(
        DIFFPRIVLIB,
        "DiffprivlibMean",
        "`tools.mean`, records replaced",
        '"Compute the differentially private arithmetic mean"',
    ),
    Row(GOOGLE, "DpAccountingRdp", "`RdpAccountant`", "upper bounds"),
)


def environment(library: Library, folder: Path) -> Path:
    """Return the Python of a fresh environment with a library, dpkit and its kit."""
    place = folder / library.package
    uv("venv", "--python", "3.11", str(place))
    python = place / "bin/python"

    def install(*what: str) -> None:
        uv("pip", "install", "--python", str(python), *what)

    pinned = f"{library.package}=={library.version}"
    ours = [str(ROOT), str(ROOT / "plugins/commands/check"), str(ROOT / "plugins/accountants/basic")]
    install(*ours, *library.beside, *([] if library.alone else [pinned]))
    if library.alone:
        install("--no-deps", pinned)
    return python


def uv(*words: str) -> None:
    """Run uv, or end with what it says."""
    subprocess.run(["uv", words[0], "-q", *words[1:]], check=True)


def ask(python: Path, *words: str) -> dict[str, Any] | None:
    """Return what a script prints as JSON, and say that it was asked."""
    sys.stderr.write(f"{' '.join(words)}\n")
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [str(python), str(HERE / "elsewhere" / words[0]), *words[1:]]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, **one})
    lines = ran.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else None


def measured(row: Row, python: Path, *, quick: bool) -> dict[str, Any]:
    """Return a line of the table of numbers."""
    found: dict[str, Any] = dict.fromkeys(COLUMNS, "")
    found["function"] = f"{row.library.name}: {row.function.replace('`', '')}"
    if row.attack:
        proof = ask(python, "attacks.py", row.attack, *(["--quick"] if quick else []))
        assert proof is not None
        found |= {key: proof[key] for key in ("claimed", "proved", "runs")} | {"fault": "proved"}
        found["counts"] = "{} and {}".format(*proof["counts"])
    if not quick:
        said = ask(python, "parts.py", row.part)
        assert said is not None
        found |= {"kit": said["verdict"], "kit tells": said["told"].partition(", [")[0]}
    return found


def page_table(found: Sequence[dict[str, Any]]) -> str:
    """Return the table of the page.

    Raises
    ------
    ValueError
        If the kit finds a fault that has no thread: this is nothing to publish.
    """
    lines = ["| function | claim | proved | fault and thread |", "|---|---|---|---|"]
    for row, numbers in zip(ROWS, found, strict=True):
        refuted = numbers["kit"] == "not private"
        if refuted and not row.fault:
            raise ValueError(f"{row.part} is not private, and no public thread is known: tell its authors")
        told = []
        if row.attack:
            told.append(
                f"epsilon ≥ **{numbers['proved']}** where {float(numbers['claimed']):g} is claimed: "
                f"{numbers['counts']} of {numbers['runs']}"
            )
        if numbers["kit"]:
            told.append(f"kit: {'rejected' if refuted else 'passed'}, {numbers['kit tells']}")
        proved = "; ".join(told)
        fault = row.fault or "no fault found"
        lines.append(f"| {row.library.words}, {row.function} | {row.claim} | {proved} | {fault} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Ask of all rows, and write what was found."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    reader.add_argument("--quick", action="store_true", help="short attacks alone; nothing is written")
    reader.add_argument("--only", nargs="+", default=[row.part for row in ROWS], metavar="PART")
    told = reader.parse_args()
    chosen = [row for row in ROWS if row.part in told.only and (row.attack or not told.quick)]
    known = {}
    if TABLE.exists():
        with TABLE.open(encoding="utf-8", newline="") as file:
            known = {line["function"]: line for line in csv.DictReader(file)}
    with tempfile.TemporaryDirectory() as name:
        pythons: dict[Library, Path] = {}
        for row in chosen:
            if row.library not in pythons:
                pythons[row.library] = environment(row.library, Path(name))
            line = measured(row, pythons[row.library], quick=told.quick)
            known[line["function"]] = line
            print(json.dumps(line, ensure_ascii=False), flush=True)
    if told.quick:
        return
    names = [f"{row.library.name}: {row.function.replace('`', '')}" for row in ROWS]
    found = [known[name] for name in names]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + page_table(found) + END + rest.partition(END)[2], encoding="utf-8")
    runpy.run_path(str(ROOT / "docs/results_pictures.py"), run_name="__main__")


if __name__ == "__main__":
    main()
