"""Observers: each told on its own, a veto stops the release, other failures stop nobody."""

from types import SimpleNamespace

import pytest

from dpkit_core.errors import BrokenPlugin, IncompatiblePlugin, Vetoed
from dpkit_core.pipeline.observers import Hooks, Observers, hookimpl

RELEASE = object()
PLAN = object()


class Spy:
    """Writes down what it is told; raises in the hooks it was told to fail in."""

    def __init__(self, log, name="spy", fails=()):
        self.log, self.name, self.fails = log, name, fails

    def _note(self, hook, *arguments):
        self.log.append((self.name, hook, *arguments))
        if hook in self.fails:
            raise self.fails[hook]

    @hookimpl
    def dpkit_planned(self, plan):
        self._note("planned", plan)

    @hookimpl
    def dpkit_before_release(self, release):
        self._note("before_release", release)

    @hookimpl
    def dpkit_released(self, release):
        self._note("released", release)

    @hookimpl
    def dpkit_finished(self, plan, outcome):
        self._note("finished", plan, outcome)


@pytest.fixture
def log():
    return []


def call(observers, hook):
    arguments = {"planned": (PLAN,), "finished": (PLAN, "released")}.get(hook, (RELEASE,))
    getattr(observers, hook)(*arguments)


def test_every_observer_is_told_in_the_order_given(log):
    observers = Observers([Spy(log, "first"), Spy(log, "second")])
    observers.planned(PLAN)
    observers.before_release(RELEASE)
    observers.released(RELEASE)
    observers.finished(PLAN, "released")
    told = [
        ("planned", PLAN),
        ("before_release", RELEASE),
        ("released", RELEASE),
        ("finished", PLAN, "released"),
    ]
    assert log == [(name, *what) for what in told for name in ("first", "second")]


def test_without_observers_nothing_happens(monkeypatch):
    monkeypatch.setattr("dpkit_core.plugins.registry.installed", pytest.fail)
    for hook in ("planned", "before_release", "released", "finished"):
        call(Observers.none(), hook)


def test_an_observer_may_take_fewer_arguments_than_its_hook(log):
    class Short:
        @hookimpl
        def dpkit_finished(self, outcome):
            log.append(outcome)

    Observers([Short()]).finished(PLAN, "vetoed")
    assert log == ["vetoed"]


def test_observers_that_compare_equal_are_both_told(log):
    class Equal(Spy):
        __hash__ = None  # type: ignore[assignment]  # as Python sets it where a class defines __eq__

        def __eq__(self, other):
            return True

    Observers([Equal(log, "first"), Equal(log, "second")]).planned(PLAN)
    assert [name for name, *_ in log] == ["first", "second"]


@pytest.mark.parametrize("error", [ValueError("too much"), SystemExit(0), AssertionError()])
def test_whatever_an_observer_raises_before_a_release_is_a_veto(error, log):
    observers = Observers([Spy(log, fails={"before_release": error}), Spy(log, "later")])
    with pytest.raises(Vetoed, match=r"observer Spy stopped the release .*budget counts as spent") as caught:
        observers.before_release(RELEASE)
    assert caught.value.__cause__ is error
    assert [name for name, *_ in log] == ["spy"]


@pytest.mark.parametrize("hook", ["planned", "released", "finished"])
@pytest.mark.parametrize("error", [ValueError("boom"), SystemExit(3)])
def test_an_observer_that_fails_elsewhere_is_reported_and_the_others_are_told(hook, error, log):
    reports = []
    spies = [Spy(log, "failing", fails={hook: error}), Spy(log, "later")]
    call(Observers(spies, report=reports.append), hook)
    assert [name for name, *_ in log] == ["failing", "later"]
    (report,) = reports
    assert f"observer Spy failed in dpkit_{hook} ({type(error).__name__}: {error})" in report


def test_a_failure_is_a_warning_by_default(log):
    observers = Observers([Spy(log, fails={"released": ValueError("boom")})])
    with pytest.warns(RuntimeWarning, match="boom.*DPKIT_STRICT=1"):
        observers.released(RELEASE)


@pytest.mark.parametrize(("value", "strict"), [("1", True), ("0", False), ("", False)])
def test_the_environment_makes_failures_errors(value, strict, log, monkeypatch):
    monkeypatch.setenv("DPKIT_STRICT", value)
    error = ValueError("boom")
    observers = Observers([Spy(log, fails={"released": error})], report=log.append)
    if strict:
        with pytest.raises(BrokenPlugin, match="failed in dpkit_released") as caught:
            observers.released(RELEASE)
        assert caught.value.__cause__ is error
    else:
        observers.released(RELEASE)


