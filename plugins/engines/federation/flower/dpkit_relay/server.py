"""At the server: a relay of ``dpkit_engine_federation``, asked by each node in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import Any

from dpkit_engine_federation import Relay
from dpkit_engine_federation.mailbox import replied
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()

PAUSE = 0.1


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Relay until all parties have left."""
    names = str(context.run_config["parties"]).split()
    patience = float(context.run_config["patience"])
    relay, lock = Relay(names, patience, report=lambda said: print(said, flush=True)), threading.Lock()
    nodes: list[int] = []
    while len(nodes) < len(names):
        time.sleep(PAUSE)
        with lock:
            nodes = list(grid.get_node_ids())

    def ask(node: int, number: int, answer: bytes) -> Any:
        """Return what a node sends back; None if it does not."""
        content = RecordDict({"post": ConfigRecord({"number": number, "answer": answer})})
        with lock:
            waiting = set(grid.push_messages([Message(content, node, "query.post")]))
        until = time.monotonic() + patience
        while time.monotonic() < until:
            with lock:
                came = list(grid.pull_messages(waiting))
            if came:
                return None if came[0].has_error() else came[0].content["post"]
            time.sleep(PAUSE)
        return None

    def serve(node: int) -> None:
        number, answer, name = 0, b"", ""
        while (said := ask(node, number, answer)) is not None:
            name = str(said["party"])
            if int(said["number"]) == number:
                continue
            number = int(said["number"])
            answer = replied(relay, name, bytes(said["message"]))
            if answer == b"":  # it has left
                return
        relay.leave(name)

    threads = [threading.Thread(target=serve, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
