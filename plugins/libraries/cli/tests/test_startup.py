"""What the installed command imports and prints, in processes of its own."""

import json
import os
import subprocess
import sys

import pytest

PROBE = """
import sys
from dpkit_cli import main
sys.argv[0] = "dpkit"
try:
    main()
finally:
    loaded = {name.partition(".")[0] for name in sys.modules}
    print(sorted(loaded), file=sys.stderr)
"""
HEAVY = {"pydantic", "numpy", "scipy", "pyarrow", "randomgen"}


def run(*arguments, code=PROBE, **environment):
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (("list",), {"rich", "pluggy"}),
        (("list", "scorers", "--format", "json"), {"rich", "pluggy"}),
        (("--help",), {"pluggy"}),
        (("compose", "--help"), {"pluggy"}),
        (("--version",), {"rich", "pluggy"}),
    ],
)
def test_what_only_tells_about_parts_imports_none(arguments, unwanted):
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    loaded = set(eval(done.stderr.splitlines()[-1]))
    assert "typer" in loaded
    assert not loaded & (HEAVY | unwanted)
    assert not {name for name in loaded if name.startswith("dpkit_")} - {"dpkit_core", "dpkit_cli"}


def test_completion_of_a_name_imports_no_part():
    done = run(_DPKIT_COMPLETE="complete_bash", COMP_WORDS="dpkit compose --accountant ", COMP_CWORD="3")
    assert {"basic", "rdp"} <= set(done.stdout.split())
    assert not set(eval(done.stderr.splitlines()[-1])) & HEAVY


@pytest.mark.slow
def test_the_main_job_in_a_process_prints_json_alone(tmp_path):
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 6))
    y = 3 * X[:, 1] - 2 * X[:, 4] + 0.1 * rng.normal(size=20_000)
    np.savez(tmp_path / "table.npz", X=X, y=y, names=list("abcdef"))
    done = run(
        "compose", str(tmp_path / "table.npz"), "--target", "y", "--scorer", "kendall", "--selector", "peel",
        "-k", "2", "--regressor", "tukey", "--select-share", "0.3", "--format", "json",
        "--output", str(tmp_path / "release.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    released = json.loads(done.stdout)
    # The scores that matter lead by thousands under noise of scale below 100: a false alarm has probability
    # below 1e-9. The seed is that of the table, the noise is the system's.
    assert set(released["selected"]) == {"b", "e"}
    assert released["model"]["coefficients"]["b"] == pytest.approx(3, abs=0.3)
    assert released["certificate"]["private"] is True
    verified = run("verify", str(tmp_path / "release.json"))
    assert verified.returncode == 0, verified.stdout


def unread(*arguments):
    """Run a command whose standard output nobody reads any more, as behind ``| head -1``."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.run(
            [sys.executable, "-c", "from dpkit_cli import main; main()", *map(str, arguments)],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize("format", ["table", pytest.param("json", marks=pytest.mark.slow)])
def test_a_release_that_nobody_watches_is_made_and_written(tmp_path, format):
    import numpy as np

    np.savez(tmp_path / "table.npz", X=np.eye(9)[:, :3], y=np.arange(9.0), names=list("abc"))
    output = tmp_path / "release.json"
    parts = ("--scorer", "kendall", "--selector", "peel", "-k", 1)
    arguments = ("compose", tmp_path / "table.npz", "--target", "y", *parts, "--format", format)
    done = unread(*arguments, "--output", output)
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == f"dpkit: wrote {output}"
    assert "Traceback" not in done.stderr
    assert json.loads(output.read_text())["selected"]


@pytest.mark.parametrize("command", [("list",), ("list", "--format", "json")])
def test_a_list_that_nobody_reads_ends_quietly(command):
    done = unread(*command)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.slow
def test_a_run_on_arrays_does_not_import_pyarrow():
    code = """
import sys
import numpy as np
from dpkit_core import Budget, Dataset, Schema, compose, verify

schema = Schema.numeric(["x1", "x2"], "y", bounds={"x1": (0, 1), "x2": (0, 1), "y": (0, 2)})
X = np.random.default_rng(0).uniform(size=(1000, 2))
plan = compose(regressor="adassp").plan(schema, Budget(1.0, 1e-6))
release = plan.run(Dataset.from_arrays(X, X.sum(axis=1), schema))
assert verify(release).confirmed
release.predict(X)
print("pyarrow" in sys.modules)
"""
    done = run(code=code)
    assert done.stdout == "False\n", done.stderr
