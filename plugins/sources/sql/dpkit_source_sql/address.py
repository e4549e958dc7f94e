"""Addresses of databases: which parts may be shown, and what they must not contain."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from dpkit_core.errors import InvalidOption

# Options of libpq that are secret.
_SECRETS = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:,\[\]@/\\]*)(?::\d*)?"
_HOSTS = re.compile(f"{_HOST}(?:,{_HOST})*")


@attrs.frozen
class Server:
    """A server and one of its databases, as an address of libpq names them; no user, no option.

    ``hosts`` are as they stand there, with their ports, and may be empty, which is libpq's default.
    """

    scheme: str
    hosts: str
    database: str

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return f"{self.scheme}://{self.hosts}/{self.database}"


def server_of(url: str) -> Server:
    """Return the parts of the URL of a server that may be shown.

    Raises
    ------
    InvalidOption
        If it contains a password, whatever else is wrong; or if its parts are ambiguous. The messages contain
        nothing of the URL.
    """
    scheme, _, rest = url.partition("://")
    parts = re.fullmatch(r"(?:([^@/?#]*)@)?([^@/?#]*)(?:/([^@?#]*))?(?:\?([^@#]*))?", rest)
    # If a name or a password contains a separator of URLs, it is unclear where the user ends.
    user, hosts, database, query = parts.groups("") if parts else (rest.rpartition("@")[0], "", "", "")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if ":" in user or _SECRETS & {name.strip().lower() for name in options}:
        raise InvalidOption(
            f"the {scheme} address contains a password, which would stay in the shell history; leave it "
            "out, and use ~/.pgpass, PGPASSWORD or a service file"
        )
    if parts is None or not _HOSTS.fullmatch(hosts):
        raise InvalidOption(
            f"this is not a database address; write {scheme}://user@host:5432/database, with @ in a name "
            "as %40, / as %2F, : as %3A, ? as %3F and # as %23"
        )
    return Server(
        scheme,
        hosts or options.get("host", ""),
        unquote(database) or options.get("dbname", ""),
    )


def file_of(where: str, scheme: str) -> Path:
    """Return the path that ``scheme:///relative``, ``scheme:////absolute`` or a plain path names.

    Raises
    ------
    InvalidOption
        If the URL has a host, a user or options, which no file has; the message contains none of them.
    """
    path = Path(where)
    if where.startswith(f"{scheme}:"):
        parts = urlsplit(where)
        if not where.startswith(f"{scheme}:///") or parts.query or parts.fragment:
            raise InvalidOption(
                f"write three slashes and the path of the file, as in {scheme}:///clinic.db, or four "
                "slashes if the path is absolute; no host, user or options, and ? in a name as %3F and # "
                "as %23"
            )
        path = Path(unquote(parts.path[1:]))
    return path
