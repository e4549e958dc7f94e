"""The kinds of things that distributions offer: their names, and where they are found.

A kind is found through one group of entry points, such as ``dpkit.scorers``. The name of a kind of part is
also its role in a pipeline. What classes of parts promise is in ``dpkit_core.plugins.promises``, with
the protocols: commands that list parts do not import them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from dpkit_core.errors import UnknownName


@attrs.frozen
class Kind:
    """What is found through one group of entry points.

    Attributes
    ----------
    name
        Name of one of them; for a part, also its role in a pipeline.
    group
        The group of entry points.
    part
        Whether it is a part: its classes keep a protocol, see ``dpkit_core.plugins.promises``.
    """

    name: str
    group: str
    part: bool = False

    @property
    def plural(self) -> str:
        """The group without its prefix, which is also the folder under ``plugins``."""
        return self.group.removeprefix("dpkit.")


#: Parts come first, in the order of a pipeline.
KINDS = (
    Kind("scorer", "dpkit.scorers", part=True),
    Kind("selector", "dpkit.selectors", part=True),
    Kind("regressor", "dpkit.regressors", part=True),
    Kind("accountant", "dpkit.accountants", part=True),
    Kind("recipe", "dpkit.recipes"),
    Kind("suite", "dpkit.suites"),
    Kind("generator", "dpkit.generators"),
    Kind("model", "dpkit.models"),
    Kind("command", "dpkit.commands"),
    Kind("observer", "dpkit.hooks"),
    Kind("page", "dpkit.pages"),
    Kind("report", "dpkit.reports"),
    Kind("source", "dpkit.sources"),
    Kind("engine", "dpkit.engines"),
    Kind("ledger", "dpkit.ledgers"),
    Kind("signer", "dpkit.signers"),
    Kind("remark", "dpkit.remarks"),
)

#: The kinds of parts, by name.
PARTS: Mapping[str, Kind] = {kind.name: kind for kind in KINDS if kind.part}


def kind_named(word: str, among: Collection[Kind] = KINDS) -> Kind:
    """Return the kind that ``word`` means, in the singular or plural, or as in its group of entry points.

    >>> [kind_named(word).name for word in ("scorer", "scorers", "observers", "hooks")]
    ['scorer', 'scorer', 'observer', 'observer']
    """
    for kind in among:
        if word in (kind.name, f"{kind.name}s", kind.plural):
            return kind
    known = ", ".join(f"{kind.name}s" for kind in among)
    raise UnknownName(f"there is no kind called {word!r}; the kinds are {known}")
