"""The doctor: every part examined in a process of its own, whatever the part does there."""

import json
import os
import subprocess
import sys

import attrs
import pytest
from dpkit_command_doctor import examine as examine_module
from dpkit_command_doctor.examine import Diagnosis, examine, installed

from dpkit_core.plugins.registry import Registry


class Zoo(Registry):
    """Only the parts that the test installed."""

    def refs(self, kind=None):
        return tuple(ref for ref in super().refs(kind) if ref.distribution.startswith("zoo-"))


@pytest.fixture
def zoo(site):
    def install(*animals):
        site.install_zoo(*animals)
        return Zoo()

    return install


@pytest.fixture(params=["forks", "processes"])
def both_ways(request, monkeypatch):
    """Forks of one process, and a process for each where there are no forks."""
    if request.param == "forks" and not examine_module.FORKS:
        pytest.skip("processes cannot fork here")
    monkeypatch.setattr(examine_module, "FORKS", request.param == "forks")


@pytest.mark.slow
@pytest.mark.first(1)
def test_each_animal_of_the_zoo_has_its_diagnosis(zoo, both_ways):
    registry = zoo(
        "missing_dependency",
        "missing_attribute",
        "exits",
        "crashes",
        "prints",
        "wrong_api",
        "wrong_signatures",
        "twin_a",
        "twin_b",
    )
    diagnoses = {diagnosis.ref.qualified: diagnosis for diagnosis in examine(registry.refs(), slow=60)}
    expected = {
        "zoo-missing-dependency:missing_dependency": (
            "broken",
            "No module named 'a_library_that_nobody_has'",
        ),
        "zoo-missing-attribute:missing_attribute": ("broken", "looking up OldName"),
        "zoo-exits:exits": ("broken", "SystemExit: 3"),
        "zoo-crashes:crashes": ("broken", "ended its process with code 7"),
        "zoo-prints:prints": ("noisy", "Thank you for using zoo_prints!"),
        "zoo-wrong-api:wrong_api": ("incompatible", "targets plugin API 99"),
        "zoo-wrong-signatures:wrong_signatures": ("incompatible", "prepare(X, y) cannot be called"),
        "zoo-twin-a:twin": ("ambiguous", "zoo-twin-a:twin, zoo-twin-b:twin"),
        "zoo-twin-b:twin": ("ambiguous", "zoo-twin-a:twin, zoo-twin-b:twin"),
    }
    assert {name: diagnosis.status for name, diagnosis in diagnoses.items()} == {
        name: status for name, (status, _) in expected.items()
    }
    for name, (_, detail) in expected.items():
        assert detail in diagnoses[name].detail
    assert [diagnosis.ref for diagnosis in examine(Registry([]).refs())] == []
    assert list(diagnoses) == [ref.qualified for ref in registry.refs()]


@pytest.mark.slow
def test_a_slow_import_is_measured_and_told_from_a_fast_one(zoo):
    (slow,) = examine(zoo("slow_import").refs(), slow=0.9)
    assert slow.status == "slow"
    assert slow.seconds >= 1.0  # the module sleeps for one second
    (patient,) = examine(Zoo().refs(), slow=60)
    assert patient.status == "ok"
    assert patient.detail == "imports no large library"


@pytest.mark.slow
def test_a_part_that_never_ends_its_import_is_given_up(site, both_ways):
    points = {"dpkit.scorers": {"hangs": "hangs:Scorer"}}
    site.install("zoo-hangs", entry_points=points, modules={"hangs": "import time\ntime.sleep(600)"})
    (diagnosis,) = examine(Zoo().refs(), time_limit=1.5)
    assert diagnosis.status == "broken"
    assert diagnosis.detail == "scorer 'hangs' (zoo-hangs 1.0) was still being imported after 1.5 s"
    assert diagnosis.seconds is None


@pytest.mark.slow
def test_a_part_with_compiled_inner_loops_says_whether_they_are_compiled(site, both_ways, monkeypatch):
    source = "import dpkit_kernels\n" + SCORER
    points = {"dpkit.scorers": {"swift": "swift:Scorer"}}
    site.install("zoo-swift", entry_points=points, modules={"swift": source})
    monkeypatch.setenv("DPKIT_KERNELS", "off")
    (diagnosis,) = examine(Zoo().refs(), slow=60)
    off = "imports no large library; kernels in NumPy, since DPKIT_KERNELS is off"
    assert (diagnosis.status, diagnosis.detail) == ("ok", off)
    monkeypatch.setenv("DPKIT_KERNELS", "fast")
    (diagnosis,) = examine(Zoo().refs(), slow=60)
    assert diagnosis.status == "broken"
    assert "set it to auto, require or off" in diagnosis.detail