class Misspelt:
    @hookimpl
    def dpkit_relased(self, release): ...


class TooManyArguments:
    @hookimpl
    def dpkit_released(self, release, data): ...


class Unmarked:
    def dpkit_before_release(self, release): ...


class PartlyUnmarked(Unmarked):
    @hookimpl
    def dpkit_released(self, release): ...


@pytest.mark.parametrize(
    ("observer", "message"),
    [
        (Misspelt(), "unknown hook 'dpkit_relased'.*The hooks are dpkit_planned, dpkit_reserve"),
        (TooManyArguments(), "data"),
        (Unmarked(), "has dpkit_before_release without the mark @dpkit_core.pipeline.observers.hookimpl"),
        (PartlyUnmarked(), "has dpkit_before_release without the mark"),
        (SimpleNamespace(), "implements no hook"),
    ],
)
def test_an_observer_that_would_silently_not_be_called_is_refused(observer, message):
    with pytest.raises(IncompatiblePlugin, match=message):
        Observers([observer])


@pytest.mark.parametrize("name", [name for name in vars(Hooks) if name.startswith("dpkit_")])
def test_every_hook_says_when_it_is_called_and_takes_no_data(name):
    hook = vars(Hooks)[name]
    assert hook.__doc__.startswith("Called ")
    assert "versionadded::" in hook.__doc__
    assert set(hook.__annotations__) <= {"plan", "release", "outcome", "return"}


# Installed observers

MODULE = """
from dpkit_core.pipeline.observers import hookimpl
told = []
@hookimpl
def dpkit_released(release):
    told.append(release)
"""
CLASS = """
from dpkit_core.pipeline.observers import hookimpl
told = []
class Audit:
    @hookimpl
    def dpkit_released(self, release):
        told.append(release)
"""


def install(site, name, source, target=None):
    points = {"dpkit.hooks": {name: target or name}}
    site.install(f"dist-{name}", entry_points=points, modules={name: source})


@pytest.mark.parametrize(("source", "target"), [(MODULE, "audit"), (CLASS, "audit:Audit")])
def test_an_installed_module_or_class_is_told(source, target, site):
    install(site, "audit", source, target)
    Observers.installed().released(RELEASE)
    import audit

    assert audit.told == [RELEASE]


def test_given_observers_come_before_installed_ones(site, log):
    install(
        site,
        "audit",
        "from dpkit_core.pipeline.observers import hookimpl\n@hookimpl\ndef dpkit_planned(plan): plan()",
    )
    Observers.installed([Spy(log)]).planned(lambda: log.append("installed"))
    assert [log[0][0], log[1]] == ["spy", "installed"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import a_library_that_nobody_has", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("x = 1", "implements no hook"),
        (MODULE.replace("released", "relased"), "unknown hook 'dpkit_relased'"),
    ],
)
def test_an_observer_that_cannot_be_loaded_is_reported_and_the_others_work(source, message, site):
    install(site, "a_bad", source)
    install(site, "good", MODULE)
    reports = []
    Observers.installed(report=reports.append).released(RELEASE)
    (report,) = reports
    assert message in report
    assert "observer 'a_bad' (dist-a_bad 1.0)" in report
    import good

    assert good.told == [RELEASE]
    with pytest.raises((BrokenPlugin, IncompatiblePlugin), match=message):
        Observers.installed(strict=True)


def test_a_class_that_cannot_be_created_is_reported(site):
    install(site, "needy", CLASS + "    def __init__(self, path): ...\n", "needy:Audit")
    with pytest.raises(BrokenPlugin, match=r"Audit\(\) failed: TypeError"):
        Observers.installed(strict=True)


@pytest.mark.parametrize("disabled", ["audit", "dist-audit:audit", "other, audit"])
def test_a_disabled_observer_is_not_even_imported(disabled, site, monkeypatch):
    monkeypatch.setenv("DPKIT_DISABLE_PLUGINS", disabled)
    install(site, "audit", "raise SystemExit(3)")
    Observers.installed(strict=True)


def test_entry_points_can_be_given_instead_of_the_environment(site):
    install(site, "audit", "raise SystemExit(3)")
    Observers.installed(entry_points=[], strict=True)
