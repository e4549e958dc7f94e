"""What a command line leaves behind, however it ends: 0 means that the release is whole in its file.

The parts wait while they fit until a test lets them go on, so that it can do something in between.
"""

import errno
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpkit_core import Release
from dpkit_core.files import writing

pytestmark = pytest.mark.usefixtures("parts")

REGRESSION = ("diamonds.csv", "--schema", "facts.toml", "--regressor", "average", "--accountant", "basic")
DPKIT = (sys.executable, "-c", "from dpkit_cli import main; main()")

WAITING = '''
import os, time
import attrs
import tiny_parts

@attrs.frozen
class Waiting(tiny_parts.Mean):
    """A mean that waits for a file named go."""

    def fit(self, data, plan, meter, /):
        open("fitting", "w").close()
        while not os.path.exists("go"):
            time.sleep(0.01)
        return super().fit(data, plan, meter)
'''


@pytest.fixture
def waiting(site, parts):
    """Add the regressor waiting."""
    site.install(
        "dpkit-waiting",
        entry_points={"dpkit.regressors": {"waiting": "waiting_part:Waiting"}},
        modules={"waiting_part": WAITING},
    )


@pytest.fixture
def start(site, folder):
    """Start a command line in a process of its own; ``before`` is what the shell does first."""
    started = []

    def start(*arguments, before="", **streams):
        command = (*DPKIT, *map(str, arguments))
        if before:
            command = ("bash", "-c", f'{before} exec "$@"', "bash", *command)
        environment = {**os.environ, "PYTHONPATH": str(site.folder)}
        if "ulimit" in before:  # what is reached cannot be noted either
            environment.pop("COVERAGE_PROCESS_CONFIG", None)
        piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        process = subprocess.Popen(command, cwd=folder, env=environment, text=True, **piped)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def compose(*more):
    return ("compose", *REGRESSION, *more)


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def files(folder):
    return {path.name for path in folder.iterdir()}


# Each call to the system


class Failing:
    """The module ``os``, of which one call of those that writing makes fails."""

    def __init__(self, fails):
        self.fails, self.made = fails, 0

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in writing.CALLS:
            return real

        def call(*arguments):
            self.made += 1
            if self.made - 1 == self.fails:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        return call


@pytest.mark.slow
@pytest.mark.parametrize("force", [False, True])
def test_whichever_call_fails_the_exit_code_tells_and_no_release_is_lost(dpkit, folder, monkeypatch, force):
    path = folder / "release.json"
    seen, number = set(), 0
    while 0 not in seen:  # until a run makes no more calls than that
        for left in folder.glob("release.json*"):
            left.unlink()
        if force:
            path.write_text("an older one, paid for")
        monkeypatch.setattr(writing, "os", Failing(number))
        result = dpkit(*compose("--format", "json"), *["--force"] * force)
        number += 1
        seen.add(result.exit_code)
        assert result.exit_code in {0, 2, 4}, result.output
        if result.exit_code == 2:
            assert json.loads(result.stdout)["error"]["spent"] is False
            assert path.exists() == force
        else:
            assert Release.from_document(json.loads(result.stdout)).model is not None
        if not path.exists() or path.read_text() != "an older one, paid for":
            assert (result.exit_code, path.exists()) == (2, False) or not path.exists() or Release.read(path)
        if result.exit_code == 0:
            assert Release.read(path).model is not None
        elif force:
            assert path.read_text() == "an older one, paid for" or Release.read(path)
        if result.exit_code == 4 and "is complete in" in result.stderr:
            name = result.stderr.split("is complete in ")[1].strip()
            assert Release.read(Path(name)).model is not None
    assert seen == {0, 2, 4}


