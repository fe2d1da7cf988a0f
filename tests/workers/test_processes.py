"""Real workers and sweepers on real brokers: killed, stopped, cut off from the database."""

import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
import torch
from sqlalchemy import make_url, select

from api.services.report_evidence import evidence_of
from benchmarks.servers import start_valkey
from fedaudit.reports.verification.verification import verify
from infrastructure.queue import Queue
from infrastructure.settings import Settings
from infrastructure.signing_keys import create_key_file
from models.database import Database
from models.repositories import Budgets, LedgerRepository, ReportRepository
from models.tables.accounts import SweeperLease
from tests.ledger.whole_chain import first_broken_link
from tests.waiting import wait_until
from tests.workers.admission import IN_BATCHES, Submitted, experiment_of, spec_with, submit, unit_of
from tests.workers.processes import LEASE_SECONDS, Service, service
from workers.context import WorkerContext
from workers.run_unit import run_unit

LONG = spec_with(training__rounds=1000, training__local=IN_BATCHES)
ENDED = ("succeeded", "failed", "cancelled")


@pytest.fixture(scope="module")
def undisturbed(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The ledger hash of the long run in one piece."""
    return hash_in_one_piece(LONG, sqlite_template, tmp_path_factory.mktemp("undisturbed"))


def hash_in_one_piece(spec: Mapping[str, Any], sqlite_template: Path, folder: Path) -> str:
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
    submitted = submit(database, spec)
    run_unit(WorkerContext(settings, database, Queue(settings), "cpu"), submitted.unit_id)
    return ledger_hash_of(database, submitted)


@pytest.fixture
def postgres_service(postgres_url, broker_url, tmp_path):
    """Postgres and Redis."""
    database = Database(postgres_url)
    with service(tmp_path, database_url=postgres_url, broker_url=broker_url) as started:
        yield database, started
    database.close()


@pytest.fixture(params=["embedded_service", "postgres_service"])
def either(request: pytest.FixtureRequest) -> Any:
    """Each way to run the service."""
    return request.getfixturevalue(request.param)


def ledger_hash_of(database: Database, submitted: Submitted) -> str:
    with database.read() as session:
        report = ReportRepository(session).get(submitted.id)
        rows = LedgerRepository(session).rows_after(submitted.id, limit=100_000)
    assert first_broken_link(submitted.id, rows) is None
    found: str = report.document["integrity"]["ledger_hash"]
    return found


def rounds_done(database: Database, submitted: Submitted) -> int:
    return experiment_of(database, submitted).rounds_done


def wait_for_end(database: Database, submitted: Submitted) -> str:
    wait_until(lambda: experiment_of(database, submitted).status in ENDED, "the end")
    return experiment_of(database, submitted).status


def wait_for_rounds(database: Database, submitted: Submitted, more_than: int) -> None:
    wait_until(lambda: rounds_done(database, submitted) > more_than, f"round {more_than + 1}")


def test_workers_killed_at_random_moments_leave_the_ledger_of_an_undisturbed_run(
    either: tuple[Database, Service], undisturbed: str
) -> None:
    database, processes = either
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


def test_a_killed_worker_and_the_next_one_key_a_release_ledger_alike(embedded_service):
    database, processes = embedded_service
    submitted = submit(database, {**LONG, "privacy": {**LONG["privacy"], "noise": "release"}})
    processes.sweeper()
    worker = processes.worker()
    wait_for_rounds(database, submitted, 50)
    worker.kill()
    processes.worker()
    assert wait_for_end(database, submitted) == "succeeded"
    with database.read() as session:
        report = ReportRepository(session).get(submitted.id)
    experiment = experiment_of(database, submitted)
    assert experiment.ledger_salt is not None
    found = verify(evidence_of(database, experiment, report.document))
    assert [one for one in found.checks if one.outcome == "fail"] == []
    assert "ledger.salt" in {one.name for one in found.checks if one.outcome == "pass"}
    assert found.ledger_hash == report.document["integrity"]["ledger_hash"]


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


def test_when_every_worker_is_lost_the_sweeper_fails_the_experiment(postgres_service):
    database, processes = postgres_service
    submitted = submit(database, LONG, max_attempts=1, budget=1e6)
    sweeper = processes.sweeper()
    worker = processes.worker()
    wait_for_rounds(database, submitted, 0)
    worker.kill()
    assert wait_for_end(database, submitted) == "failed"
    experiment = experiment_of(database, submitted)
    assert experiment.status_reason == "worker-lost"
    assert unit_of(database, submitted).state == "failed"
    with database.read() as session:
        (budget,) = Budgets(session, submitted.project_id).budgets(submitted.federation_id)
        rows = LedgerRepository(session).rows_after(submitted.id, limit=100_000)
    assert budget.reserved == pytest.approx(0, abs=1e-9)
    spent = max(int(row.releases.max()) for row in rows) * 2 / 3
    assert budget.spent == pytest.approx(spent)
    assert sweeper.stop(within=10) == 0


def test_a_broker_that_is_down_delays_a_run_and_loses_nothing(postgres_url, tmp_path):
    broker = start_valkey()
    assert broker.folder is not None
    broker.process.kill()
    broker.process.wait()
    database = Database(postgres_url)
    with service(tmp_path, database_url=postgres_url, broker_url=broker.url) as processes:
        submitted = submit(database)
        worker, sweeper = processes.worker(), processes.sweeper()
        wait_until(lambda: "broker away" in sweeper.output, "the sweeper to find no broker")
        assert experiment_of(database, submitted).status == "queued"
        with subprocess.Popen(
            broker.process.args, cwd=broker.folder, stdout=subprocess.DEVNULL
        ) as restarted:
            assert wait_for_end(database, submitted) == "succeeded"
            restarted.kill()
        # Without a broker again, both still stop when they are asked to.
        assert (sweeper.stop(within=10), worker.stop()) == (0, 0)
    database.close()
    broker.stop()


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


def test_only_one_of_several_sweepers_has_the_duty_and_another_inherits_it(postgres_service):
    database, processes = postgres_service
    first = processes.sweeper()
    wait_until(lambda: duty_of(database) is not None, "the first sweeper")
    holder = duty_of(database)
    second = processes.sweeper()
    time.sleep(1)
    assert duty_of(database) == holder
    assert first.stop(within=10) == 0
    wait_until(lambda: duty_of(database) not in (None, holder), "the second sweeper")
    assert second.stop(within=10) == 0


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


def duty_of(database: Database) -> str | None:
    with database.read() as session:
        holder: str | None = session.scalar(select(SweeperLease.holder))
    return holder
