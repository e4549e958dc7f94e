"""The schema that a release of categories fills in."""

from __future__ import annotations

from pathlib import Path

from dpkit_command_categories.listed import Categories
from dpkit_core import Release
from dpkit_core.errors import InvalidRelease, InvalidSchema
from dpkit_core.files.documents import digest, read_toml, to_toml
from dpkit_core.ledger.accounts import found_by
from dpkit_core.release.signing import unsigned


def filled_in(path: Path, release: Release) -> str:
    """Return the text of a schema file with the categories that a release found.

    A column of which nothing was found stays as it is. The schema asserts which release the categories are
    of, by the digest that a ledger records.

    Parameters
    ----------
    path
        The schema that the release was made with.
    release
        With a list of ``Categories``.

    Raises
    ------
    InvalidRelease
        If the release has no such list.
    """
    if not isinstance(release.model, Categories):
        raise InvalidRelease("the release lists no categories")
    document = read_toml(path, "schema", InvalidSchema)
    document.setdefault("target", release.certificate.schema.target.name)
    signed = digest(unsigned(release.to_document()))
    assertions = list(document.get("assertions", []))
    for listed in release.model.columns:
        if listed.values:
            table = document["columns"].setdefault(listed.name, dict(document["columns"].get("*", {})))
            table.pop("buckets", None)
            table["categories"] = list(listed.values)
            assertions.append(found_by(listed.name, signed))
    said = {"assertions": assertions} if assertions else {}
    return to_toml({**document, **said, "columns": document["columns"]})