# Others who write


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("force", [pytest.param((), marks=pytest.mark.slow), ("--force",)])
@pytest.mark.slow
def test_of_two_writers_the_second_one_spends_nothing(start, folder, force):
    if force:
        (folder / "release.json").write_text("older")
    first = start(*compose("--regressor", "waiting", *force))
    wait_for(folder / "fitting", first)
    second = start(*compose(*force))
    _, told = second.communicate()
    assert second.returncode == 2, told
    assert "another program is writing release.json" in told
    if force:
        assert (folder / "release.json").read_text() == "older"
    (folder / "go").touch()
    _, told = first.communicate()
    assert first.returncode == 0, told
    assert Release.read(folder / "release.json").model is not None
    assert "release.json.part" not in files(folder)


@pytest.mark.slow
@pytest.mark.usefixtures("waiting")
def test_what_somebody_else_writes_meanwhile_is_kept_and_so_is_the_release(start, folder):
    process = start(*compose("--regressor", "waiting"))
    wait_for(folder / "fitting", process)
    (folder / "release.json").write_text("of somebody else")
    (folder / "go").touch()
    _, told = process.communicate()
    assert process.returncode == 4, told
    assert (folder / "release.json").read_text() == "of somebody else"
    assert Release.read(folder / "release.json.part").model is not None
    assert "It is complete in" in told


# Signals


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGHUP))],
)
def test_a_run_that_is_stopped_counts_as_spent_and_leaves_nothing_half(start, folder, number):
    (folder / "release.json").write_text("older, paid for")
    # Whoever started the tests may ignore it, as nohup does, and what they start would, too.
    heard = functools.partial(signal.signal, number, signal.SIG_DFL)
    process = start(*compose("--regressor", "waiting", "--force"), preexec_fn=heard)
    wait_for(folder / "fitting", process)
    process.send_signal(number)
    _, told = process.communicate()
    assert process.returncode == 4, told
    assert "counts as spent" in told
    assert "Traceback" not in told
    assert (folder / "release.json").read_text() == "older, paid for"
    assert "release.json.part" not in files(folder)


@pytest.mark.slow
def test_no_moment_of_ctrl_c_gives_a_traceback_or_half_a_file(start, folder):
    for step in range(12):
        process = start(*compose("--force"))
        time.sleep(0.1 * step)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate()
        if process.returncode == -signal.SIGINT or "init_import_site" in told:
            continue  # Python itself had not begun
        assert process.returncode in {0, 4, 130}, told
        assert "Traceback" not in told, (step, told)
        if (folder / "release.json").exists():
            assert isinstance(Release.read(folder / "release.json"), Release)
        assert "release.json.part" not in files(folder)


# Streams and disks


@pytest.mark.slow
def test_a_full_disk_is_found_before_anything_is_spent(start, folder):
    process = start(*compose(), before="ulimit -f 1;")
    _, told = process.communicate()
    assert process.returncode == 2, told
    assert "File too large" in told
    assert "Nothing is spent" in told
    assert "release.json" not in files(folder)


@pytest.mark.parametrize(
    "redirection", [*(pytest.param(r, marks=pytest.mark.slow) for r in (">&-", ">&- 2>&-")), "<&- >&- 2>&-"]
)
@pytest.mark.slow
def test_closed_streams_do_not_matter(start, folder, redirection):
    process = start(*compose(), before=f"exec {redirection};")
    process.communicate()
    assert process.returncode == 0
    assert Release.read(folder / "release.json").model is not None


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("format", ["json", "table"])
def test_standard_output_that_is_full_is_told_after_the_release_is_in_its_file(start, folder, format):
    with open("/dev/full", "w") as full:
        process = start(*compose("--format", format), stdout=full)
        _, told = process.communicate()
    if format == "json":
        assert process.returncode == 4, told
        assert "release is complete in release.json" in told
        assert Release.read(folder / "release.json").model is not None
    else:  # the plan comes first, and nothing is spent yet
        assert process.returncode == 2, told
        assert "release.json" not in files(folder)


