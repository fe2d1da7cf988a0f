"""Workers that run in the test's own process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from infrastructure.queue import Queue
from infrastructure.settings import Settings
from models.database import Database
from workers.context import WorkerContext

LEASE_SECONDS = 2.0


@pytest.fixture
def make_context(tmp_path: Path, signing_key_file: Path) -> Callable[[Database], WorkerContext]:
    """A worker of the CPU on a database, beside a broker in a folder."""

    def make(database: Database) -> WorkerContext:
        settings = Settings(
            data_dir=tmp_path / "data",
            database_url=database.url.render_as_string(hide_password=False),
            broker_url=f"filesystem://{tmp_path / 'queue'}",
            lease_seconds=LEASE_SECONDS,
            signing_key_file=signing_key_file,
        )
        return WorkerContext(settings, database, Queue(settings), "cpu")

    return make


@pytest.fixture
def context(database: Database, make_context: Callable[[Database], WorkerContext]) -> WorkerContext:
    """A worker; the test runs once on each kind of database."""
    return make_context(database)
