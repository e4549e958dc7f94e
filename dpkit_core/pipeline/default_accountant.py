"""Which accountant adds up where nobody names one: ``tight`` where it composes every event, else ``rdp``.

The choice is made by public facts alone: which parts are installed, what the site's policy allows, and the
kinds of events that are planned. So the same facts always give the same accountant. ``tight`` is never above
``rdp`` (``dpkit_core.privacy.tight``), and so never asks for more noise for the same events.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpkit_core.errors import DpkitError
from dpkit_core.pipeline.parts import Part, make_part
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event, priced, walk
from dpkit_core.protocols import Accountant

PREFERRED = "tight"
FALLBACK = "rdp"


def preferred(neighboring: Neighboring) -> tuple[Part[Accountant] | None, str]:
    """Return the accountant that is tried first, or None with the reason why it cannot be had here."""
    try:
        return _named(PREFERRED, neighboring), ""
    except DpkitError as error:  # not installed, or not allowed; a policy that cannot be read is told below
        return None, f"{PREFERRED} cannot be had: {error}"


def fallback(neighboring: Neighboring) -> Part[Accountant]:
    """Return the accountant that is taken where the preferred one is not."""
    return _named(FALLBACK, neighboring)


def by_default(neighboring: Neighboring) -> str:
    """Return which accountants are taken here where nobody names one, in words: ``tight, else rdp``."""
    first, _ = preferred(neighboring)
    return FALLBACK if first is None else f"{first.name}, else {FALLBACK}"


def unknown_to(accountant: Part[Accountant], events: Iterable[Event]) -> str | None:
    """Return why an accountant does not compose these events; None where it does."""
    for event in events:
        if not accountant.instance.supports(priced(event)):
            return f"{accountant.name} does not compose {' of '.join(_kinds(event))}"
    return None


def default_accountant(events: Iterable[Event], neighboring: Neighboring) -> Part[Accountant]:
    """Return the accountant of events that are known already."""
    accountant, _ = preferred(neighboring)
    if accountant is not None and unknown_to(accountant, events) is None:
        return accountant
    return fallback(neighboring)


def _named(name: str, neighboring: Neighboring) -> Part[Accountant]:
    return make_part("accountant", name, {"neighboring": neighboring})


def _kinds(event: Event) -> list[str]:
    return list(dict.fromkeys(type(inner).__name__ for inner in walk(event)))
