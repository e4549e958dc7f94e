"""Parties and a server in processes of their own: who is let in, who dies when, and what each is charged."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from dpkit_cli.app import app
from dpkit_engine_federation import GrpcTransport, Identity, Terms, agree, join, plan_of, serving
from dpkit_engine_federation.keys import certified
from dpkit_engine_federation.transport import NoAnswer, Void
from typer.testing import CliRunner

from dpkit_core import Budget, Dataset, Release, Schema, compose, verify
from dpkit_core.errors import Declined, EngineFailed, InvalidOption
from dpkit_core.files.documents import to_toml
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.privacy.events import expand

NAMES = ("north", "south", "west")
SCHEMA = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (-2, 2)})
DPKIT = Path(sys.executable).parent / "dpkit"


def pem(identity: Identity) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return identity._key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())


def save(found: Federation, name: str) -> None:
    X, y = found.data(name).X, found.data(name).y
    lines = [",".join(map(repr, map(float, (*row, target)))) for row, target in zip(X, y, strict=True)]
    (found.folder / f"{name}.csv").write_text("\n".join(["a,b,y", *lines]))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@attrs.frozen
class Federation:
    """Terms of three parties with their keys and records, in a folder."""

    folder: Path
    keys: dict[str, Identity]
    terms: Terms

    def data(self, name: str) -> Dataset:
        rng = np.random.default_rng(NAMES.index(name))
        X = rng.uniform(-1, 1, (400, 2))
        return Dataset.from_arrays(X, X[:, 0] - X[:, 1] / 2, SCHEMA)

    def transport(self, name: str, wait: float = 30.0) -> GrpcTransport:
        return GrpcTransport(self.terms, self.keys[name], wait)


def federation(folder: Path, part: str = "boosted_trees", *, trees: int = 4, **options: Any) -> Federation:
    keys = {name: Identity() for name in (*NAMES, "server")}
    for name, key in keys.items():
        path = folder / f"{name}.key"
        path.write_bytes(pem(key))
        path.chmod(0o600)
    settings = {"regressor": {"trees": trees}} if part == "boosted_trees" else {}
    plan = compose(regressor=part, options=settings).plan(SCHEMA, Budget(2.0, 1e-6))
    terms = agree(
        plan,
        {name: keys[name].public for name in NAMES},
        server=keys["server"].public,
        address=f"127.0.0.1:{free_port()}",
        **{"least": 2, "patience": 3.0, "spare": 1, **options},
    )
    (folder / "terms.toml").write_text(terms.to_toml())
    return Federation(folder, keys, terms)


@contextmanager
def served(found: Federation, reports: list[str] | None = None, wait: float = 30.0) -> Iterator[Any]:
    said = [] if reports is None else reports
    address = found.terms.address
    with serving(found.terms, found.keys["server"], listen=address, wait=wait, report=said.append) as server:
        yield server[0]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    return federation(tmp_path_factory.mktemp("three"), "adassp", spare=0)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Return what calls in threads return or raise."""
    ends: list[Any] = [None] * len(calls)

    def one(place: int) -> None:
        try:
            ends[place] = calls[place]()
        except BaseException as error:
            ends[place] = error

    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    return ends


# What the server does


def test_the_server_adds_up_and_says_who_is_missing(three: Federation) -> None:
    words = {name: np.array([2**63 + i, i], "<u8").tobytes() for i, name in enumerate(NAMES)}
    total = np.array([2**63 + 3, 3], "<u8").tobytes()
    reports: list[str] = []
    with served(three, reports):
        by_name = {name: three.transport(name) for name in NAMES}
        north, south, west = by_name.values()
        met = at_once(*(partial(each.meet, "hello", n, NAMES, n.encode()) for n, each in by_name.items()))
        assert met == [{name: name.encode() for name in NAMES}] * 3
        # As where a server goes on with a run that has ended.
        with pytest.raises(NoAnswer, match=f"delete {three.terms.journal} beside its terms"):
            west.meet("hello", "west", NAMES, b"of another run")
        sums = at_once(*(partial(each.add, "1/0", n, NAMES, words[n]) for n, each in by_name.items()))
        assert sums == [total] * 3
        # Asked again, as it is: the same answer. With another vector: none.
        assert north.add("1/0", "north", NAMES, words["north"]) == total
        with pytest.raises(NoAnswer, match="left out"):
            north.add("1/0", "north", NAMES, words["south"])
        west.leave("west")
        rooms = at_once(
            lambda: north.add("2/0", "north", NAMES, words["north"]),
            lambda: south.add("2/0", "south", NAMES, words["south"]),
        )
        assert rooms == [Void(("north", "south"))] * 2
        north.leave("north")
        south.leave("south")
    assert any("west missing from sum 2/0" in sentence for sentence in reports)


