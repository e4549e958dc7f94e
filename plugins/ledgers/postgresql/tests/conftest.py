"""A server of PostgreSQL for these tests alone: started here, in a folder of its own, reached by a socket."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import psycopg
import pytest

#: Where distributions of Linux keep several versions, beside what is on the PATH.
_PLACES = "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"


def _programs() -> Path | None:
    found = [Path(os.path.realpath(path)).parent for path in [shutil.which("initdb")] if path]
    found += sorted((path for place in _PLACES for path in Path("/").glob(place[1:])), reverse=True)
    return next(
        (path for path in found if (path / "initdb").is_file() and (path / "postgres").is_file()), None
    )


@attrs.define
class Server:
    """A running server, and how to stop it."""

    programs: Path
    folder: Path
    user: str | None
    numbers: Iterator[int] = attrs.field(factory=itertools.count)
    process: subprocess.Popen[bytes] | None = None

    def run(self, program: str, *options: str) -> None:
        done = subprocess.run(
            [self.programs / program, *options],
            user=self.user,
            cwd=self.folder,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")

    def start(self, *options: str) -> None:
        settings = (
            "listen_addresses=",
            f"unix_socket_directories={self.folder}",
            "max_connections=60",
            *options,
        )
        command = [self.programs / "postgres", "-D", self.folder / "data"]
        command += [part for setting in settings for part in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, user=self.user, cwd=self.folder, stdout=log, stderr=log)
        for _ in range(2400):
            with contextlib.suppress(psycopg.OperationalError), self.connection("postgres"):
                return
            assert self.process.poll() is None, (self.folder / "log").read_text(errors="replace")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
        raise AssertionError("the server did not start")

    def stop(self) -> None:
        """End it at once, as a loss of power would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()

    def connection(
        self, database: str, user: str = "custodian", schema: str = "public"
    ) -> psycopg.Connection:
        options = f"-csearch_path={schema}"
        return psycopg.connect(
            host=str(self.folder), user=user, dbname=database, autocommit=True, options=options
        )

    def database(self) -> str:
        """Return the name of a new database."""
        return self._created("DATABASE", "postgres")

    def schema(self) -> str:
        """Return the name of a new schema, which is quicker made than a database."""
        return self._created("SCHEMA", "ledgers")

    def _created(self, what: str, where: str) -> str:
        name = f"{what.lower()}{next(self.numbers)}"
        with self.connection(where) as connection:
            connection.execute(f"CREATE {what} {name}")
        return name

    def url(self, *, database: str = "ledgers", schema: str | None = None, user: str = "custodian") -> str:
        chosen = schema or (self.schema() if database == "ledgers" else "public")
        return f"postgresql://{user}@/{database}?host={self.folder}&options=-csearch_path%3D{chosen}"


@contextlib.contextmanager
def running(programs: Path) -> Iterator[Server]:
    # Short, as the path of a socket may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="dpkit"))
    user = None
    if os.getuid() == 0:  # which the server refuses
        names = {each.pw_name for each in pwd.getpwall()}
        user = "postgres" if "postgres" in names else "nobody"
        shutil.chown(folder, user)
        folder.chmod(0o755)
    server = Server(programs, folder, user)
    try:
        server.run(
            "initdb", "-D", str(folder / "data"), "-U", "custodian", "-A", "trust", "-E", "UTF8", "--no-sync"
        )
        server.start()
        with server.connection("postgres") as connection:
            connection.execute("CREATE DATABASE ledgers")
        yield server
    finally:
        if server.process is not None and server.process.poll() is None:
            server.process.send_signal(signal.SIGQUIT)  # at once: nobody needs what is there
            try:
                server.process.wait(30)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    programs = _programs()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed here: these tests start one by initdb and postgres")
    with running(programs) as server:
        yield server