@pytest.mark.slow
def test_noise_of_compiled_code_is_noticed_and_large_imports_are_told(site):
    source = "import os, scipy\nos.write(1, b'from below')\n" + SCORER
    points = {"dpkit.scorers": {"below": "below:Scorer"}}
    site.install("zoo-below", entry_points=points, modules={"below": source})
    (diagnosis,) = examine(Zoo().refs(), slow=60)
    assert (diagnosis.status, diagnosis.detail) == ("noisy", "prints while it is imported: 'from below'")
    (site.folder / "below.py").write_text("import scipy\n" + SCORER)
    (diagnosis,) = examine(Zoo().refs(), slow=60)
    assert (diagnosis.status, diagnosis.detail) == ("ok", "imports scipy")
    # Not as long as the text before: within one second, compiled modules are told apart by length alone.
    (site.folder / "below.py").write_text("import numpy as np\n" + SCORER)
    (diagnosis,) = examine(Zoo().refs(), slow=60)
    assert (diagnosis.status, diagnosis.detail) == ("ok", "imports no large library")


@pytest.mark.slow
@pytest.mark.skipif(not examine_module.FORKS, reason="processes cannot fork here")
def test_many_parts_are_loaded_by_one_interpreter_and_none_disturbs_another(site, tmp_path):
    seen = tmp_path / "seen"
    say = f"import os\nopen({str(seen)!r}, 'a').write(f'{{os.getppid()}} {{os.getpid()}}\\n')\n"
    modules = {
        "first": say + SCORER,
        # What it does to its process, to dpkit and to NumPy, no other part sees.
        "polluter": "import sys, json, numpy\nfrom dpkit_core.plugins import registry\n"
        "json.loads = registry.admit = numpy.array = None\nsys.modules['numpy'] = None\nsys.path.clear()\n",
        "killer": "import os, signal\nos.killpg(0, signal.SIGKILL)\n",
        "last": say + "import numpy\nnumpy.array([1])\n" + SCORER,
    }
    points = {"dpkit.scorers": {name: f"{name}:Scorer" for name in modules}}
    site.install("zoo-many", entry_points=points, modules=modules)
    diagnoses = {each.ref.name: each for each in examine(Zoo().refs(), slow=60)}
    assert {name: each.status for name, each in diagnoses.items()} == {
        "first": "ok",
        "polluter": "broken",
        "killer": "broken",
        "last": "ok",
    }
    assert "ended its process with code -9" in diagnoses["killer"].detail
    parents, loaders = zip(*(line.split() for line in seen.read_text().splitlines()), strict=True)
    assert len(set(parents)) == 1
    assert parents[0] != str(os.getpid())
    assert len(set(loaders)) == 2


@pytest.mark.slow
@pytest.mark.skipif(not examine_module.FORKS, reason="processes cannot fork here")
def test_parts_after_one_that_ends_the_common_process_are_tried_alone(site):
    # It ends its parent only where that is the process which forks: alone, its parent is this test.
    killer = f"import os, signal\nif os.getppid() != {os.getpid()}: os.kill(os.getppid(), signal.SIGKILL)\n"
    modules = {"before": SCORER, "killer": killer + SCORER, "then": SCORER}
    points = {"dpkit.scorers": {name: f"{name}:Scorer" for name in modules}}
    site.install("zoo-parricide", entry_points=points, modules=modules)
    statuses = {each.ref.name: each.status for each in examine(Zoo().refs(), slow=60)}
    assert statuses == {"before": "ok", "killer": "ok", "then": "ok"}


@pytest.mark.slow
def test_examining_imports_no_part_into_this_process(zoo):
    examine(zoo("prints").refs())
    assert "zoo_prints" not in sys.modules


@pytest.mark.slow
def test_a_diagnosis_is_plain_data(zoo):
    (diagnosis,) = examine(zoo("prints").refs())
    assert attrs.asdict(diagnosis)["ref"]["name"] == "prints"
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        diagnosis.status = "ok"
    assert isinstance(diagnosis, Diagnosis)