def test_only_the_parties_of_the_terms_are_let_in_and_only_as_themselves(three: Federation) -> None:
    parties = dict(three.terms.parties)
    assert certified(three.keys["north"].certificate("north")[1], parties) == "north"
    assert certified(three.keys["north"].certificate("south")[1], parties) is None
    assert certified(Identity().certificate("north")[1], parties) is None
    stranger = Identity()
    believing = attrs.evolve(three.terms, parties={**parties, "west": stranger.public}, patience=0.5)
    with served(three) as relay:
        with pytest.raises(NoAnswer, match="do not name this party's key"):
            GrpcTransport(believing, stranger).add("1/0", "west", NAMES, b"")
        # Who says to be another is taken for who its certificate says.
        three.transport("north").leave("south")
        assert not relay.over(0.0)
        assert relay._gone == {"north"}
    with pytest.raises(InvalidOption, match="no party with the key"):
        GrpcTransport(three.terms, stranger)


def test_another_server_is_not_believed(three: Federation) -> None:
    other = attrs.evolve(three.terms, server=Identity().public)
    with served(three), pytest.raises(NoAnswer, match="does not have the server's key"):
        GrpcTransport(other, three.keys["north"]).meet("hello", "north", NAMES, b"")
    with pytest.raises(InvalidOption, match="the terms name the server's key"):
        served(attrs.evolve(three, terms=other)).__enter__()


def test_a_server_that_is_away_ends_a_run_when_patience_is_over(three: Federation) -> None:
    terms = attrs.evolve(three.terms, patience=0.4)
    with pytest.raises(NoAnswer, match=r"the server at 127\.0\.0\.1:\d+ is away"):
        GrpcTransport(terms, three.keys["north"]).add("1/0", "north", NAMES, b"")


def test_what_is_no_message_is_refused_and_the_server_stays(three: Federation) -> None:
    with served(three):
        transport = attrs.evolve(three.transport("north"))
        for request in (b"no json", b"[1]", b'["1/0", 3]'):
            with pytest.raises(NoAnswer):
                transport._call("Add", request, 1.0)
        alone = transport.add("1/0", "north", ("north",), bytes(8))
        assert alone == bytes(8)


