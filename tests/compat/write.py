"""Writes a folder of this directory: what the installed dpkit releases, plans, offers and sums up.

    python tests/compat/write.py tests/compat/v0_2_0

The folder holds commands.toml and the files that it names (README.md says how to begin one). A folder that
has been written is never written again: it says what its version did.

Everything here goes through the command line, as its entry point names it, and through names of
``dpkit_core`` itself, so that nothing depends on where code lies.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

DONE, REFUSED = 0, 3
RELATIONS = ("add-remove", "replace-one")
COMMANDS = (
    "list", "show", "schema", "compose", "run", "predict", "verify", "check", "audit", "new", "bench", "plot",
    "doctor",
)  # fmt: skip
ROLES = ("scorer", "selector", "regressor", "accountant")

# From here on, noise of candidates is drawn lazily (decision 0011).
MANY = 2**16

Document = Any
"""Plain data, as JSON holds them."""


class Done(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    output: str
    errors: str

    def document(self) -> Document:
        """Return the one object that was printed."""
        assert self.code in (DONE, REFUSED), self.errors
        return json.loads(self.output)


def dpkit(folder: Path, *words: str | Path) -> Done:
    """Run a command line in this process, with ``folder`` as the working directory."""
    (command,) = entry_points(group="console_scripts", name="dpkit")
    main = command.load()
    output, errors = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
        mock.patch.object(sys, "argv", ["dpkit", *map(str, words)]),
        mock.patch.dict("os.environ", COLUMNS="300", NO_COLOR="1", TERM="dumb"),
    ):
        try:
            main()
            code = DONE
        except SystemExit as end:
            code = int(end.code or DONE)
    return Done(code, output.getvalue(), errors.getvalue())


class Case(NamedTuple):
    """A composition that is run with a seed under one relation."""

    name: str
    words: tuple[str, ...]
    data: str
    seed: str

    def compose(self, folder: Path, *words: str | Path) -> Done:
        """Run ``dpkit compose`` with the words of this case, and more."""
        return dpkit(folder, "compose", *self.words, *words)


def commands(folder: Path) -> dict[str, Any]:
    """Return what the folder's commands.toml says."""
    return tomllib.loads((folder / "commands.toml").read_text(encoding="utf-8"))


def cases(folder: Path) -> Iterator[Case]:
    """Yield every case of a folder."""
    facts = commands(folder)
    for group in facts["group"]:
        for name, words in group["cases"].items():
            for relation in group.get("relations", RELATIONS):
                given = (*shlex.split(group["words"]), *shlex.split(words), "--neighboring", relation)
                if "--accountant" not in given:
                    given = (*given, "--accountant", facts["accountant"])
                yield Case(f"{name}.{relation}", given, given[0], str(facts["seed"]))


def verification(folder: Path, release: Path) -> Document:
    """Return what ``dpkit verify`` says of a release."""
    done = dpkit(folder, "verify", release, "--format", "json")
    return {"exit_code": done.code, **json.loads(done.output)}


def predictions(folder: Path, release: Path) -> list[float] | None:
    """Return the predictions for new.csv, or None of a release without a model."""
    if json.loads(release.read_text(encoding="utf-8"))["model"] is None:
        return None
    done = dpkit(folder, "predict", release, "new.csv")
    assert done.code == DONE, done.errors
    header, *numbers = done.output.split()
    assert header == "prediction"
    return [float(number) for number in numbers]


def summary(folder: Path, results: Path) -> Document:
    """Return the summary of suite.toml, whose trials are run unless ``results`` has them."""
    words = ("--results", results, "--resume", "--jobs", "1", "--format", "json")
    document = dpkit(folder, "bench", "suite.toml", *words).document()
    del document["results"], document["rows_of_other_code"]
    for cell in document["cells"]:
        del cell["median_seconds"]
    return document


def suite(folder: Path, name: str) -> Document:
    """Return a suite as dpkit reads it; nothing is run."""
    return dpkit(folder, "bench", name, "--dry-run", "--format", "json").document()["suite"]


def schema(folder: Path) -> Document:
    """Return what the start of a schema that ``dpkit schema`` writes holds."""
    return tomllib.loads(dpkit(folder, "schema", "table.csv", "--target", "y").output)


def offered(folder: Path) -> Document:
    """Return the recipes, suites and generators that come with dpkit and its parts."""
    names = commands(folder)["offered"]
    listed = dpkit(folder, "list", "generators", "--format", "json").document()
    return {
        "recipes": {
            name: dpkit(folder, "show", "recipe", name, "--format", "json").document()
            for name in names["recipes"]
        },
        "suites": {name: suite(folder, name) for name in names["suites"]},
        "generators": [facts["name"] for facts in listed if facts["name"] in names["generators"]],
    }


