"""Files and command lines at random: each ends with a documented exit code, and never in a traceback.

Inputs are what dpkit writes and reads itself, changed: a field taken out, doubled or replaced, bytes flipped,
files cut, options combined. CI tries the same 60 cases of each kind. By hand, as many as one likes:

    DPKIT_FUZZ=20000 uv run pytest tests/fuzz -m slow -n0 -q

What has failed once is kept in ``corpus/`` and tried by everybody. Each file there is a JSON object with
``arguments``, and ``files``: name -> content, text or base64 of bytes.
"""

import base64
import copy
import io
import itertools
import json
import os
import tomllib
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tomli_w
from dpkit_cli.app import app
from typer.testing import CliRunner

from dpkit_core import Release

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.json"))
CASES = int(os.environ.get("DPKIT_FUZZ", "60"))

# Done, no, refused, spent in vain, not private. Neither 1, a fault of dpkit, nor anything else.
DOCUMENTED = {0, 2, 3, 4, 5}

PARTS = ("--scorer", "kendall", "--selector", "peel", "-k", "2", "--regressor", "adassp")
SCHEMA = {
    "neighboring": "add-remove",
    "target": "y",
    "columns": {
        "a": {"kind": "numeric", "lower": 0.0, "upper": 1.0},
        "b": {"kind": "numeric", "lower": 0.0, "upper": 1.0},
        "c": {"kind": "categorical", "categories": ["u", "v"]},
        "y": {"kind": "numeric", "lower": 0.0, "upper": 1.0},
    },
}
CSV = "a,b,c,y\n" + "".join(f"0.{i},0.{9 - i},{'uv'[i % 2]},0.{i}\n" for i in range(10)) * 6
RECIPE = {
    "summary": "fuzzed",
    "select_share": 0.1,
    "parts": {"scorer": "kendall", "selector": "peel", "regressor": "mean"},
    "options": {"scorer": {"penalty": "mean"}},
}
SUITE = {
    "summary": "fuzzed",
    "seed": 1,
    "epsilon": [1.0],
    "k": [1],
    "splits": 1,
    "tables": {"t": {"file": "t.csv", "target": "y", "columns": SCHEMA["columns"]}},
    "compositions": {"m": {"scorer": "kendall", "selector": "peel", "regressor": "mean"}},
    "published": [{"source": "nobody", "values": {"m": {"t": 0.5}}}],
}


def dpkit(*arguments):
    """Run a command line in this process; return its exit code and what it said."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def try_(folder, arguments, files):
    """Run a case in an empty folder, and hold it to what is documented."""
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        (folder / name).write_bytes(data)
    before = {path.name for path in folder.iterdir()}
    code, output, told = dpkit(*arguments)
    assert code in DOCUMENTED, (code, told)
    assert "--debug" in arguments or "Traceback" not in output + told
    assert "internal error" not in told
    if "--help" in arguments:
        return
    formats = [value for option, value in itertools.pairwise(arguments) if option == "--format"]
    if formats[-1:] == ["json"]:  # of several, the last one counts
        json.loads(output)
    new = {path.name for path in folder.iterdir()} - before
    assert not any(name.endswith(".part") for name in new)
    if code in {0, 3} and arguments[0] in {"compose", "run"} and "--dry-run" not in arguments:
        # Another file where its name was fuzzed, or the first free one where --output itself was.
        assert [name for name in new if name not in {"saved.toml"}], (arguments, told)
    if "out.json" in new:
        assert code in {0, 3}
        Release.read(folder / "out.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture
def written(folder, monkeypatch):
    """Return what dpkit writes of a plain run: a release and its plan, as plain data."""
    monkeypatch.chdir(folder)
    for path in folder.iterdir():
        path.unlink()
    (folder / "t.csv").write_text(CSV)
    (folder / "s.toml").write_text(tomli_w.dumps(SCHEMA))
    code, _, told = dpkit(
        "compose", "t.csv", "--schema", "s.toml", *PARTS, "--output", "out.json", "--save", "p.toml"
    )
    assert code == 0, told
    release = json.loads((folder / "out.json").read_text())
    return release, tomllib.loads((folder / "p.toml").read_text())


# Values that have been trouble to somebody. None is not for TOML.
ODD = [
    "", "x", "y", "a=b", "\x00", "\x1b[2J", "é", "rdp", "linear", "infinity", "nan", 0, 1, -1, 2, 10**18,
    10**30, 10**400, 0.0, -0.0, 0.5, 1.0, 1e-300, 1e300, 5e-324, float("inf"), float("nan"), True, False,
    None, [], {}, [[]], [1], ["x"], {"x": 1}, {"kind": "linear"},
    {"type": "Laplace", "noise_multiplier": 1.0},
]  # fmt: skip


@st.composite
def odd(draw):
    return copy.deepcopy(draw(st.sampled_from(ODD)))  # since changes follow, in place


def places(document, path=()):
    """Yield where a document has values."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list) and len(path) < 100:
            yield from places(value, (*path, key))


