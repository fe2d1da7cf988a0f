"""Real workers and sweepers on real brokers: killed, stopped, cut off from the database."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
import torch
from sqlalchemy import make_url

from benchmarks.servers import Server, start_valkey
from infrastructure.queue import Queue
from infrastructure.settings import Settings
from infrastructure.signing_keys import create_key_file
from models.database import Database
from tests.ledger.whole_chain import first_broken_link
from tests.processes import completed
from tests.waiting import wait_until
from tests.workers.admission import (
    IN_BATCHES,
    Submitted,
    document_of,
    experiment_of,
    ledger_of,
    ran,
    spec_with,
    submit,
    unit_of,
)
from tests.workers.processes import LEASE_SECONDS, Service, service
from workers.context import WorkerContext
from workers.health import unwell

LONG = spec_with(training__rounds=2000, training__local=IN_BATCHES)
ENDED = ("succeeded", "failed", "cancelled")


@pytest.fixture(scope="module")
def undisturbed(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The ledger hash of the long run in one piece."""
    folder = tmp_path_factory.mktemp("undisturbed")
    path = folder / "fedaudit.db"
    path.write_bytes(sqlite_template.read_bytes())
    settings = Settings(
        data_dir=folder,
        database_url=f"sqlite:///{path}",
        broker_url=f"filesystem://{folder}/q",
        signing_key_file=folder / "signing-key.pem",
    )
    create_key_file(folder / "signing-key.pem")
    database = Database(settings.database_url)
    submitted = ran(database, WorkerContext(settings, database, Queue(settings), "cpu"), LONG)
    return ledger_hash_of(database, submitted)


@pytest.fixture
def postgres_service(postgres_url, broker_url, tmp_path):
    """Postgres and Redis."""
    database = Database(postgres_url)
    with service(tmp_path, database_url=postgres_url, broker_url=broker_url) as started:
        yield database, started
    database.close()


def ledger_hash_of(database: Database, submitted: Submitted) -> str:
    assert first_broken_link(submitted.id, ledger_of(database, submitted)) is None
    found: str = document_of(database, submitted)["integrity"]["ledger_hash"]
    return found


def rounds_done(database: Database, submitted: Submitted) -> int:
    return experiment_of(database, submitted).rounds_done


def wait_for_end(database: Database, submitted: Submitted) -> str:
    wait_until(lambda: experiment_of(database, submitted).status in ENDED, "the end")
    return experiment_of(database, submitted).status


def wait_for_rounds(database: Database, submitted: Submitted, more_than: int) -> None:
    wait_until(lambda: rounds_done(database, submitted) > more_than, f"round {more_than + 1}")


def test_workers_killed_and_stopped_leave_the_ledger_of_an_undisturbed_run(
    postgres_service: tuple[Database, Service], undisturbed: str
) -> None:
    database, processes = postgres_service
    moments = random.Random(20)
    submitted = submit(database, LONG)
    sweeper = processes.sweeper()
    for _ in range(2):
        worker = processes.worker()
        done = rounds_done(database, submitted)
        wait_for_rounds(database, submitted, done + moments.randrange(150))
        worker.kill()
        assert experiment_of(database, submitted).status == "running"
    worker = processes.worker()
    wait_until(lambda: unit_of(database, submitted).fence == 3, "the third claim")
    # Nobody is left who would publish for it.
    assert sweeper.stop() == 0
    wait_for_rounds(database, submitted, rounds_done(database, submitted))
    assert worker.stop() == 0
    unit = unit_of(database, submitted)
    assert (unit.state, unit.attempts) == ("waiting", 2)
    assert rounds_done(database, submitted) < 2000
    processes.worker()
    assert wait_for_end(database, submitted) == "succeeded"
    assert ledger_hash_of(database, submitted) == undisturbed
    unit = unit_of(database, submitted)
    assert (unit.attempts, unit.fence) == (3, 4)


def test_a_database_outage_is_waited_for(postgres_server, postgres_service, undisturbed):
    database, processes = postgres_service
    submitted = submit(database, LONG)
    processes.sweeper()
    worker = processes.worker()
    wait_for_rounds(database, submitted, 0)
    database.close()
    url = make_url(postgres_server.url).set(drivername="postgresql")
    name = psycopg.sql.Identifier(database.url.database or "")
    allow = psycopg.sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {}")
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as server:
        server.execute(allow.format(name, psycopg.sql.SQL("false")))
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [database.url.database],
        )
        wait_until(lambda: "database away" in worker.output, "the worker to notice")
        time.sleep(1.5 * LEASE_SECONDS)
        server.execute(allow.format(name, psycopg.sql.SQL("true")))
    assert wait_for_end(database, submitted) == "succeeded"
    assert ledger_hash_of(database, submitted) == undisturbed


