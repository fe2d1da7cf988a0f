"""Fixtures for every room: migrated databases, a broker, and the real data where it is there."""

import os

# Before numpy or torch is imported: two threads each on a few cores are far slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import itertools
import logging
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import psycopg
import pytest
import redis
import structlog
from psycopg import sql
from sqlalchemy import make_url

import migrations
from benchmarks.servers import Server, start_postgres, start_valkey
from infrastructure.signing_keys import create_key_file
from models.database import Database
from models.tables.base import Base
from tests.cli.service import Service, forked
from tests.house import ROOT

_VALKEY_DATABASES = 16

# A first example may wait for imports or for a busy machine; no test asserts a time.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


# Whole services that are started, killed and waited for, and what mypy reads. A file runs on one
# process, so those that take half a minute go first: begun last, one would keep a single process
# busy while the others idle.
_LONG_FILES = (
    "tests/deploy/test_operations_drill.py",
    "tests/cli/test_up.py",
    "tests/browser/test_every_page.py",
    "tests/packaging/test_wheel.py",
    "tests/attacks/zoo/",
    "tests/workers/test_processes.py",
    "tests/packaging/test_services.py",
    "tests/api/http/test_fuzz.py",
    "tests/end_to_end/",
    "tests/browser/",
    "tests/test_closed_unions.py",
    "tests/workers/",
    "tests/cli/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longest files first; the order within a file stays."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(test: str) -> int:
    places = (place for place, name in enumerate(_LONG_FILES) if test.startswith(name))
    return next(places, len(_LONG_FILES))


def _log_to_standard_error() -> None:
    """As a service does: standard output is for what commands answer."""
    structlog.reset_defaults()
    *processors, _ = structlog.get_config()["processors"]
    # The renderer of the defaults spends seconds of a processor on the tables of one traceback.
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(
        processors=[*processors, renderer],
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


_log_to_standard_error()


@pytest.fixture
def restored_logs() -> Iterator[None]:
    """Logging as it was before a test configured it."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers, root.level = before[0], before[1]
    _log_to_standard_error()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One Postgres for the session."""
    server = start_postgres()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Server]:
    """One Valkey for the session."""
    server = start_valkey()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_server: Server) -> Iterator[str]:
    """A migrated Postgres database for the session."""
    name = _fresh_name()
    _run(postgres_server, "CREATE DATABASE {}", name)
    url = _url(postgres_server, name)
    migrations.upgrade(url)
    yield url
    _run(postgres_server, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file that others are copied from."""
    path = tmp_path_factory.mktemp("sqlite") / "template.db"
    migrations.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def empty_postgres_url(postgres_server: Server) -> Iterator[str]:
    """A fresh Postgres database without any table."""
    name = _fresh_name()
    _run(postgres_server, "CREATE DATABASE {}", name)
    yield _url(postgres_server, name)
    _run(postgres_server, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def postgres_url(migrated_postgres_url: str) -> Iterator[str]:
    """A migrated Postgres database without any row; a test that adds a table drops it again.

    Emptied after each test: a new database is a copy of four hundred files.
    """
    yield migrated_postgres_url
    _empty(migrated_postgres_url)


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A fresh, migrated SQLite database."""
    path = tmp_path / "fedaudit.db"
    shutil.copyfile(sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh, migrated database; the test runs once on each kind."""
    name = {"sqlite": "sqlite_url", "postgresql": "postgres_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that was never migrated; the test runs once on each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    url: str = request.getfixturevalue("empty_postgres_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open, migrated database; the test runs once on each kind."""
    database = Database(database_url)
    yield database
    database.close()


_database_numbers = itertools.count()


@pytest.fixture
def broker_url(valkey_server: Server) -> Iterator[str]:
    """A broker with nothing queued. A server given by TEST_BROKER_URL is emptied at its number."""
    with _empty_broker(valkey_server) as url:
        yield url


@pytest.fixture(scope="module")
def production(migrated_postgres_url: str, valkey_server: Server) -> Iterator[dict[str, str]]:
    """The settings of a service on Postgres and a broker that a module's tests share."""
    with _empty_broker(valkey_server) as broker_url:
        yield {"FEDAUDIT_DATABASE_URL": migrated_postgres_url, "FEDAUDIT_BROKER_URL": broker_url}
    _empty(migrated_postgres_url)


@pytest.fixture(scope="session")
def running_service(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service for the session, with the examples as its sources.

    Who kills its processes, exchanges its keys or looks at the whole of it starts `fedaudit up`.
    """
    folder = tmp_path_factory.mktemp("running") / "data"
    with forked(folder, database=sqlite_template, sources=ROOT / "examples") as service:
        yield service


@pytest.fixture(scope="module")
def service(running_service: Service, request: pytest.FixtureRequest) -> Service:
    """The session's service, in a project of this module."""
    return running_service.in_project(request.module.__name__.rpartition(".")[2])


@pytest.fixture(scope="session")
def signing_key_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key of the session's workers; `.pub` beside it is the public one."""
    path = tmp_path_factory.mktemp("keys") / "signing-key.pem"
    create_key_file(path)
    return path


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; tests on them are skipped where it is not there."""
    given = os.environ.get("FEDAUDIT_TEST_DATA_DIR")
    repository = Path(__file__).resolve().parent.parent
    path = Path(given) if given else repository.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set FEDAUDIT_TEST_DATA_DIR")
    return path


def _fresh_name() -> str:
    return f"fedaudit_test_{uuid.uuid4().hex}"


def _url(server: Server, database: str) -> str:
    url = make_url(server.url).set(database=database)
    return url.render_as_string(hide_password=False)


@contextmanager
def _empty_broker(server: Server) -> Iterator[str]:
    url = server.url
    if server.process is not None:
        number = next(_database_numbers) % _VALKEY_DATABASES
        url = f"{url.rpartition('/')[0]}/{number}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()


def _empty(url: str) -> None:
    tables = [table.name for table in reversed(Base.metadata.sorted_tables)]
    with psycopg.connect(_plain(url), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        with connection.transaction():
            for table in tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))


def _plain(url: str) -> str:
    """The URL as psycopg itself reads it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def _run(server: Server, statement: str, *names: str) -> None:
    with psycopg.connect(_plain(server.url), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