@pytest.mark.slow
def test_the_probe_writes_only_its_finding_to_standard_output(zoo, site):
    (ref,) = zoo("prints").refs()
    done = subprocess.run(
        [sys.executable, "-m", "dpkit_command_doctor.probe", json.dumps(attrs.asdict(ref))],
        cwd=site.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    finding = json.loads(done.stdout)
    assert finding["status"] == "ok"
    assert finding["printed"] == "Thank you for using zoo_prints!"


SCORER = """
class Scorer:
    api = 3
    adaptive = False
    def sensitivity(self, schema, round): ...
    def prepare(self, data, plan, meter): ...
"""


# Observers and commands

OBSERVER = """
from dpkit_core.pipeline.observers import hookimpl

class Guard:
    @hookimpl
    def dpkit_before_release(self, release): ...

class Needy(Guard):
    def __init__(self, path): ...

class Idle: ...
"""
COMMAND = """
import typer
app = typer.Typer()
number = 3

@app.command()
def run(name: str): ...

def odd(thing: object): ...
"""


def others():
    return [ref for ref in installed() if ref.distribution.startswith("zoo-")]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("target", "status", "detail"),
    [
        ("guard:Guard", "ok", "imports no large library"),
        ("guard:Needy", "broken", "Needy() failed: TypeError"),
        ("guard:Idle", "incompatible", "implements no hook"),
        ("absent:Guard", "broken", "No module named 'absent'"),
    ],
)
def test_an_observer_is_loaded_as_a_run_would_load_it(target, status, detail, site):
    points = {"dpkit.hooks": {"guard": target}}
    site.install("zoo-guard", entry_points=points, modules={"guard": OBSERVER})
    (diagnosis,) = examine(others(), slow=60)
    assert diagnosis.status == status
    assert detail in diagnosis.detail


@pytest.mark.slow
def test_an_observer_that_is_left_out_is_said_to_be(site, monkeypatch):
    points = {"dpkit.hooks": {"guard": "guard:Guard"}}
    site.install("zoo-guard", entry_points=points, modules={"guard": OBSERVER})
    monkeypatch.setenv("DPKIT_DISABLE_PLUGINS", "guard")
    (diagnosis,) = examine(others(), slow=60)
    assert diagnosis.detail == "left out by DPKIT_DISABLE_PLUGINS; imports no large library"


@pytest.mark.slow
def test_observers_may_have_one_name(site):
    for name in ("zoo-a", "zoo-b"):
        module = name.replace("-", "_")
        site.install(
            name, entry_points={"dpkit.hooks": {"guard": f"{module}:Guard"}}, modules={module: OBSERVER}
        )
    assert [diagnosis.status for diagnosis in examine(others(), slow=60)] == ["ok", "ok"]


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("target", "status", "detail"),
    [
        ("tool:run", "ok", "imports no large library"),
        ("tool:app", "ok", "imports no large library"),
        ("tool:number", "incompatible", "must point to a function or a typer.Typer"),
        ("tool:odd", "incompatible", "cannot become a command"),
        ("tool:gone", "broken", "looking up gone"),
    ],
)
@pytest.mark.slow
def test_a_command_is_made_as_the_command_line_would_make_it(target, status, detail, site):
    site.install("zoo-tool", entry_points={"dpkit.commands": {"tool": target}}, modules={"tool": COMMAND})
    (diagnosis,) = examine(others(), slow=60)
    assert diagnosis.status == status
    assert detail in diagnosis.detail


@pytest.mark.slow
def test_a_command_cannot_have_the_name_of_another_or_of_one_of_dpkit(site):
    for name in ("zoo-a", "zoo-b"):
        module = name.replace("-", "_")
        points = {
            "dpkit.commands": {
                "twin": f"{module}:run",
                "verify" if name == "zoo-a" else "own": f"{module}:run",
            }
        }
        site.install(name, entry_points=points, modules={module: COMMAND})
    diagnoses = {diagnosis.ref.qualified: diagnosis for diagnosis in examine(others(), slow=60)}
    assert {name: diagnosis.status for name, diagnosis in diagnoses.items()} == {
        "zoo-a:twin": "ambiguous",
        "zoo-b:twin": "ambiguous",
        "zoo-a:verify": "ambiguous",
        "zoo-b:own": "ok",
    }
    assert diagnoses["zoo-a:verify"].detail == "'verify' has 2 meanings: dpkit's own verify, zoo-a:verify"