@pytest.mark.parametrize(
    ("device", "code", "message"), [("cuda:0", 1, "no CUDA"), ("gpu", 2, "use cpu, or cuda:N")]
)
def test_a_device_that_cannot_be_used_ends_the_worker_at_once(
    sqlite_template: Path, tmp_path: Path, device: str, code: int, message: str
) -> None:
    if device == "cuda:0" and torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    (tmp_path / "fedaudit.db").write_bytes(sqlite_template.read_bytes())
    with service(tmp_path, data_dir=str(tmp_path)) as processes:
        worker = processes.start("workers", "--device", device)
        assert worker.popen.wait(60) == code
        assert message in worker.output


def test_a_database_that_was_never_migrated_is_refused(tmp_path: Path) -> None:
    with service(tmp_path, data_dir=str(tmp_path / "new")) as processes:
        process = processes.start("workers.sweeper")
        assert process.popen.wait(30) == 1
        assert f"no service keeps its data in {tmp_path / 'new'}" in process.output
        assert not (tmp_path / "new").exists()


# -- a broker that goes away while a worker is busy, and comes back when it is not ----------------


@pytest.fixture
def broker() -> Iterator[Server]:
    """A broker of this test alone."""
    server = start_valkey()
    yield server
    server.stop()


def take_away(broker: Server) -> None:
    broker.process.kill()
    broker.process.wait()


@contextmanager
def brought_back(broker: Server) -> Iterator[None]:
    """The broker on its old address, with nothing in it."""
    with subprocess.Popen(
        broker.process.args, cwd=broker.folder, stdout=subprocess.DEVNULL
    ) as again:
        try:
            yield
        finally:
            again.kill()


def test_a_worker_whose_task_ends_while_the_broker_is_away_runs_the_next_unit(
    postgres_url: str, broker: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = Database(postgres_url)
    folder = tmp_path_factory.mktemp("outage")
    settings = Settings(data_dir=folder / "data")
    with outage_service(folder, postgres_url, broker) as processes:
        processes.sweeper()
        worker = processes.worker()
        first = submit(database, LONG)
        wait_until(lambda: experiment_of(database, first).rounds_done > 0, "the first rounds")
        take_away(broker)
        assert experiment_of(database, first).status == "running"
        wait_until(lambda: "unit done" in worker.output, "the end of the task")
        # What the worker does about its broken connection, it does now.
        time.sleep(1)
        grow_old(processes)
        time.sleep(1)
        assert health_of(processes) == (1, "the consumer of worker has given no sign of life for")
        with brought_back(broker):
            second = submit(database)
            assert wait_for_end(database, second) == "succeeded"
            wait_until(lambda: unwell(settings) is None, "a sign of life")
            assert health_of(processes) == (0, "well")
        assert worker.popen.poll() is None
        assert len(signs_of_life(processes)) == 1
        assert worker.stop() == 0
        assert "no worker of this machine has given a sign" in str(unwell(settings))
    database.close()


def test_a_broker_that_is_down_from_the_start_delays_a_run_and_loses_nothing(
    postgres_url: str, broker: Server, tmp_path: Path
) -> None:
    take_away(broker)
    database = Database(postgres_url)
    with outage_service(tmp_path, postgres_url, broker) as processes:
        submitted = submit(database)
        worker, sweeper = processes.worker(), processes.sweeper()
        wait_until(lambda: "broker away" in sweeper.output, "the sweeper to find no broker")
        assert experiment_of(database, submitted).status == "queued"
        with brought_back(broker):
            assert wait_for_end(database, submitted) == "succeeded"
        # Without a broker again, both still stop when they are asked to.
        assert (sweeper.stop(within=10), worker.stop()) == (0, 0)
    database.close()


def outage_service(
    folder: Path, database_url: str, broker: Server
) -> AbstractContextManager[Service]:
    return service(
        folder, database_url=database_url, broker_url=broker.url, data_dir=str(folder / "data")
    )


def signs_of_life(processes: Service) -> list[Path]:
    return list((processes.folder / "data" / "workers").glob("*"))


def grow_old(processes: Service) -> None:
    """As if the newest sign of life had been given an hour ago."""
    [sign] = signs_of_life(processes)
    os.utime(sign, (time.time() - 3600, time.time() - 3600))


def health_of(processes: Service) -> tuple[int, str]:
    """Exit code and words of the health check, without its numbers."""
    done = completed(
        [sys.executable, "-P", "-m", "workers.health"], env={**os.environ, **processes.environment}
    )
    words = [word for word in done.stdout.split() if not word.isdigit()]
    return done.returncode, " ".join(words).removesuffix(" s")
