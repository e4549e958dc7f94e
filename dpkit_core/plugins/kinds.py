"""The kinds of things that distributions offer: their names, and where they are found.

A kind is found through one group of entry points, such as ``dpkit.scorers``. The name of a kind of part is
also its role in a pipeline. What classes of parts promise is in ``dpkit_core.plugins.promises``, with
the protocols: commands that list parts do not import them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint

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


_UNKNOWN = "unknown"


def canonical(distribution: str) -> str:
    """Return a distribution's name as PEP 503 compares it: in lower case, with ``-`` for runs of ``-_.``.

    >>> canonical("DPKit_Scorer.Kendall")
    'dpkit-scorer-kendall'
    """
    return re.sub(r"[-_.]+", "-", distribution).lower()


@attrs.frozen
class ComponentRef:
    """A part before it is loaded: what its metadata contains.

    Attributes
    ----------
    kind
        As in the group of entry points, such as ``"scorers"``.
    name
        The entry point's name, which is the part's name.
    target
        The entry point's value, ``module:attribute``.
    distribution, version, summary
        Of the distribution that offers it; "unknown" where its metadata does not say.
    """

    kind: str
    name: str
    target: str
    distribution: str = _UNKNOWN
    version: str = _UNKNOWN
    summary: str = ""

    @classmethod
    def from_entry_point(cls, entry_point: EntryPoint) -> ComponentRef:
        """Return the reference of an entry point in a group ``dpkit.<kind>``."""

        def fact(key: str, default: str) -> str:
            if metadata is None or key not in metadata:
                return default
            return metadata[key]

        try:
            metadata = None if entry_point.dist is None else entry_point.dist.metadata
        except FileNotFoundError:  # damaged: some versions of the finder return nothing, others say so
            metadata = None
        return cls(
            kind=entry_point.group.removeprefix("dpkit."),
            name=entry_point.name,
            target=entry_point.value,
            distribution=fact("Name", _UNKNOWN),
            version=fact("Version", _UNKNOWN),
            summary=fact("Summary", ""),
        )

    def __str__(self) -> str:
        return f"{self.role} {self.name!r} ({self.distribution} {self.version})"

    @property
    def role(self) -> str:
        """The name of the kind, such as ``"scorer"``."""
        return kind_named(self.kind).name

    @property
    def qualified(self) -> str:
        """The spelling that no other distribution can claim."""
        return f"{self.distribution}:{self.name}"

    @property
    def module(self) -> str:
        """The module to import."""
        return self._target_parts[0]

    @property
    def attribute(self) -> str:
        """The attribute to read from the module, dotted; empty for the module itself."""
        return self._target_parts[1]

    @property
    def _target_parts(self) -> tuple[str, str]:
        # An entry point may end in "[extra]", which installers have stopped honoring.
        module, _, attribute = self.target.partition("[")[0].partition(":")
        return module.strip(), attribute.strip()

    def answers_to(self, name: str) -> bool:
        """Return whether ``name``, plain or qualified, means this part."""
        distribution, _, plain = name.rpartition(":")
        return plain == self.name and (
            not distribution or canonical(distribution) == canonical(self.distribution)
        )