@st.composite
def changed(draw, document):
    """Return a document with one to three changes."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        known = list(places(document))
        if not known:
            return document
        *way, key = draw(st.sampled_from(known))
        inside = document
        for step in way:
            inside = inside[step]
        match draw(st.sampled_from(["replace", "replace", "take out", "add", "nest"])):
            case "replace":
                inside[key] = draw(odd())
            case "take out":
                del inside[key]
            case "add":
                if isinstance(inside, dict):
                    inside[draw(st.sampled_from(["x", "epsilon", "event", "kind"]))] = draw(odd())
                else:
                    inside.append(copy.deepcopy(inside[key]))
            case "nest":
                for _ in range(draw(st.sampled_from([1, 3, 70]))):
                    inside[key] = [inside[key]]
    return document


def as_toml(document):
    try:
        return tomli_w.dumps(document)
    except (TypeError, ValueError):
        hypothesis.reject()


@st.composite
def damaged(draw, content):
    """Return bytes with some flipped, cut out or doubled."""
    content = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(content) - 1, 0)))
        match draw(st.sampled_from(["flip", "cut", "double", "end"])):
            case "flip":
                content[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "cut":
                del content[at : at + draw(st.integers(1, 40))]
            case "double":
                content[at:at] = content[at : at + draw(st.integers(1, 40))]
            case "end":
                del content[at:]
    return bytes(content)


def fuzz(strategy, folder, share=1.0):
    """Try cases of a strategy, which gives arguments and files."""

    @hypothesis.settings(
        max_examples=max(1, int(CASES * share)),
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        derandomize="DPKIT_FUZZ" not in os.environ,
    )
    @hypothesis.given(strategy)
    def tried(case):
        arguments, files = case
        hypothesis.note(json.dumps({"arguments": [*map(str, arguments)], "files": as_corpus(files)}))
        try_(folder, arguments, files)

    tried()


def as_corpus(files):
    return {
        name: {"base64": base64.b64encode(content).decode()} if isinstance(content, bytes) else content
        for name, content in files.items()
    }


@pytest.mark.first(6)
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_failed_once_is_told_in_a_sentence(folder, written, path):
    case = json.loads(path.read_text(encoding="utf-8"))
    files = {
        name: base64.b64decode(content["base64"]) if isinstance(content, dict) else content
        for name, content in case["files"].items()
    }
    try_(folder, case["arguments"], files)


@pytest.mark.slow
def test_releases(folder, written):
    release, _ = written
    text = json.dumps(release)

    @st.composite
    def cases(draw):
        content = draw(st.one_of(changed(release).map(json.dumps), damaged(text.encode())))
        command = draw(st.sampled_from([("verify",), ("verify", "--format", "json"), ("predict",)]))
        files = {"r.json": content, "t.csv": CSV}
        return (*command, "r.json", *["t.csv"] * (command == ("predict",))), files

    fuzz(cases(), folder)


@pytest.mark.slow
def test_plans_schemas_recipes_and_suites(folder, written):
    _, plan = written
    run = ("run", "p.toml", "t.csv", "--output", "out.json")
    compose = ("compose", "t.csv", "--output", "out.json")
    kinds = {
        "p.toml": (plan, run),
        "s.toml": (SCHEMA, (*compose, "--schema", "s.toml", *PARTS)),
        "r.toml": (RECIPE, (*compose, "--schema", "s.toml", "--recipe", "r.toml")),
        "b.toml": (SUITE, ("bench", "b.toml", "--dry-run", "--format", "json")),
    }

    @st.composite
    def cases(draw):
        name = draw(st.sampled_from(list(kinds)))
        document, arguments = kinds[name]
        if draw(st.booleans()):
            content = as_toml(draw(changed(document)))
        else:
            content = draw(damaged(as_toml(document).encode()))
        return arguments, {"s.toml": as_toml(SCHEMA), "t.csv": CSV, name: content}

    fuzz(cases(), folder)


@pytest.mark.slow
def test_tables(folder, written):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    numbers = np.linspace(0.0, 1.0, 60)
    sink = io.BytesIO()
    parquet.write_table(arrow.table({"a": numbers, "b": numbers, "c": ["u", "v"] * 30, "y": numbers}), sink)
    archive = io.BytesIO()
    np.savez(archive, X=np.column_stack([numbers, numbers]), y=numbers, names=np.array(["a", "b"]))
    whole = {"t.csv": CSV.encode(), "t.parquet": sink.getvalue(), "t.npz": archive.getvalue()}

    @st.composite
    def cases(draw):
        name = draw(st.sampled_from(list(whole)))
        files = {"s.toml": as_toml(SCHEMA), name: draw(damaged(whole[name]))}
        command = draw(
            st.sampled_from(
                [
                    ("compose", name, "--schema", "s.toml", *PARTS, "--output", "out.json"),
                    ("compose", name, "--target", "y", "--scorer", "kendall", "--selector", "peel", "-k", "1",
                     "--output", "out.json"),
                    ("schema", name),
                ]
            )
        )  # fmt: skip
        return command, files

    fuzz(cases(), folder)


@pytest.mark.slow
def test_command_lines(folder, written):
    release, plan = written
    files = {
        "t.csv": CSV, "s.toml": as_toml(SCHEMA), "r.json": json.dumps(release), "p.toml": as_toml(plan),
        "r.toml": as_toml(RECIPE), "b.toml": as_toml(SUITE),
    }  # fmt: skip
    numbers = ["0", "1", "-1", "0.1", "1e-300", "1e-8", "1e308", "5e-324", "inf", "nan", "x", "", "20", "0.5"]
    names = [*files, "absent", "", ".", "/", "/dev/null", "-", "a,b", "a", "y", "é", "\udcff", "x" * 300]
    parts = [
        "kendall", "correlation", "lasso_votes", "peel", "joint", "exact", "gaussian_threshold",
        "permute_and_flip", "canonical_lipschitz", "oneshot_laplace", "adassp", "boosted_adassp", "tukey",
        "mean", "ols", "winsorized_least_squares", "rdp", "basic", "nobody", "dpkit-scorer-kendall:kendall",
    ]  # fmt: skip
    settings = ["scorer.penalty=mean", "selector.k=2", "regressor.x=[", "a.b=c", "=", "accountant.orders=[2]"]
    options = {
        "--epsilon": numbers, "--delta": numbers, "-k": numbers, "--select-share": numbers, "--seed": numbers,
        "--scorer": parts, "--selector": parts, "--regressor": parts, "--accountant": parts,
        "--schema": names, "--target": names, "--features": names, "--recipe": names, "--set": settings,
        "--save": ["saved.toml", "", "."], "--neighboring": ["add-remove", "replace-one", "both"],
        "--format": ["json", "table", "x"], "--force": None, "--dry-run": None, "--debug": None,
        "--allow-non-private": None, "--help": None,
    }  # fmt: skip
    usual = {
        "compose": ("t.csv", "--schema", "s.toml", "--output", "out.json"),
        "run": ("p.toml", "t.csv", "--output", "out.json"),
        "verify": ("r.json",),
        "predict": ("r.json", "t.csv"),
        "schema": ("t.csv",),
        "show": ("scorer", "kendall"),
        "list": (),
        "compoze": (),
    }

    @st.composite
    def cases(draw):
        command = draw(st.sampled_from([*["compose"] * 8, *usual]))
        arguments = list(usual[command])
        for _ in range(draw(st.integers(0, 6))):
            option = draw(st.sampled_from(list(options)))
            arguments.append(option)
            if options[option] is not None:
                arguments.append(draw(st.sampled_from(options[option])))
        if arguments and draw(st.integers(0, 4)) == 0:
            arguments[draw(st.integers(0, len(arguments) - 1))] = draw(st.sampled_from(names))
        return (command, *arguments), files

    fuzz(cases(), folder, 0.4)  # each is a run of a command