@pytest.mark.slow
def test_a_server_needs_nothing_that_computes() -> None:
    """It imports no room of the core that has to do with records, noise or plans."""
    code = (
        "import sys\n"
        "from dpkit_engine_federation import command, keys, network, terms, transport\n"
        "print(*sorted({name.split('.')[1] for name in sys.modules if name.startswith('dpkit_core.')}))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('dpkit_') and 'core' not in name))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms, parts = done.stdout.splitlines()
    assert not set(rooms.split()) & {"pipeline", "noise", "mechanisms", "release", "ledger"}
    assert {part.split(".")[0] for part in parts.split()} == {"dpkit_cli", "dpkit_engine_federation"}
    assert not {"party", "shares", "joining"} & {part.rpartition(".")[2] for part in parts.split()}


# The commands


def invoke(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.slow
def test_terms_are_planned_from_a_plan_and_public_keys(three: Federation) -> None:
    folder = three.folder
    (folder / "schema.toml").write_text(to_toml(SCHEMA.to_document()))
    for name in (*NAMES, "server"):
        assert invoke("key", "new", folder / f"{name}2").exit_code == 0
    saved = ["compose", "--schema", folder / "schema.toml", "--regressor", "adassp", "--dry-run"]
    assert invoke(*saved, "--save", folder / "plan.toml").exit_code == 0
    parties = [word for name in NAMES for word in ("--party", f"{name}={folder / name}2.pub")]
    where = ["--server", "localhost:1", "--server-key", folder / "server2.pub", "-o", folder / "new.toml"]
    done = invoke("federate", "plan", folder / "plan.toml", *parties, *where, "--least", 2)
    assert done.exit_code == 0, done.output
    terms = Terms.read(folder / "new.toml")
    assert (terms.colluders, terms.least, terms.spare, terms.budget.epsilon) == (1, 2, 1, 1.0)
    assert terms.digest in done.output
    twice = invoke("federate", "plan", folder / "plan.toml", *parties[:2], *parties[:2], *where, "--force")
    assert twice.exit_code == 2
    assert "twice" in twice.output


def test_nothing_is_sent_before_somebody_has_agreed(three: Federation) -> None:
    save(three, "north")
    given = [
        "federate",
        "join",
        three.folder / "terms.toml",
        three.folder / "north.csv",
        "--key",
        three.folder / "north.key",
    ]
    reports: list[str] = []
    with served(three, reports):
        silent = invoke(*given, "-o", three.folder / "out.json")
        assert silent.exit_code == 2
        assert f"--agree {three.terms.digest}" in silent.output
        other = invoke(*given, "-o", three.folder / "out.json", "--agree", "0" * 64)
        assert other.exit_code == 2
        assert "other terms than were agreed on" in other.output
    assert reports == []
    assert not (three.folder / "out.json").exists()
    (three.folder / "north.key").chmod(0o644)
    assert "chmod 600" in invoke(*given, "--agree", three.terms.digest).output


@contextmanager
def process(*words: object, **options: Any) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def serve(found: Federation, wait: float = 6) -> Any:
    words = ["federate", "serve", found.folder / "terms.toml", "--key", found.folder / "server.key"]
    return process(DPKIT, *words, "--listen", found.terms.address, "--wait", wait)


def up(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    line = server.stdout.readline()
    assert "listening" in line, line


def ledgers(found: Federation) -> dict[str, Ledger]:
    made = {}
    for name in NAMES:
        made[name] = Ledger.create(str(found.folder / f"{name}.ledger"))
        made[name].add(Account("table", SCHEMA, Budget(5.0, 1e-5)))
    return made


def charges(ledger: Ledger) -> list[Any]:
    return [entry for entry in ledger.entries() if entry.kind == "reserved"]


def model(release: Any) -> str:
    assert isinstance(release, Release), repr(release)
    return json.dumps(release.to_document()["model"], sort_keys=True)


@pytest.mark.slow
def test_three_processes_and_a_server_release_one_model(tmp_path: Path) -> None:
    found = federation(tmp_path, patience=30.0)
    made = ledgers(found)
    with serve(found, wait=80) as server:
        up(server)
        parties = []
        for name in NAMES:
            save(found, name)
            words = ["federate", "join", tmp_path / "terms.toml", tmp_path / f"{name}.csv"]
            keys = ["--key", tmp_path / f"{name}.key", "--agree", found.terms.digest]
            paying = ["--ledger", tmp_path / f"{name}.ledger", "--account", "table"]
            parties.append(process(DPKIT, *words, *keys, *paying, "-o", tmp_path / f"{name}.json"))
        with parties[0] as north, parties[1] as south, parties[2] as west:
            outputs = [party.communicate(timeout=90)[0] for party in (north, south, west)]
            assert [party.returncode for party in (north, south, west)] == [0, 0, 0], outputs
        said, _ = server.communicate(timeout=20)
        assert server.returncode == 0
    assert "all have left" in said
    releases = [Release.read(tmp_path / f"{name}.json") for name in NAMES]
    assert len({model(release) for release in releases}) == 1
    assert all(release.certificate.private for release in releases)
    assert [len(charges(ledger)) for ledger in made.values()] == [1, 1, 1]
    assert invoke("verify", tmp_path / "west.json").exit_code == 0


# Who dies when

# Starts victims by forking, so that each is a process of its own and none imports everything again.
NURSERY = r"""
import os, signal, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_network as here
with tempfile.TemporaryDirectory() as folder:
    here.federation(Path(folder))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    if os.fork() == 0:
        try:
            here.be_killed(*line.split())
        finally:
            os._exit(1)
"""


class Dying(GrpcTransport):
    """Of a party that stops before a step, or while it is done, until it is killed."""

    at: str = ""
    when: str = ""

    def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        return self.step(phase, lambda: super(Dying, self).meet(phase, name, members, message))

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        return self.step(room, lambda: super(Dying, self).add(room, name, members, message))

    def step(self, step: str, call: Callable[[], Any]) -> Any:
        if step != self.at:
            return call()
        if self.when == "after":
            thread = threading.Thread(target=call, daemon=True)
            thread.start()
            thread.join(0.5)  # it is sent by then, and what is answered is not read
        os.write(1, b"here\n")  # what a part at work prints goes elsewhere
        time.sleep(60)
        return None


def be_killed(path: str, at: str, when: str, name: str) -> None:
    """Be a party until a step: one of the transport, the charge, or the writing of the release."""
    folder = Path(path)
    terms, key = Terms.read(folder / "terms.toml"), Identity.read(folder / f"{name}.key")
    transport = Dying(terms, key, 30.0)
    transport.at, transport.when = at, when
    reserve = Ledger.reserve
    Ledger.reserve = lambda *given: transport.step("charge", lambda: reserve(*given))  # type: ignore[method-assign]
    found = Federation(folder, {}, terms)
    plan_of(terms)
    os.write(1, f"{os.getpid()}\n".encode())
    paid_by = Ledger.open(str(folder / f"{name}.ledger")).payer("table")
    release = join(found.data(name), terms, identity=key, transport=transport, paid_by=paid_by)
    transport.step("release", lambda: release.write(folder / f"{name}.json"))


@pytest.fixture(scope="module")
def nursery() -> Iterator[subprocess.Popen[str]]:
    words = (sys.executable, "-c", NURSERY, Path(__file__).parent)
    with process(*words, stdin=subprocess.PIPE) as started:
        yield started
        assert started.stdin is not None
        started.stdin.close()


def victim(nursery: subprocess.Popen[str], *words: object) -> Callable[[], None]:
    """Start a party; return what kills it where it is to be."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    print(*words, file=nursery.stdin, flush=True)
    number = nursery.stdout.readline()
    assert number.strip().isdigit(), number

    def killed() -> None:
        assert nursery.stdout is not None
        line = nursery.stdout.readline()
        assert line == "here\n", line
        os.kill(int(number), signal.SIGKILL)

    return killed


def rooms_of(found: Federation) -> int:
    return sum(1 for item in plan_of(found.terms).events for _ in expand((item.event,)))


def honest(found: Federation, name: str, made: dict[str, Ledger], transport: Any = None) -> Callable[[], Any]:
    return lambda: join(
        found.data(name),
        found.terms,
        identity=found.keys[name],
        transport=transport or found.transport(name, wait=20.0),
        paid_by=made[name].payer("table"),
    )


# Who is charged, by where a party dies.
NOBODY, OTHERS, ALL = "nobody", "others", "all"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "when", "ends"),
    [
        ("hello", "before", NOBODY),
        ("hello", "after", NOBODY),
        ("seeds", "before", NOBODY),
        ("seeds", "after", OTHERS),
        ("charge", "before", OTHERS),
        ("charge", "after", ALL),
        ("1/0", "before", ALL),
        ("2/0", "before", ALL),  # after a total, before the next round
        ("3/0", "after", ALL),  # the mask is sent, the total not read
        ("last", "after", ALL),
        ("closing", "before", ALL),
        ("closing", "after", ALL),
        ("release", "before", ALL),
        ("release", "after", ALL),
    ],
)
def test_a_party_that_is_killed_is_left_out_and_everybody_is_charged_once(
    tmp_path: Path, nursery: subprocess.Popen[str], at: str, when: str, ends: str
) -> None:
    """But who has only met the others, and died before it was charged: it has sent nothing of its records."""
    found = federation(tmp_path, patience=3.0)
    made = ledgers(found)
    step = at if at != "last" else f"{rooms_of(found) - 1}/0"  # one event is the spare attempt
    with served(found, wait=4.0):
        killed = victim(nursery, tmp_path, step, when, "west")
        north, south, error = at_once(honest(found, "north", made), honest(found, "south", made), killed)
        assert error is None
        # Started again, it is no party of this run, which goes on, or has ended, without it.
        with pytest.raises(Declined, match=r"has begun a run|did not join"):
            honest(found, "west", made)()
    charged = [len(charges(Ledger.open(str(tmp_path / f"{name}.ledger")))) for name in NAMES]
    assert charged == {NOBODY: [0, 0, 0], OTHERS: [1, 1, 0], ALL: [1, 1, 1]}[ends]
    assert (tmp_path / "west.json").exists() is ((at, when) == ("release", "after"))
    if ends == NOBODY:
        assert isinstance(north, Declined), repr(north)
        assert isinstance(south, Declined), repr(south)
        return
    assert model(north) == model(south)
    assert north.certificate.epsilon <= 2.0
    compared = north.certificate.arithmetic[-1]
    assert ("west released was not compared" in compared) is (
        (at, when) in {("last", "after"), ("closing", "before")}
    )
    if at == "release" or (at, when) == ("closing", "after"):
        assert "3 parties computed the same release" in compared


@pytest.mark.slow
def test_a_party_killed_in_a_repeated_attempt_ends_a_run_that_needs_it(
    tmp_path: Path, nursery: subprocess.Popen[str]
) -> None:
    found = federation(tmp_path, patience=3.0)
    made = ledgers(found)
    with served(found):
        west = victim(nursery, tmp_path, "3/0", "before", "west")
        south = victim(nursery, tmp_path, "3/1", "before", "south")
        north, *errors = at_once(honest(found, "north", made), lambda: (west(), south()))
    assert errors == [(None, None)]
    assert isinstance(north, EngineFailed), repr(north)
    assert "south did not answer in time; 1 parties are left" in str(north)
    assert [len(charges(Ledger.open(str(tmp_path / f"{name}.ledger")))) for name in NAMES] == [1, 1, 1]


class Watched(GrpcTransport):
    """Kills the server when it comes to a room; may start it again."""

    at: str = ""
    strike: Callable[[], None] = staticmethod(lambda: None)

    def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        if phase == self.at:
            self.strike()
        return super().meet(phase, name, members, message)

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        if room == self.at:
            self.strike()
        return super().add(room, name, members, message)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("at", "again"),
    [
        ("hello", False),
        ("hello", True),
        ("seeds", False),
        ("seeds", True),
        ("1/0", False),
        ("3/0", False),
        ("3/0", True),
        ("last", False),
        ("closing", False),
        ("closing", True),
    ],
)
def test_a_server_that_is_killed_ends_the_run_unless_it_is_back_in_time(
    tmp_path: Path, at: str, again: bool
) -> None:
    found = federation(tmp_path, patience=20.0 if again else 5.0)
    made = ledgers(found)
    with serve(found) as server:
        up(server)
        second: list[Any] = []

        others = threading.Semaphore(0)

        def strike() -> None:
            if not again:
                assert all(others.acquire(timeout=60) for _ in NAMES[1:])
            # Else the server may have told a sum to north alone: it has it in its journal.
            os.kill(server.pid, signal.SIGKILL)
            server.wait()
            if again:
                second.append(serve(found))
                up(second[0].__enter__())

        def watched(name: str) -> Watched:
            watching = Watched(found.terms, found.keys[name], 20.0 if again else 3.0)
            watching.at = at if at != "last" else f"{rooms_of(found) - 1}/0"
            watching.strike = strike if name == "north" else others.release
            return watching

        calls = [honest(found, name, made, watched(name)) for name in NAMES]
        ends = at_once(*calls)
        for started in second:
            started.__exit__(None, None, None)
    charged = [len(charges(ledger)) for ledger in made.values()]
    if again or at == "closing":
        assert len({model(end) for end in ends}) == 1
        for end in ends:
            compared = "computed the same release" if again else "released was not compared"
            assert compared in end.certificate.arithmetic[-1]
            assert verify(end).confirmed
    else:
        kind = Declined if at in {"hello", "seeds"} else EngineFailed
        assert all(isinstance(end, kind) for end in ends), ends
        assert all("is away" in str(end) for end in ends), ends
    assert charged == [0 if at in {"hello", "seeds"} and not again else 1] * 3
