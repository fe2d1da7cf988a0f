"""Workers that run in the test's own process."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery.worker import state as celery_state

import workers.run_loop
from infrastructure.queue import Queue
from infrastructure.settings import Settings
from models.database import Database
from tests.api.service import Api, running_api, settings_for
from tests.workers.admission import crash
from tests.workers.serving import worker_of
from workers.context import WorkerContext

LEASE_SECONDS = 2.0


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """On SQLite alone, but where a test is marked as one for `both_databases`.

    Both kinds of stored rows, claims and budgets are tested in tests/models, and processes on
    Postgres in test_processes.py.
    """
    both = metafunc.definition.get_closest_marker("both_databases")
    if "database_url" in metafunc.fixturenames and not both:
        only = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
        metafunc.definition.add_marker(only)


@pytest.fixture
def context(database: Database, tmp_path: Path, signing_key_file: Path) -> WorkerContext:
    """A worker of the CPU, beside a broker in a folder."""
    settings = Settings(
        data_dir=tmp_path / "data",
        database_url=database.url.render_as_string(hide_password=False),
        broker_url=f"filesystem://{tmp_path / 'queue'}",
        lease_seconds=LEASE_SECONDS,
        signing_key_file=signing_key_file,
    )
    return WorkerContext(settings, database, Queue(settings), "cpu")


@pytest.fixture(autouse=True)
def _not_stopping() -> Iterator[None]:
    """Forgets a request to stop that the test made."""
    yield
    celery_state.should_stop = None


@pytest.fixture
def api(database_url: str, tmp_path: Path, signing_key_file: Path) -> Iterator[Api]:
    """A service on the database of the test."""
    more = {"signing_key_file": signing_key_file, "webhooks_allow_private": True}
    with running_api(settings_for(database_url, tmp_path, **more)) as api:
        yield api


@pytest.fixture
def served(api: Api) -> WorkerContext:
    """A worker of the same service."""
    return worker_of(api)


@pytest.fixture
def crash_in_block(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The worker dies after the noise of these blocks was drawn, before they are stored."""

    def install(*blocks: int, rounds: int = 3) -> None:
        opened, counted = workers.run_loop.Stack, iter(range(1, 1000))

        def open_failing(*arguments: Any, **options: Any) -> Any:
            stack = opened(*arguments, **options)
            advance = stack.advance

            def failing(number: int) -> Any:
                records = advance(number)
                if next(counted) in blocks:
                    crash()
                return records

            stack.advance = failing
            return stack

        monkeypatch.setattr(workers.run_loop, "Stack", open_failing)
        monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda *_, **__: rounds)

    return install


@pytest.fixture
def flushing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """One round a flush, a checkpoint with each, and something that happens after some of them."""

    def install(flushes: int, act: Callable[[], None]) -> None:
        counted = iter(range(1, 100_000))
        store = workers.run_loop.store_blocks

        def counting(*arguments: Any, **options: Any) -> set[str]:
            cancelled = store(*arguments, **options)
            if next(counted) == flushes:
                act()
            return cancelled

        monkeypatch.setattr(workers.run_loop, "store_blocks", counting)
        monkeypatch.setattr(workers.run_loop.Pace, "rounds", lambda self, **_: 1)
        monkeypatch.setattr(workers.run_loop, "CHECKPOINT_SECONDS", 0.0)

    return install
