"""Observers: code that is told of plans and releases, and that may stop a release.

Parts are chosen, one for each role; observers are all told. A ledger, an audit log and a rule such as "no
release above epsilon 2" are observers. They receive plans and released values, never the data, so whatever
they do, a veto included, is post-processing and costs no privacy. What is known beforehand, such as whether
a budget is left, belongs in ``dpkit_reserve``: declined there, a run costs nothing::

    from dpkit_core.pipeline.observers import hookimpl

    class AtMostTwo:
        @hookimpl
        def dpkit_before_release(self, release):
            if release.certificate.epsilon > 2:
                raise ValueError("this site releases nothing above epsilon 2")

    plan.run(data, observers=Observers([AtMostTwo()]))

A distribution offers an observer (a module, an object, or a class that needs no arguments) through the entry
point group ``dpkit.hooks``; ``Observers.installed()`` loads those. A hook may take fewer arguments than its
specification, so arguments can be added later without breaking anybody; they are never removed or reordered.

What happens when an observer raises depends on the hook. In ``dpkit_reserve`` the run is declined, in
``dpkit_before_release`` its release is vetoed. In any other hook, and while it is loaded, it is reported and
everything goes on, unless ``DPKIT_STRICT=1`` is set; a site that relies on a veto sets it, so that a guard
that cannot be loaded stops the release too.
``DPKIT_DISABLE_PLUGINS=a,b`` leaves the installed observers ``a`` and ``b`` out.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pluggy

from dpkit_core.errors import BrokenPlugin, Declined, DpkitError, IncompatiblePlugin, Vetoed
from dpkit_core.plugins import registry
from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.registry import load_target

if TYPE_CHECKING:
    from dpkit_core.pipeline.plan import Outcome, Plan
    from dpkit_core.release.release import Release

GROUP = "dpkit.hooks"

hookspec = pluggy.HookspecMarker("dpkit")
hookimpl = pluggy.HookimplMarker("dpkit")


class Hooks:
    """What an observer may implement; each method is optional."""

    @hookspec
    def dpkit_planned(self, plan: Plan) -> None:
        """Called when a plan is about to be run, before any data is touched.

        .. versionadded:: 0.1
        """

    @hookspec
    def dpkit_reserve(self, plan: Plan) -> None:
        """Called when the data have been found to fit, before any part is given them: raise to decline.

        A run that is declined spends nothing. The remaining observers are not asked; ``dpkit_finished`` tells
        all of them, those included who had reserved.

        .. versionadded:: 0.2
        """

    @hookspec
    def dpkit_before_release(self, release: Release) -> None:
        """Called when a run has ended as planned, before anybody sees its release: raise to veto it.

        A vetoed release is dropped, and its budget counts as spent. The remaining observers are not asked.

        .. versionadded:: 0.1
        """

    @hookspec
    def dpkit_released(self, release: Release) -> None:
        """Called when nobody has vetoed the release, just before it is returned.

        .. versionadded:: 0.1
        """

    @hookspec
    def dpkit_finished(self, plan: Plan, outcome: Outcome) -> None:
        """Called last, once for each run for which observers were asked to reserve, whatever became of it.

        ``outcome`` is ``"released"`` (with a model or with a refusal), ``"vetoed"``, ``"violated"`` (a part
        broke its plan), ``"failed"`` (a part raised) or ``"declined"`` (an observer raised in
        ``dpkit_reserve``). Budget is spent in every case but the last. The error itself is not passed on: its
        text and traceback may hold private values.

        .. versionadded:: 0.1
        """


def warn(message: str) -> None:
    """Report trouble with an observer as a ``RuntimeWarning``."""
    warnings.warn(message, RuntimeWarning, stacklevel=2)


class Observers:
    """The observers of one run, each called on its own, in the order given.

    Parameters
    ----------
    plugins
        Objects or modules with methods marked by ``hookimpl``.
    report
        Called with a sentence when an observer fails where that is no veto; a warning by default.
    strict
        Whether such a failure is raised instead; by default what ``DPKIT_STRICT`` says.

    Raises
    ------
    IncompatiblePlugin
        If one of ``plugins`` has no hook, an unknown one, or one that lacks its mark.
    """

    def __init__(
        self,
        plugins: Iterable[object] = (),
        *,
        report: Callable[[str], None] = warn,
        strict: bool | None = None,
    ) -> None:
        self._report = report
        self._strict = os.environ.get("DPKIT_STRICT", "0") not in ("", "0") if strict is None else strict
        self._managers: list[tuple[str, pluggy.PluginManager]] = []
        for plugin in plugins:
            who = f"observer {type(plugin).__name__}"
            self._managers.append((who, _managed(who, plugin)))

    @classmethod
    def none(cls) -> Observers:
        """Return no observers: nobody is told, nothing is vetoed."""
        return cls()

    @classmethod
    def installed(
        cls,
        plugins: Iterable[object] = (),
        *,
        entry_points: Iterable[EntryPoint] | None = None,
        report: Callable[[str], None] = warn,
        strict: bool | None = None,
    ) -> Observers:
        """Return ``plugins`` and then every installed observer that ``DPKIT_DISABLE_PLUGINS`` does not name.

        Each is loaded alone; one that cannot be loaded is reported and left out, or raised when strict.

        Parameters
        ----------
        plugins, report, strict
            As for the class.
        entry_points
            Where to look instead of the environment.
        """
        observers = cls(plugins, report=report, strict=strict)
        if entry_points is None:
            found = {*registry.installed(GROUP)}
        else:
            found = {ComponentRef.from_entry_point(point) for point in entry_points}
        for ref in sorted(found, key=lambda ref: (ref.name, ref.distribution, ref.target)):
            if not left_out(ref):
                observers._load(ref)
        return observers

    def planned(self, plan: Plan) -> None:
        """Tell every observer of a plan."""
        self._tell("dpkit_planned", plan=plan)

    def reserve(self, plan: Plan) -> None:
        """Ask every observer whether a run may begin.

        Raises
        ------
        Declined
            If one raises anything: a guard that fails must not let a run begin.
        """
        for who, manager in self._managers:
            try:
                manager.hook.dpkit_reserve(plan=plan)
            except (Exception, SystemExit) as error:
                raise Declined(
                    f"{who} declined the run ({type(error).__name__}: {error}). Nothing is spent"
                ) from error

    def before_release(self, release: Release) -> None:
        """Ask every observer about a release that has not left the process.

        Raises
        ------
        Vetoed
            If one raises anything, whatever it meant by it: a guard that fails must not let a release pass.
        """
        for who, manager in self._managers:
            try:
                manager.hook.dpkit_before_release(release=release)
            except (Exception, SystemExit) as error:
                raise Vetoed(
                    f"{who} stopped the release ({type(error).__name__}: {error}). Nothing is released, and "
                    "the planned budget counts as spent"
                ) from error

    def released(self, release: Release) -> None:
        """Tell every observer of a release that nobody vetoed."""
        self._tell("dpkit_released", release=release)

    def finished(self, plan: Plan, outcome: Outcome) -> None:
        """Tell every observer that a run is over, and how it ended."""
        self._tell("dpkit_finished", plan=plan, outcome=outcome)

    def _tell(self, hook: str, **arguments: object) -> None:
        for who, manager in self._managers:
            try:
                getattr(manager.hook, hook)(**arguments)
            except (Exception, SystemExit) as error:
                failure = BrokenPlugin(f"{who} failed in {hook} ({type(error).__name__}: {error})")
                self._trouble(failure, error)

    def _load(self, ref: ComponentRef) -> None:
        try:
            self._managers.append((str(ref), admit(ref, load_target(ref))))
        except DpkitError as error:
            self._trouble(error, error.__cause__)

    def _trouble(self, failure: DpkitError, cause: BaseException | None) -> None:
        if self._strict:
            raise failure from cause
        self._report(f"{failure}. dpkit goes on without it; DPKIT_STRICT=1 makes this an error")


def left_out(ref: ComponentRef) -> bool:
    """Return whether ``DPKIT_DISABLE_PLUGINS`` names this observer."""
    disabled = os.environ.get("DPKIT_DISABLE_PLUGINS", "").replace(" ", "").split(",")
    return any(ref.answers_to(name) for name in disabled)


def admit(ref: ComponentRef, target: object) -> pluggy.PluginManager:
    """Return a manager of the one observer that ``target``, loaded for ``ref``, is or makes.

    Raises
    ------
    BrokenPlugin
        If ``target`` is a class and cannot be created without arguments.
    IncompatiblePlugin
        If it has no hook, an unknown one, or one that lacks its mark.
    """
    if not isinstance(target, type):
        return _managed(str(ref), target)
    try:
        plugin = target()
    except (Exception, SystemExit) as error:
        raise BrokenPlugin(
            f"{ref} is installed but {target.__name__}() failed: {type(error).__name__}: {error}"
        ) from error
    return _managed(str(ref), plugin)


def _managed(who: str, plugin: object) -> pluggy.PluginManager:
    # A manager each, because pluggy abandons a call at the first observer that raises.
    manager = pluggy.PluginManager("dpkit")
    manager.add_hookspecs(Hooks)
    try:
        manager.register(plugin)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise IncompatiblePlugin(
            f"{who} does not fit the hooks of this dpkit: {error}. The hooks are {', '.join(_HOOKS)}"
        ) from error
    marked = {caller.name for caller in manager.get_hookcallers(plugin) or ()}
    unmarked = [name for name, _ in inspect.getmembers(plugin, inspect.isroutine) if name in _HOOKS]
    for name in unmarked:
        if name not in marked:
            raise IncompatiblePlugin(
                f"{who} has {name} without the mark @dpkit_core.pipeline.observers.hookimpl; add it"
            )
    if not marked:
        raise IncompatiblePlugin(f"{who} implements no hook; the hooks are {', '.join(_HOOKS)}")
    return manager


_HOOKS = tuple(name for name in vars(Hooks) if name.startswith("dpkit_"))