def options_of_commands(folder: Path) -> dict[str, list[str]]:
    """Return command -> the options that its help names."""
    return {
        command: sorted(set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", _help(folder, command))))
        for command in COMMANDS
    }


def _help(folder: Path, command: str) -> str:
    done = dpkit(folder, command, "--help")
    assert done.code == DONE, done.errors
    # Of each line of the box, its first column: other options are named in sentences.
    return "\n".join(line[:40] for line in done.output.splitlines() if line.startswith("│"))


def options_of_parts(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Return role -> part -> option -> default."""
    parts = dpkit(folder, "list", "--format", "json").document()
    found: dict[str, dict[str, dict[str, Any]]] = {role: {} for role in ROLES}
    for part in parts:
        role = part["kind"].removesuffix("s")
        facts = dpkit(folder, "show", role, part["qualified"], "--format", "json").document()
        found[role][part["name"]] = {option["name"]: option["default"] for option in facts["options"]}
    return found


def draws(seed: int) -> Document:
    """Return the first numbers of each kind from each stream of a seeded run."""
    import numpy as np

    from dpkit_core import Randomness, Sampler
    from dpkit_core.noise.selection import select

    randomness = Randomness.from_seed(seed)
    first: dict[str, Any] = {}
    for stage in ("scoring", "selection", "regression"):
        for label in (stage, f"{stage}/public coins"):
            first[label] = randomness.stream(label).generator.integers(2**62, size=3).tolist()
    sampler = Sampler(randomness.stream("compat"))
    values = np.arange(MANY) % 1000 / 100.0
    return {
        "streams": first,
        "bernoulli_exp": sampler.bernoulli_exp([1, 2, 3, 4], 3).tolist(),
        "discrete_laplace": sampler.discrete_laplace(1000, 8).tolist(),
        "discrete_gaussian": sampler.discrete_gaussian(1000, 8).tolist(),
        "gumbel": sampler.gumbel(4).tolist(),
        "exponential": sampler.exponential(4).tolist(),
        "laplace_on_grid": sampler.laplace_on_grid(
            np.array([0.5, -3.0]), sensitivity=1.0, noise_multiplier=2.0
        ).tolist(),
        "gaussian_on_grid": sampler.gaussian_on_grid(
            np.array([0.5, -3.0]), sensitivity=1.0, noise_multiplier=2.0
        ).tolist(),
        "select": {
            f"{noise}, {work}": select(
                sampler, values, scale=0.5, k=3, noise=noise, constant_work=work == "constant work"
            ).tolist()
            for noise in ("gumbel", "exponential")
            for work in ("lazy", "constant work")
        },
    }


def many(seed: int) -> Document:
    """Return what selectors that then draw lazily select of 2^16 features."""
    import numpy as np

    from dpkit_core import Budget, Dataset, Randomness, Schema, compose

    numbers = lcg(MANY * 8)
    X = np.array([number % 201 - 100 for number in numbers], dtype=float).reshape(8, MANY)
    names = [f"x{j}" for j in range(MANY)]
    bounds = {**dict.fromkeys(names, (-100.0, 100.0)), "y": (-300.0, 300.0)}
    schema = Schema.numeric(names, "y", bounds)
    data = Dataset.from_arrays(X, X[:, :3].sum(axis=1), schema)
    found = {}
    for selector in ("peel", "permute_and_flip", "canonical_lipschitz"):
        plan = compose(scorer="correlation", selector=selector, accountant="rdp").plan(
            schema, Budget(20.0, 1e-6), k=3
        )
        release = plan.run(data, randomness=Randomness.from_seed(seed))
        found[selector] = {"selected": list(release.selected), "epsilon": release.certificate.epsilon}
    return found


def lcg(count: int) -> Iterator[int]:
    """Yield whole numbers of a linear congruential generator, which need no library to be repeated."""
    state = 10
    for _ in range(count):
        state = (6364136223846793005 * state + 1442695040888963407) % 2**64
        yield state >> 33


def table(rows: int) -> str:
    """Return a table of whole numbers as CSV: y depends on a, b, c and color."""
    numbers = lcg(rows * 8)
    lines = ["a,b,c,d,color,y"]
    for _ in range(rows):
        a, b, c, d = (next(numbers) % 201 - 100 for _ in range(4))
        color = ("red", "green", "dark blue", "grey")[next(numbers) % 4]
        noise = sum(next(numbers) % 21 - 10 for _ in range(3))
        y = 3 * a - 2 * b + c // 2 + 20 * (color == "red") + noise
        lines.append(f"{a},{b},{c},{d},{color},{max(-500, min(500, y))}")
    return "\n".join(lines) + "\n"


def write(folder: Path) -> None:
    """Write everything but the inputs into a folder that has only these."""
    for name in ("seeded", "released", "plans"):
        (folder / name).mkdir()
    facts = commands(folder)
    for case in cases(folder):
        output = folder / "seeded" / f"{case.name}.json"
        saved = ("--save", f"plans/{case.name}.toml") if case.name in facts["planned"] else ()
        _report(case.name, case.compose(folder, "--seed", case.seed, "--output", output, *saved))
    for name, words in facts["released"].items():
        output = folder / "released" / f"{name}.json"
        _report(name, dpkit(folder, "compose", *shlex.split(words), "--output", output))
    releases = [path for kind in ("seeded", "released") for path in sorted((folder / kind).glob("*.json"))]
    written = {
        "verified": {f"{path.parent.name}/{path.stem}": verification(folder, path) for path in releases},
        "predicted": {f"{path.parent.name}/{path.stem}": predictions(folder, path) for path in releases},
        "summary": summary(folder, folder / "results"),
        "suites": {name: suite(folder, f"{name}.toml") for name in ("suite", "wildcard")},
        "offered": offered(folder),
        "options_of_commands": options_of_commands(folder),
        "options_of_parts": options_of_parts(folder),
        "draws": draws(facts["seed"]),
        "many": many(facts["seed"]),
        "schema": schema(folder),
    }
    written["anew"] = written["summary"]
    (folder / "results" / "lock").unlink(missing_ok=True)
    for name, document in written.items():
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _report(name: str, done: Done) -> None:
    print(name, {DONE: "", REFUSED: "refused"}.get(done.code, done.errors))


if __name__ == "__main__":
    write(Path(sys.argv[1]).resolve())
