"""Moving a ledger to another place without leaving a second copy to charge."""

from __future__ import annotations

from dpkit_core.errors import InvalidLedger
from dpkit_core.ledger.entries import Entry
from dpkit_core.ledger.ledger import Head, Ledger, intact, now, repeated, store_for
from dpkit_core.ledger.store import Store, Transaction


def move_to(ledger: Ledger, url: str) -> Ledger:
    """Move a ledger to another place, and return it there; nothing can be charged in the old place any more.

    It keeps its identity, its entries and their hashes, so that the releases it has paid for are found in the
    new place. An interrupted move can be resumed with the same ``url``; a finished one cannot be repeated,
    even if the new place is lost: that would create a second copy to charge. Move it while no run is in
    progress: such a run could not be settled in the old place.

    Parameters
    ----------
    ledger
        The ledger, in its old place.
    url
        Path of a file that does not exist, or the URL of another backend.

    Raises
    ------
    InvalidLedger
        If the new place is not empty, the ledger is damaged, or it has moved before.
    """
    last = _last(ledger.store)
    if last is not None:
        _require_unfinished(last)
    store = store_for(url).create(url)
    began = last is not None and last.kind == "moved" and last.facts.get("to") == store.shown
    if not began and _last(store) is not None:
        raise InvalidLedger(f"{store.shown} holds entries already; move the ledger to an empty place")

    def leave(transaction: Transaction) -> Entry:
        last = transaction.last()
        if last is not None and last.kind == "moved" and intact(last).facts.get("to") == store.shown:
            _require_unfinished(last)
            return last
        return ledger.append(transaction, "moved", {"at": now(), "to": store.shown})

    moved = ledger.write(leave)

    def arrive(transaction: Transaction) -> Entry:
        if transaction.last() is None:
            for entry in ledger.entries():
                transaction.append(intact(entry))
        elif transaction.at(moved.sequence) != moved:
            raise InvalidLedger(f"{store.shown} holds entries already; move the ledger to an empty place")
        arrived = transaction.at(moved.sequence + 1)  # of an attempt that was interrupted
        if arrived is None:
            arrived = Entry.after(moved, "arrived", {"at": now(), "from": ledger.store.shown})
            transaction.append(arrived)
        return arrived

    arrived = repeated(store, arrive, write=True)

    def end(transaction: Transaction) -> Entry:
        last = transaction.last()
        if last == moved:
            last = Entry.after(moved, "moved", {"arrived": arrived.hash, "at": now(), "to": store.shown})
            transaction.append(last)
        assert last is not None
        return last  # else written down by an attempt that was interrupted

    ledger.write(end)
    return type(ledger)(store, ledger.id, Head(arrived.sequence, arrived.hash))


def _last(store: Store) -> Entry | None:
    return repeated(store, lambda transaction: transaction.last(), write=False)


def _require_unfinished(last: Entry) -> None:
    if last.ends_move:
        facts = intact(last).facts
        raise InvalidLedger(
            f"the ledger has moved to {facts.get('to')} already, and arrived there on {facts.get('at')}; "
            "moving it again would make two ledgers that spend one budget. Use the new place; if it is "
            "lost, restore it from a backup"
        )
