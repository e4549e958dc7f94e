"""Federations over mailboxes, and over a real SuperLink with three SuperNodes where Flower is installed."""

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
from dpkit_engine_federation import Identity, NoAnswer, Relay, Terms, Void, agree, join
from dpkit_engine_flower import FlowerTransport
from dpkit_engine_flower.mail import answered, collected, delivered

from dpkit_core import Budget, Dataset, Randomness, Release, Schema, compose, verify

NAMES = ("north", "south", "west")
SCHEMA = Schema.numeric(["a"], "y", {"a": (-1, 1), "y": (-2, 2)})
APP = Path(__file__).parents[1] / "app"
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
                transport=FlowerTransport(boxes[name], patience),
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
        answer = answered(relay, name, said)
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
        file.read_bytes().partition(b"\n")[2]
        for file in (tmp_path / "north").glob("message-*")
        if file.read_bytes().startswith(b'["add"')
    ]
    assert np.abs(np.frombuffer(message, "<i8").astype(float)).min() > 2**48


def test_the_program_of_the_readme_joins(tmp_path: Path) -> None:
    terms, keys = agreed()
    (tmp_path / "terms.toml").write_text(terms.to_toml())
    page = (Path(__file__).parents[1] / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    boxes = {name: tmp_path / f"{name}.box" for name in NAMES}
    relay = Relay(NAMES, 60.0)
    threads = []
    for name, box in boxes.items():
        key = tmp_path / f"{name}.key"
        private = keys[name]._key
        key.write_bytes(
            private.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        )
        key.chmod(0o600)
        held = data(name)
        pd.DataFrame({"a": held.X[:, 0], "y": held.y}).to_csv(tmp_path / f"{name}.csv", index=False)
        own = program.replace("MAILBOX", str(box)).replace("terms.toml", str(tmp_path / "terms.toml"))
        for end in ("csv", "key", "json"):
            own = own.replace(f"north.{end}", str(tmp_path / f"{name}.{end}"))
        box.mkdir()
        threads.append(threading.Thread(target=postman, args=(relay, name, box)))
        threads.append(threading.Thread(target=exec, args=(own, {})))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(models({name: Release.read(tmp_path / f"{name}.json") for name in NAMES})) == 1


def test_a_mailbox_is_of_one_run_and_answers_come_in_time(tmp_path: Path) -> None:
    transport = FlowerTransport(tmp_path / "box", 0.1)
    with pytest.raises(NoAnswer, match="brought no answer"):
        transport.add("1/0", "north", NAMES, bytes(8))
    with pytest.raises(NoAnswer, match="not empty"):
        FlowerTransport(tmp_path / "box")
    assert collected(tmp_path / "box", 1, wait=0.0) == (1, b"")
    number, said = collected(tmp_path / "box", 0)
    assert number == 1
    assert answered(Relay(NAMES, 0.1), "north", said) == b'V["north"]'
    assert answered(Relay(NAMES, 0.1), "east", said) == b"X"  # which is not a member
    for answer, end in ((b'V["north"]', Void(("north",))), (b"S12345678", b"12345678")):
        box = tmp_path / answer.hex()
        other = FlowerTransport(box)
        delivered(box, 1, answer)
        assert other.add("1/0", "north", NAMES, bytes(8)) == end
    box = tmp_path / "refused"
    refused = FlowerTransport(box)
    delivered(box, 1, b"X")
    with pytest.raises(NoAnswer, match="left out"):
        refused.meet("hello", "north", NAMES, b"")


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
    app = tmp_path / "app"
    shutil.copytree(APP, app)
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
        start("run.txt", f"{FLOWER}/flwr", "run", app, "here", "--stream", "--run-config", parties)
        began = time.monotonic()
        ends = joined(terms, keys, boxes, 400.0)
        seconds = time.monotonic() - began
    logs = {file.name: file.read_text()[-3000:] for file in tmp_path.glob("*.txt")}
    assert all(isinstance(end, Release) for end in ends.values()), (ends, logs)
    assert models(ends) == expected
    print(f"{seconds:.0f} s for hello, seeds, one sum and the closing", file=sys.stderr)
