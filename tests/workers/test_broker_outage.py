"""A broker that goes away while a worker is busy, and comes back when it is not."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from benchmarks.servers import Server, start_valkey
from infrastructure.settings import Settings
from models.database import Database
from tests.processes import completed
from tests.waiting import wait_until
from tests.workers.admission import IN_BATCHES, Submitted, experiment_of, spec_with, submit
from tests.workers.processes import Service, service
from workers.health import unwell

# Long enough to take the broker away while it runs.
BUSY = spec_with(training__rounds=1000, training__local=IN_BATCHES)


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


def status_of(database: Database, submitted: Submitted) -> str:
    return experiment_of(database, submitted).status


def test_a_worker_whose_task_ends_while_the_broker_is_away_runs_the_next_unit(
    postgres_url: str, broker: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = Database(postgres_url)
    folder = tmp_path_factory.mktemp("outage")
    settings = Settings(data_dir=folder / "data")
    with outage_service(folder, postgres_url, broker) as processes:
        processes.sweeper()
        worker = processes.worker()
        first = submit(database, BUSY)
        wait_until(lambda: experiment_of(database, first).rounds_done > 0, "the first rounds")
        take_away(broker)
        assert status_of(database, first) == "running"
        wait_until(lambda: "unit done" in worker.output, "the end of the task")
        # What the worker does about its broken connection, it does now.
        time.sleep(1)
        grow_old(processes)
        time.sleep(1)
        assert health_of(processes) == (1, "the consumer of worker has given no sign of life for")
        with brought_back(broker):
            second = submit(database)
            wait_until(lambda: status_of(database, second) == "succeeded", "the next unit")
            wait_until(lambda: unwell(settings) is None, "a sign of life")
            assert health_of(processes) == (0, "well")
        assert worker.popen.poll() is None
        assert len(signs_of_life(processes)) == 1
        assert worker.stop() == 0
        assert unwell(settings) == "no worker of this machine has given a sign of life"
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
        assert status_of(database, submitted) == "queued"
        with brought_back(broker):
            wait_until(lambda: status_of(database, submitted) == "succeeded", "the end")
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
