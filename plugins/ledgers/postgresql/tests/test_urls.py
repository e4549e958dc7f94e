"""What can be said of a ledger in PostgreSQL without a server."""

import pickle

import attrs
import pytest
from dpkit_ledger_postgresql import PostgresqlStore

from dpkit_core.errors import InvalidLedger, LedgerUnavailable
from dpkit_core.ledger.ledger import Ledger


def test_what_is_no_url_of_a_server_is_refused():
    for url in ("postgresql://host:port/x", "postgresql+nodriver://host/x"):
        with pytest.raises(InvalidLedger, match="URL"):
            Ledger.open(url)


def test_a_password_is_shown_nowhere():
    store = PostgresqlStore("postgresql://me:secret@127.0.0.1:1/none")
    assert store.shown == "postgresql://me:***@127.0.0.1:1/none"
    assert "secret" not in repr(store)
    with pytest.raises(LedgerUnavailable) as refusal:
        Ledger.open(store.url)
    assert "secret" not in str(refusal.value)
    assert "nothing was written" in str(refusal.value)


def test_stores_are_equal_where_their_urls_are():
    one = PostgresqlStore("postgresql://a/b")
    assert one == attrs.evolve(one)
    assert pickle.loads(pickle.dumps(one)) == one
