"""Federations by mailboxes: who may do what to one, and a real SuperLink where Flower is installed."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives import serialization as form
from dpkit_cli.app import app
from dpkit_engine_federation import Identity, MailboxTransport, NoAnswer, Relay, Terms, Void, agree, join
from dpkit_engine_federation.mailbox import collected, delivered, replied
from typer.testing import CliRunner

from dpkit_core import Budget, Dataset, Randomness, Release, Schema, compose, verify
from dpkit_core.errors import Declined, InvalidOption
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.ledger import Ledger

NAMES = ("north", "south", "west")
DPKIT = Path(sys.executable).parent / "dpkit"
SCHEMA = Schema.numeric(["a"], "y", {"a": (-1, 1), "y": (-2, 2)})
APP = Path(__file__).parents[1] / "flower"
#: Flower pins what dpkit does not, so it has an environment of its own, with this distribution in it.
FLOWER = os.environ.get("DPKIT_FLOWER", "")


def agreed() -> tuple[Terms, dict[str, Identity]]:
    keys = {name: Identity() for name in NAMES}
    plan = compose(regressor="mean", options={"regressor": {"noise": "gaussian"}}).plan(
        SCHEMA, Budget(2.0, 1e-6)
    )
    public = {name: key.public for name, key in keys.items()}
    return agree(plan, public, server=Identity().public, patience=120.0), keys


def data(name: str) -> Dataset:
    rng = np.random.default_rng(NAMES.index(name))
    X = rng.uniform(-1, 1, (500, 1))
    return Dataset.from_arrays(X, 0.5 + X[:, 0] / 2, SCHEMA)


def joined(
    terms: Terms, keys: dict[str, Identity], boxes: dict[str, Path], patience: float
) -> dict[str, Any]:
    """Return what each party ends with, each in a thread, with noise of a seed."""
    ends: dict[str, Any] = {}

    def party(place: int, name: str) -> None:
        try:
            ends[name] = join(
                data(name),
                terms,
                identity=keys[name],
                transport=MailboxTransport(boxes[name], patience),
                seed=place,
                randomness=Randomness.from_seed(place),
            )
        except BaseException as error:
            ends[name] = error

    threads = [threading.Thread(target=party, args=pair) for pair in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience)
    return ends


def postman(relay: Relay, name: str, box: Path) -> None:
    """Do what Flower does at a node and at the server, in one process."""
    number, answer = 0, b""
    while True:
        if number:
            delivered(box, number, answer)
        number, said = collected(box, number, wait=60.0)
        answer = replied(relay, name, said)
        if answer == b"":
            return


def by_post(terms: Terms, keys: dict[str, Identity], folder: Path) -> dict[str, Any]:
    boxes = {name: folder / name for name in NAMES}
    relay = Relay(NAMES, 30.0)
    posts = [threading.Thread(target=postman, args=(relay, name, box)) for name, box in boxes.items()]
    for box in boxes.values():
        box.mkdir()
    for post in posts:
        post.start()
    ends = joined(terms, keys, boxes, 30.0)
    for post in posts:
        post.join(30)
    return ends


def models(ends: dict[str, Any]) -> set[str]:
    assert all(isinstance(end, Release) for end in ends.values()), ends
    return {json.dumps(end.to_document()["model"], sort_keys=True) for end in ends.values()}


def test_parties_that_share_no_more_than_mailboxes_release_one_model(tmp_path: Path) -> None:
    ends = by_post(*agreed(), tmp_path)
    assert len(models(ends)) == 1
    assert all(verify(end).confirmed for end in ends.values())
    # What is in a mailbox is masked: the sums of 500 records are small, and masks are not.
    (message,) = [
        file.read_bytes().split(b"\n", 2)[2]
        for file in (tmp_path / "north").glob("message-*")
        if file.read_bytes().startswith(b"add")
    ]
    assert np.abs(np.frombuffer(message, "<i8").astype(float)).min() > 2**48


@pytest.mark.slow
def test_the_command_of_the_readme_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    terms, keys = agreed()
    Path("terms.toml").write_text(terms.to_toml())
    line = re.findall(r"^dpkit (federate join .*)$", (APP / "README.md").read_text(), re.MULTILINE)[0]
    relay, ends, threads = Relay(NAMES, 60.0), dict[str, Any](), []
    for name in NAMES:
        private = keys[name]._key
        Path(f"{name}.key").write_bytes(
            private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        )
        Path(f"{name}.key").chmod(0o600)
        held = data(name)
        pd.DataFrame({"a": held.X[:, 0], "y": held.y}).to_csv(f"{name}.csv", index=False)
        box = tmp_path / f"{name}.box"
        box.mkdir()
        words = [*line.replace("MAILBOX", str(box)).replace("north", name).split(), "--agree", terms.digest]
        threads.append(threading.Thread(target=postman, args=(relay, name, box)))
        threads.append(threading.Thread(target=lambda n, w: ends.update({n: run(*w)}), args=(name, words)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [ends[name].returncode for name in NAMES] == [0, 0, 0], ends
    assert len(models({name: Release.read(f"{name}.json") for name in NAMES})) == 1


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(DPKIT), *words], check=False, capture_output=True, text=True)


def test_an_address_and_a_mailbox_are_one_too_many(tmp_path: Path) -> None:
    terms, keys = agreed()
    (tmp_path / "terms.toml").write_text(terms.to_toml())
    key = tmp_path / "north.key"
    private = keys["north"]._key
    key.write_bytes(private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    key.chmod(0o600)
    words = ["federate", "join", tmp_path / "terms.toml", "north.csv", "--key", key, "--mailbox", tmp_path]
    done = CliRunner().invoke(app, [*map(str, words), "--server", "relay.example:1"])
    assert done.exit_code == 2
    assert f"--mailbox {tmp_path} and --server relay.example:1" in done.output.replace("\n", " ")


def test_a_mailbox_is_an_empty_folder_of_one_party(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="No such file"):
        MailboxTransport(tmp_path / "missing")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidOption, match="Not a directory"):
        MailboxTransport(tmp_path / "file")
    with pytest.raises(InvalidOption, match="not empty: file is in it"):
        MailboxTransport(tmp_path)
    box = tmp_path / "box"
    box.mkdir()
    # Both find it empty; who comes second says nothing, not even that it leaves.
    first, second = MailboxTransport(box, 0.1), MailboxTransport(box, 0.1)
    with pytest.raises(NoAnswer, match="nobody brought an answer"):
        first.meet("hello", "north", NAMES, b"")
    with pytest.raises(NoAnswer, match="another party uses"):
        second.meet("hello", "south", NAMES, b"")
    second.leave("south")
    assert {file.name for file in box.iterdir()} == {"taken", "message-1"}
    shutil.rmtree(box)
    with pytest.raises(NoAnswer, match="cannot write"):
        first.add("1/0", "north", NAMES, bytes(8))
    first.leave("north")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_mailbox_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidOption, match="read-only"):
        MailboxTransport(tmp_path)


def opened(box: Path) -> MailboxTransport:
    box.mkdir()
    return MailboxTransport(box, 0.1)


def test_a_message_is_collected_and_answered_once(tmp_path: Path) -> None:
    box = tmp_path / "box"
    with pytest.raises(NoAnswer, match="nobody brought"):
        opened(box).add("1/0", "north", NAMES, bytes(8))
    assert collected(box, 1, wait=0.0) == (1, b"")
    number, said = collected(box, 0)
    assert number == 1
    assert replied(Relay(NAMES, 0.1), "north", said) == b'V["north"]'
    for name, nonsense in (
        *(("east", said), ("north", b"add\n3"), ("north", b"\xff"), ("../north", said)),
        ("north", b"add\n" + b"[" * 10**5),
    ):
        assert replied(Relay(NAMES, 0.1), name, nonsense) == b"X"
    for answer, end in ((b'V["north"]', Void(("north",))), (b"S12345678", b"12345678")):
        other = opened(tmp_path / answer.hex())
        delivered(other.mailbox, 1, answer)
        assert other.add("1/0", "north", NAMES, bytes(8)) == end


@pytest.mark.parametrize(
    "answer", [b"X", b"", b"V", b"V[1]", b"M", b"M[]", b'M{"north": "zz"}', b'M{"north"', b"S", b"?" * 9]
)
def test_what_cannot_be_read_is_no_answer(tmp_path: Path, answer: bytes) -> None:
    transport = opened(tmp_path / "box")
    delivered(transport.mailbox, 1, answer)
    with pytest.raises(NoAnswer, match=r"left out|cannot be read"):
        transport.meet("hello", "north", NAMES, b"")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_ordinary_file_is_neither_read_nor_written_to(tmp_path: Path, kind: str) -> None:
    transport, elsewhere = opened(tmp_path / "box"), tmp_path / "elsewhere"
    elsewhere.write_bytes(b"S12345678")
    for name in ("answer-1", "message-1"):
        file = transport.mailbox / name
        if kind == "link":
            file.symlink_to(elsewhere)
        elif kind == "pipe":
            os.mkfifo(file)
        else:
            file.mkdir()
    with pytest.raises(NoAnswer, match=r"cannot (read|write)|ordinary"):
        collected(transport.mailbox, 0)
    with pytest.raises(NoAnswer, match=r"cannot (read|write)|ordinary"):
        transport.add("1/0", "north", NAMES, bytes(8))
    with suppress(IsADirectoryError):
        delivered(transport.mailbox, 1, b"S")
    assert elsewhere.read_bytes() == b"S12345678"


def test_a_mailbox_of_an_earlier_run_spends_nothing(tmp_path: Path) -> None:
    """Its answers were honest and signed, with these terms and keys; they are not of this run."""
    terms, keys = agreed()
    (tmp_path / "first").mkdir()
    models(by_post(terms, keys, tmp_path / "first"))
    box = tmp_path / "box"
    transport = opened(box)
    for file in (tmp_path / "first/north").glob("answer-*"):
        shutil.copy(file, box)
    ledger = Ledger.create(str(tmp_path / "ledger"))
    ledger.add(Account("table", SCHEMA, Budget(5.0, 1e-5)))
    paid_by = ledger.payer("table")
    with pytest.raises(Declined, match=r"of another run\. Nothing is spent"):
        join(data("north"), terms, identity=keys["north"], transport=transport, paid_by=paid_by)
    assert all(entry.kind != "reserved" for entry in ledger.entries())
    assert (box / "message-2").read_bytes() == b"leave\n"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int) -> None:
    """Wait until a server is up: who starts a run does not try again."""
    for _ in range(240):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.5)
    raise TimeoutError("the SuperLink does not listen")


@contextmanager
def process(log: Path, *words: object, home: Path) -> Iterator[None]:
    environment = {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0"}
    environment["PATH"] = f"{FLOWER}{os.pathsep}{environment['PATH']}"
    with log.open("w") as file:
        started = subprocess.Popen(
            [str(word) for word in words],
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(started.pid, 15)
            started.wait(30)


@pytest.mark.slow
@pytest.mark.skipif(
    not FLOWER, reason="DPKIT_FLOWER does not name the programs of an environment with Flower"
)
def test_a_superlink_and_three_supernodes_release_what_a_relay_does(tmp_path: Path) -> None:
    terms, keys = agreed()
    (tmp_path / "here").mkdir()
    expected = models(by_post(terms, keys, tmp_path / "here"))
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    copy = tmp_path / "app"
    shutil.copytree(APP, copy)
    boxes = {name: tmp_path / f"{name}.box" for name in NAMES}
    with ExitStack() as started:

        def start(log: str, *words: object) -> None:
            started.enter_context(process(tmp_path / log, *words, home=home))

        start(
            "link.txt",
            f"{FLOWER}/flower-superlink",
            "--insecure",
            "--port",
            port,
            "--disable-runtime-dependency-installation",
        )
        listening(port)
        for name, box in boxes.items():
            box.mkdir()
            start(
                f"{name}.txt",
                f"{FLOWER}/flower-supernode",
                "--insecure",
                "--superlink",
                f"127.0.0.1:{port}",
                "--port",
                free_port(),
                "--node-config",
                f'party="{name}" mailbox="{box}"',
            )
        parties = f'parties="{" ".join(NAMES)}"'
        start("run.txt", f"{FLOWER}/flwr", "run", copy, "here", "--stream", "--run-config", parties)
        began = time.monotonic()
        ends = joined(terms, keys, boxes, 400.0)
        seconds = time.monotonic() - began
    logs = {file.name: file.read_text()[-3000:] for file in tmp_path.glob("*.txt")}
    assert all(isinstance(end, Release) for end in ends.values()), (ends, logs)
    assert models(ends) == expected
    print(f"{seconds:.0f} s for hello, seeds, one sum and the closing", file=sys.stderr)
