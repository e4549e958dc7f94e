"""The rules of a site: what a custodian allows, in files that users cannot change.

    [run]
    max_epsilon = 1.0
    max_delta = 1e-6
    accountants = ["rdp", "basic"]
    private_only = true

    [account]
    max_epsilon = 3.0
    max_delta = 1e-5
    open = false

    [distributions]
    dpkit-scorer-kendall = ["0.2.0"]
    dpkit-selector-peel = ["sha256:5f7d..."]
    dpkit-accountant-rdp = "any"

    [ledger]
    url = "/data/dpkit/ledger.db"
    accounts = ["diamonds"]
    log = "/data/dpkit/runs.jsonl"

Every key is optional, and one that is not known is an error, lest a rule with a slip in it allowed
everything. ``[run]`` is about each run and ``[account]`` about accounts that are opened. Where there is a
table ``[distributions]``, parts come from these distributions only, in these versions, or with installed
files of this digest. With ``[ledger]`` every run is charged there, and none is private and free; ``accounts``
are those that may pay, lest somebody open one of their own, which ``open = false`` forbids, too.

Three places are read, and every rule of every file holds: ``/etc/dpkit/policy.toml``,
``etc/dpkit/policy.toml`` of the Python installation (``sys.prefix``), and the file that the environment
variable ``DPKIT_POLICY`` names, for a service whose environment users do not control. A user who sets that
variable can add rules, and drop none of the others. A file that is there and cannot be read stops every run.

Rules bind whoever uses this installation as it is. They do not bind somebody who may read the data and runs
other code: give the data to the service's account alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import AgainstPolicy, InvalidPolicy
from dpkit_core.files.documents import read_toml
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.ledger import Ledger, Payer
from dpkit_core.plugins.kinds import canonical
from dpkit_core.privacy.budget import Budget

if TYPE_CHECKING:
    from dpkit_core.release.certificate import Certificate

#: Where rules are that no user can go round.
INSTALLED = (Path("/etc/dpkit/policy.toml"), Path(sys.prefix, "etc/dpkit/policy.toml"))

#: Names one more file, for a service.
VARIABLE = "DPKIT_POLICY"

# Of a URL.
_PASSWORD = re.compile(r"(//[^/@:]*:)[^/@]*@")


_ANY = "any"


def _is_limit(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_origin(value: object) -> bool:
    return value == _ANY or (_are_texts(value) and bool(value))


# Of each table, its keys and what their values must be; in ``distributions``, any key names one.
_KEYS: Mapping[str, Mapping[str, Callable[[object], bool]]] = {
    "run": {
        "max_epsilon": _is_limit,
        "max_delta": _is_limit,
        "accountants": _are_texts,
        "private_only": _is_truth,
    },
    "account": {"max_epsilon": _is_limit, "max_delta": _is_limit, "open": _is_truth},
    "ledger": {"url": _is_text, "accounts": _are_texts, "log": _is_text},
    "distributions": {},
}


@attrs.frozen
class Rules:
    """The rules of one file.

    Attributes
    ----------
    path
        The file, to be quoted.
    tables
        Its tables, checked.
    """

    path: Path
    tables: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Rules:
        """Return the rules in a file.

        Raises
        ------
        InvalidPolicy
            If it cannot be read, or has a key or a value that is not known.
        """
        document = read_toml(path, "policy", InvalidPolicy)
        for name, table in document.items():
            if name not in _KEYS or not isinstance(table, dict):
                raise InvalidPolicy(
                    f"policy {path} has an unknown table {name!r}; it may have {', '.join(_KEYS)}"
                )
            for key, value in table.items():
                fits = _is_origin if name == "distributions" else _KEYS[name].get(key)
                if fits is None:
                    raise InvalidPolicy(
                        f"policy {path} has an unknown key {key!r} in [{name}]; it may have "
                        f"{', '.join(_KEYS[name])}"
                    )
                if not fits(value):
                    raise InvalidPolicy(
                        f"policy {path} has {key} = {json.dumps(value)} in [{name}], which is not valid"
                    )
        return cls(path, document)

    def rule(self, table: str, key: str) -> Any:
        """Return the value of a key, or None."""
        return self.tables.get(table, {}).get(key)

    def quoted(self, table: str, key: str) -> str:
        """Return a rule as the file says it."""
        value = json.dumps(self.rule(table, key))
        shown = _PASSWORD.sub(r"\1***@", value)
        return f"{self.path} says [{table}] {key} = {shown}"


@attrs.frozen
class Policy:
    """All rules that hold here; without any, everything is allowed."""

    files: tuple[Rules, ...] = ()

    @classmethod
    def of_site(cls) -> Policy:
        """Return the rules of this installation and of the service that it runs in.

        Raises
        ------
        InvalidPolicy
            If a file cannot be read, or ``DPKIT_POLICY`` names none.
        """
        paths = [path for path in INSTALLED if _exists(path)]
        if named := os.environ.get(VARIABLE):
            paths.append(Path(named))
        return cls(tuple(Rules.read(path) for path in dict.fromkeys(paths)))

    def require_budget(self, budget: Budget) -> None:
        """Raise ``AgainstPolicy`` unless a run may ask for this budget."""
        self._require_within("run", budget, "this run asks for")

    def require_account(self, account: Account) -> None:
        """Raise ``AgainstPolicy`` unless such an account may be opened."""
        for rules in self._with("account", "open"):
            if not rules.rule("account", "open"):
                raise AgainstPolicy(f"{rules.quoted('account', 'open')}, so no account is opened here")
        self._require_within("account", account.budget, f"account {account.name} would have")

    def require_part(self, role: str, name: str, distribution: str, version: str) -> None:
        """Raise ``AgainstPolicy`` unless a part may be loaded; it is not needed to find out.

        Parameters
        ----------
        role, name
            What it is, and what it is called.
        distribution, version
            Where it comes from; empty where that is no installed distribution.
        """
        for rules in self.files:
            allowed = rules.rule("run", "accountants")
            if (
                role == "accountant"
                and allowed is not None
                and not {name, f"{distribution}:{name}"} & set(allowed)
            ):
                raise AgainstPolicy(f"{rules.quoted('run', 'accountants')}; this run names {name}")
            if "distributions" in rules.tables:
                _require_distribution(rules, f"{role} {name}", distribution, version)

    def require_private(self, certificate: Certificate) -> None:
        """Raise ``AgainstPolicy`` unless a run may be as private as is known of its certificate before it."""
        for rules in self.files:
            if rules.rule("run", "private_only") and not certificate.private:
                raise AgainstPolicy(
                    f"{rules.quoted('run', 'private_only')}; this run is not private: "
                    f"{'; '.join(certificate.reasons)}"
                )

    def payer(self, given: Payer | None) -> Payer | None:
        """Return who pays for a run: whom the user names, in the site's ledger if it demands one.

        Raises
        ------
        AgainstPolicy
            If the site demands a ledger, and the user names no account or one in another ledger.
        """
        for rules in self._with("ledger", "url"):
            demanded = Ledger.open(rules.rule("ledger", "url"))
            if given is None:
                names = ", ".join(each.account.name for each in demanded.accounts()) or "none yet"
                raise AgainstPolicy(
                    f"{rules.quoted('ledger', 'url')}, so every run is charged there; name an account, such "
                    f"as --account NAME. There are: {names}"
                )
            if given.ledger.id != demanded.id or given.ledger.store != demanded.store:
                raise AgainstPolicy(
                    f"{rules.quoted('ledger', 'url')}, and this run names an account of {given.ledger!r}"
                )
        for rules in self._with("ledger", "accounts"):
            if given is None or given.account not in rules.rule("ledger", "accounts"):
                named = "no account" if given is None else f"account {given.account}"
                raise AgainstPolicy(f"{rules.quoted('ledger', 'accounts')}; this run names {named}")
        return given

    @property
    def ledger(self) -> str | None:
        """URL of the ledger that the site demands."""
        return next((rules.rule("ledger", "url") for rules in self._with("ledger", "url")), None)

    @property
    def log(self) -> Path | None:
        """The log of charged runs."""
        return next((Path(rules.rule("ledger", "log")) for rules in self._with("ledger", "log")), None)

    def _with(self, table: str, key: str) -> Iterator[Rules]:
        return (rules for rules in self.files if rules.rule(table, key) is not None)

    def _require_within(self, table: str, budget: Budget, who: str) -> None:
        for key, value in (("max_epsilon", budget.epsilon), ("max_delta", budget.delta)):
            for rules in self._with(table, key):
                if value > rules.rule(table, key):
                    raise AgainstPolicy(f"{rules.quoted(table, key)}; {who} {value:g}")


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InvalidPolicy(f"cannot see whether there is a policy {path}: {error.strerror}") from error
    return True


def _require_distribution(rules: Rules, what: str, distribution: str, version: str) -> None:
    known = {canonical(name): name for name in rules.tables["distributions"]}
    if not distribution or canonical(distribution) not in known:
        raise AgainstPolicy(
            f"{rules.path} lists under [distributions] where parts may come from; {what} comes from "
            f"{distribution or 'none'}"
        )
    key = known[canonical(distribution)]
    allowed = rules.rule("distributions", key)
    if allowed == _ANY or version in allowed:
        return
    installed = ""
    if any(each.startswith("sha256:") for each in allowed):
        installed = installed_digest(distribution)
        if installed in allowed:
            return
    raise AgainstPolicy(
        f"{rules.quoted('distributions', key)}; installed is {version}"
        + (f", {installed}" if installed else "")
    )


def installed_digest(distribution: str) -> str:
    """Return the digest of the installed files of a distribution, as a policy may name it.

    That of the lines ``path, two spaces, SHA-256 of the file``, of every file that its metadata list in order
    of their paths, compiled ones and what installers write about themselves left out.

    Raises
    ------
    InvalidPolicy
        If the files are not listed, or are elsewhere, as in an editable installation.
    """
    found = importlib.metadata.distribution(distribution)
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if not found.files or origin.get("dir_info", {}).get("editable"):
        raise InvalidPolicy(
            f"{distribution} is installed in a way that does not list its files, such as editable; a policy "
            "can name its versions, and no digest"
        )
    lines = []
    for file in sorted(found.files, key=str):
        if file.suffix == ".pyc" or _BY_INSTALLERS.search(str(file)):
            continue
        try:
            content = Path(str(found.locate_file(file))).read_bytes()
        except OSError as error:
            raise InvalidPolicy(f"cannot read {file} of {distribution}: {error.strerror}") from error
        lines.append(f"{file}  {hashlib.sha256(content).hexdigest()}\n")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


_BY_INSTALLERS = re.compile(r"\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_cache\.json)$")