@pytest.mark.first(1)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["--version"], ["compose", "--help"]])
def test_a_full_standard_output_is_wrong_use_and_no_fault_of_dpkit(start, arguments):
    with open("/dev/full", "w") as full:
        process = start(*arguments, stdout=full)
        _, told = process.communicate()
    assert process.returncode == 2, told
    assert "Traceback" not in told


@pytest.mark.slow
@pytest.mark.parametrize("descriptor", [1, 2])
def test_what_compiled_code_prints_is_heard_by_nobody(start, folder, site, descriptor):
    source = (site.folder / "tiny_parts.py").read_text()
    words = f'import os; os.write({descriptor}, b"** On entry to DLASCL")'
    (site.folder / "tiny_parts.py").write_text(source.replace('print("fitting")', words))
    process = start(*compose("--format", "json"))
    output, told = process.communicate()
    assert process.returncode == 0, told
    assert Release.from_document(json.loads(output)).model is not None
    assert "DLASCL" not in told
    assert "wrote release.json" in told


def test_an_output_that_is_a_device_is_refused(dpkit, folder):
    for path in ("/dev/null", "/dev/stdout"):
        result = dpkit(*compose("--output", path, "--force"))
        assert result.exit_code == 2, result.output
    assert not Path("/dev/null").is_file()


# Standard output in the place of a file


@pytest.mark.first(1)
@pytest.mark.parametrize("format", ["table", "json"])
@pytest.mark.slow
def test_a_release_on_standard_output_is_alone_there(start, folder, format):
    process = start(*compose("--output", "-", "--format", format))
    output, told = process.communicate()
    assert process.returncode == 0, told
    assert Release.from_document(json.loads(output)).model is not None
    assert ("Plan:" in told and "Certificate" in told) == (format == "table")
    assert files(folder) == {"diamonds.csv", "facts.toml", "numbers.csv"}


def test_a_saved_plan_releases_to_standard_output_what_it_would_write(dpkit, folder):
    written = dpkit(*compose("--save", "plan.toml", "--seed", 3))
    assert written.exit_code == 0, written.output
    for words in (compose("--output", "-"), ("run", "plan.toml", "diamonds.csv", "-o", "-")):
        assert dpkit(*words, "--seed", 3).stdout == (folder / "release.json").read_text()


@pytest.mark.first(1)
@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("redirection", [">&-", "> /dev/null"])
@pytest.mark.slow
def test_nothing_is_spent_where_standard_output_leads_nowhere(start, folder, redirection):
    words = compose("--output", "-", "--force", "--regressor", "waiting")  # would wait forever, were it run
    process = start(*words, before=f"exec {redirection};")
    _, told = process.communicate()
    assert process.returncode == 2, told
    assert "cannot write to standard output: it is closed" in told
    assert "name a file with --output" in told


@pytest.mark.slow
def test_nothing_is_spent_where_nobody_reads_standard_output(start, folder):
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*compose("--output", "-"), stdout=writer)
    os.close(writer)
    _, told = process.communicate()
    assert process.returncode == 2, told
    assert "cannot write to standard output: nothing reads from it" in told


@pytest.mark.slow
@pytest.mark.usefixtures("waiting")
def test_a_release_whose_reader_went_away_while_it_was_made_is_on_standard_error(start, folder):
    process = start("compose", *REGRESSION[:3], "--regressor", "waiting", "--accountant", "basic", "-o", "-")
    wait_for(folder / "fitting", process)
    process.stdout.close()
    (folder / "go").touch()
    told = process.stderr.read()
    assert process.wait() == 4, told
    assert "cannot write standard output: Broken pipe. The release is paid for. Keep what is printed" in told
    release = told[told.index("{\n") : told.rindex("}\n") + 2]
    assert Release.from_document(json.loads(release)).model is not None


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_only_a_release_goes_to_standard_output(dpkit, folder, option):
    result = dpkit(*compose(option, "-"))
    assert result.exit_code == 2
    assert f"{option} is -, but only a release can go to standard output" in result.stderr
    assert "release.json" not in files(folder)
