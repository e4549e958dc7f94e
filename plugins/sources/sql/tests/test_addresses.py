"""What is read from an address, and that no secret in it is told."""

import traceback
from pathlib import Path

import pytest
from dpkit_source_sql.address import file_of, server_of
from dpkit_source_sql.postgresql import open_postgresql

from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import DpkitError, InvalidOption

CANARY = "c4n4ry"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me@db.example/clinic", "postgresql://db.example/clinic"),
        ("postgres://db.example:5433/clinic", "postgres://db.example:5433/clinic"),
        ("postgresql://me@one:1,two:2/clinic?target_session_attrs=any", "postgresql://one:1,two:2/clinic"),
        ("postgresql://me@[::1]:5432/a%20b", "postgresql://[::1]:5432/a b"),
        ("postgresql:///clinic?host=/run/postgresql", "postgresql:///run/postgresql/clinic"),
        ("postgresql://?service=clinic&passfile=/etc/clinic/pgpass", "postgresql:///"),
    ],
)
def test_an_address_is_shown_without_user_and_options(url, shown):
    assert server_of(url).shown == shown


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{CANARY}@db/clinic",
        f"postgresql://:{CANARY}@db/clinic",
        f"postgresql://me@db/clinic?password={CANARY}",
        f"postgresql://me@db/clinic?sslmode=require&PASS%57ord={CANARY}",
        f"postgresql://me@db/clinic?sslpassword={CANARY}",
        f"postgresql://me:{CANARY}@db:no-port/clinic?nonsense",
        f"postgresql://me:{CANARY}/b@db/clinic",
        f"postgresql://me:a?{CANARY}@db/clinic",
        f"postgresql://me:a#{CANARY}@db/clinic",
        f"postgresql://me:a@{CANARY}@db/clinic",
    ],
)
def test_a_password_is_refused_whatever_else_is_wrong(url):
    with pytest.raises(InvalidOption, match=r"~/\.pgpass, PGPASSWORD or a service file") as refusal:
        open_postgresql(url, ReadOptions(delimiter=";"))
    assert CANARY not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{CANARY}",
        f"postgresql://db/clinic?application_name={CANARY}@x",
        f"postgresql://db/clinic#{CANARY}",
        f"postgresql://me@db:{CANARY}/clinic",
    ],
)
def test_an_address_that_is_not_understood_is_not_repeated(url):
    with pytest.raises(InvalidOption) as refusal:
        server_of(url)
    assert CANARY not in str(refusal.value)


def everything(error: BaseException | None) -> str:
    """Return all that can be told of an error, also by those who look at what it suppresses."""
    if error is None:
        return ""
    told = "".join(traceback.format_exception(error))
    return told + repr(error) + everything(error.__cause__) + everything(error.__context__)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://{0}@127.0.0.1:1/clinic",
        "postgresql://{0}%20{0}@127.0.0.1:1/clinic",
        "postgresql://me:{0}@127.0.0.1:1/clinic",
        "postgresql://me@127.0.0.1:{0}/clinic",
        "postgresql://me@127.0.0.1:1/clinic?{0}=1",
        "postgresql://me@127.0.0.1:1/clinic?user={0}",
        "postgresql://me@127.0.0.1:1/clinic?password={0}",
        "postgresql://me@127.0.0.1:1/clinic?options={0}",
        "postgresql://me@127.0.0.1:1/clinic?sslcert={0}&sslmode={0}",
        "postgresql://me@127.0.0.1:1/clinic?service={0}",
        "postgresql://me@127.0.0.1:1/clinic?passfile={0}",
        "postgresql://me@127.0.0.1:1/clinic#{0}",
        "postgresql://me@127.0.0.1:1/clinic?port={0}",
    ],
)
def test_no_field_of_an_address_is_told_but_host_and_database(address, monkeypatch, capfd):
    monkeypatch.setenv("PGPASSWORD", CANARY)
    with pytest.raises(DpkitError) as refusal:
        open_postgresql(address.format(CANARY), ReadOptions(table="visits"))
    out, err = capfd.readouterr()
    assert CANARY not in everything(refusal.value) + out + err


def test_a_server_that_is_not_there_and_a_host_that_nobody_knows_are_told_apart():
    for url, why in (
        ("postgresql://127.0.0.1:1/clinic", "clinic on 127.0.0.1:1: refused"),
        ("postgresql://no.such.host.invalid/clinic", "clinic on no.such.host.invalid: unknown host"),
        ("postgresql:///clinic?host=/nowhere", "clinic on /nowhere: refused"),
    ):
        with pytest.raises(DpkitError, match=why):
            open_postgresql(url, ReadOptions(table="visits"))


def test_files_are_named_by_path_or_by_url():
    assert file_of("clinic.db", "sqlite") == Path("clinic.db")
    assert file_of("sqlite:///clinic.db", "sqlite") == Path("clinic.db")
    assert file_of("sqlite:///data/a%20b%3F.db", "sqlite") == Path("data/a b?.db")
    assert file_of("sqlite:////data/clinic.db", "sqlite") == Path("/data/clinic.db")


@pytest.mark.parametrize(
    "where", ["//{0}/x.db", "//me:{0}@h/x.db", "///x.db?key={0}", "///x.db#{0}", "{0}.db", "//{0}.db"]
)
def test_a_file_has_neither_host_nor_user_nor_options(where):
    with pytest.raises(InvalidOption, match="three slashes") as refusal:
        file_of("duckdb:" + where.format(CANARY), "duckdb")
    assert CANARY not in str(refusal.value)
