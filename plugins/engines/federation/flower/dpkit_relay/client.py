"""At a node: leaves the last answer in the party's mailbox, and takes what the party says next."""

from __future__ import annotations

from pathlib import Path

from dpkit_engine_federation.mailbox import collected, delivered
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("post")
def post(message: Message, context: Context) -> Message:
    """Return the party's name, the number of its next message, and the message, if there is one yet."""
    box, given = Path(str(context.node_config["mailbox"])), message.content["post"]
    number = int(given["number"])
    if number:
        delivered(box, number, bytes(given["answer"]))
    next_number, said = collected(box, number)
    post = {"party": str(context.node_config["party"]), "number": next_number, "message": said}
    return Message(content=RecordDict({"post": ConfigRecord(post)}), reply_to=message)
