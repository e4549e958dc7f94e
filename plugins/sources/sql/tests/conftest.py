"""Databases for these tests alone: files, and a server of PostgreSQL that is started here."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import psycopg
import pyarrow as pa
import pytest

from dpkit_core.data.features import Written
from dpkit_core.data.source import Source

#: Where distributions of Linux keep the programs of a server, beside what is on the PATH.
_PLACES = "usr/lib/postgresql/*/bin", "usr/pgsql-*/bin"


def table_of(source: Source, *columns: str, rows: int = 1000, **written: Written) -> pa.Table:
    """Return the columns of a source, those that are not told as numbers, and close it."""
    wanted = {name: Written() for name in columns} | written
    with contextlib.closing(source):
        batches = list(source.batches(wanted, rows))
        return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in wanted})


@attrs.define
class Server:
    """A server that is reached by a socket in its folder; ``guarded`` needs a password, others do not."""

    programs: Path
    folder: Path
    user: str | None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        data = self.folder / "data"
        self._run("initdb", "-D", str(data), "-U", "custodian", "-A", "trust", "-E", "UTF8", "--no-sync")
        rules = data / "pg_hba.conf"
        rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
        settings = "listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off"
        command = [self.programs / "postgres", "-D", data, *(f"-c{setting}" for setting in settings)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, user=self.user, cwd=self.folder, stdout=log, stderr=log)
        self.wait()

    def wait(self) -> None:
        """Return when it answers."""
        assert self.process is not None
        for _ in range(2400):
            with contextlib.suppress(psycopg.OperationalError), self.connection():
                return
            assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")
            time.sleep(0.05)
        raise AssertionError("the server does not answer")

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # at once: nobody needs what is there
            self.process.wait(60)

    def connection(self, database: str = "postgres") -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folder),
            user="custodian",
            dbname=database,
            autocommit=True,
            options="-clock_timeout=20s",  # a source that is left open ends a test, and does not keep it
        )

    def execute(self, *statements: str) -> None:
        with self.connection() as connection:
            for statement in statements:
                connection.execute(statement)

    def url(self, *, user: str = "custodian", database: str = "postgres", more: str = "") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}{more}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [self.programs / program, *arguments]
        done = subprocess.run(command, user=self.user, cwd=self.folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode(errors="replace")


def _programs() -> Path | None:
    found = [Path(os.path.realpath(path)).parent for path in [shutil.which("initdb")] if path]
    found += sorted((path for place in _PLACES for path in Path("/").glob(place)), reverse=True)
    return next((path for path in found if (path / "postgres").is_file()), None)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here: these tests start one by initdb and postgres")
    # Short, as the path of a socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="dpkit"))
    user = None
    if os.getuid() == 0:  # which the server refuses
        user = "postgres" if "postgres" in {each.pw_name for each in pwd.getpwall()} else "nobody"
        shutil.chown(folder, user)
        folder.chmod(0o755)
    server = Server(programs, folder, user)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def read() -> Callable[..., pa.Table]:
    return table_of
