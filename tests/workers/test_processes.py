"""Real workers and sweepers on real brokers: killed, stopped, cut off from the database."""

import random
import signal
import time
from pathlib import Path

import psycopg
import pytest
import torch
from sqlalchemy import make_url

from infrastructure.queue import Queue
from infrastructure.settings import Settings
from infrastructure.signing_keys import create_key_file
from models.database import Database
from tests.ledger.whole_chain import first_broken_link
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

LONG = spec_with(training__rounds=1000, training__local=IN_BATCHES)
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


def test_workers_killed_at_random_moments_leave_the_ledger_of_an_undisturbed_run(
    postgres_service: tuple[Database, Service], undisturbed: str
) -> None:
    database, processes = postgres_service
    moments = random.Random(20)
    submitted = submit(database, LONG)
    processes.sweeper()
    for _ in range(2):
        worker = processes.worker()
        done = rounds_done(database, submitted)
        wait_for_rounds(database, submitted, done + moments.randrange(300))
        worker.kill()
        assert experiment_of(database, submitted).status == "running"
    processes.worker()
    assert wait_for_end(database, submitted) == "succeeded"
    assert ledger_hash_of(database, submitted) == undisturbed
    unit = unit_of(database, submitted)
    assert (unit.attempts, unit.fence) == (3, 3)


def test_a_worker_that_slept_through_its_lease_writes_nothing(postgres_service, undisturbed):
    database, processes = postgres_service
    submitted = submit(database, LONG)
    processes.sweeper()
    sleeper = processes.worker()
    wait_for_rounds(database, submitted, 0)
    sleeper.popen.send_signal(signal.SIGSTOP)
    assert rounds_done(database, submitted) < 1000
    processes.worker()
    # Rounds may still be added by the server, which ends the sleeper's last commit without it.
    wait_until(lambda: unit_of(database, submitted).fence == 2, "the next claim")
    sleeper.popen.send_signal(signal.SIGCONT)
    wait_until(lambda: "lease lost" in sleeper.output, "the sleeper to notice")
    assert wait_for_end(database, submitted) == "succeeded"
    assert ledger_hash_of(database, submitted) == undisturbed
    assert sleeper.stop() == 0


def test_a_stopped_worker_gives_its_unit_back_and_another_goes_on(postgres_service, undisturbed):
    database, processes = postgres_service
    submitted = submit(database, LONG)
    sweeper = processes.sweeper()
    worker = processes.worker()
    wait_until(lambda: unit_of(database, submitted).state == "leased", "the claim")
    # Nobody is left who would publish for it.
    assert sweeper.stop() == 0
    wait_for_rounds(database, submitted, 0)
    assert worker.stop() == 0
    unit = unit_of(database, submitted)
    assert (unit.state, unit.attempts) == ("waiting", 0)
    done = rounds_done(database, submitted)
    assert 0 < done < 1000
    processes.worker()
    assert wait_for_end(database, submitted) == "succeeded"
    assert ledger_hash_of(database, submitted) == undisturbed


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
        assert "run `fedaudit migrate`" in process.output
