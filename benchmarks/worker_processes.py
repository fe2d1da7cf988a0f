"""More worker processes on one database: `python -m benchmarks.worker_processes --data DIR
[--workers 1 2 4] [--experiments 48] [--rounds 200] [--stack-cells 6]`.

Experiments of one shape, seeds of the hospital task, wait in the queue of a fresh Postgres and
Valkey before the workers start. Rounds a second between the first start and the last finish by the
service's own clock, seconds of the processor of all workers and of Postgres, and what Postgres was
asked to do and to keep, for each round.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg

import migrations
from benchmarks.machine import machine
from benchmarks.served_api import http, make_key, served
from benchmarks.servers import start_postgres, start_valkey
from benchmarks.workloads import hospital_charges
from infrastructure.settings import Settings
from infrastructure.signing_keys import create_key_file
from models.database import Database
from models.scopes import SCOPES

_POLL_SECONDS = 0.5
_OWN = "WHERE datname = current_database()"


@dataclass(frozen=True)
class Taken:
    """One number of workers, from the first start to the last finish."""

    workers: int
    rounds: int
    seconds: float
    rounds_a_second: float
    workers_processor_seconds: float
    """Importing libraries included."""
    postgres_processor_seconds: float
    wal_bytes_a_round: float
    stored_bytes_a_round: float
    commits_a_round: float
    rows_written_a_round: float


@dataclass(frozen=True)
class _Counters:
    wal: int
    stored: int
    commits: int
    rows: int

    @classmethod
    def read(cls, url: str) -> "_Counters":
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")

            def number(statement: str) -> int:
                row = connection.execute(statement).fetchone()
                assert row is not None
                return int(row[0])

            return cls(
                wal=number("SELECT pg_current_wal_lsn() - '0/0'"),
                stored=number("SELECT pg_database_size(current_database())"),
                commits=number(f"SELECT xact_commit FROM pg_stat_database {_OWN}"),
                rows=number(f"SELECT tup_inserted + tup_updated FROM pg_stat_database {_OWN}"),
            )


@dataclass(frozen=True)
class StoredService:
    """An API that stores everything on a Postgres and a Valkey of its own."""

    client: httpx.Client
    postgres_url: str
    postgres: list[psutil.Process]
    """Its process; none where TEST_DATABASE_URL names the server."""
    environment: dict[str, str]
    """Of the workers."""


@contextmanager
def stored_service(*, data: Path, folder: Path, stack_cells: int) -> Iterator[StoredService]:
    """`data`: the folder of its sources; `folder`, empty, is for what it keeps."""
    postgres, valkey = start_postgres(), start_valkey()
    try:
        migrations.upgrade(postgres.url)
        create_key_file(folder / "key.pem")
        settings = Settings(
            data_dir=folder / "data",
            sources_dir=data,
            database_url=postgres.url,
            broker_url=valkey.url,
            signing_key_file=folder / "key.pem",
        )
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "FEDAUDIT_DATA_DIR": str(settings.data_dir),
            "FEDAUDIT_SOURCES_DIR": str(data),
            "FEDAUDIT_DATABASE_URL": postgres.url,
            "FEDAUDIT_BROKER_URL": valkey.url,
            "FEDAUDIT_SIGNING_KEY_FILE": str(folder / "key.pem"),
            "FEDAUDIT_STACK_CELLS": str(stack_cells),
        }
        database = Database(postgres.url)
        _, key = make_key(database, "benchmark", SCOPES, name="benchmark")
        database.dispose()
        with served(settings) as url, http(url, key) as client:
            server = [psutil.Process(postgres.process.pid)] if postgres.process else []
            yield StoredService(client, postgres.url, server, environment)
    finally:
        postgres.stop()
        valkey.stop()


@contextmanager
def started_workers(
    number: int, environment: dict[str, str], *, tree: Path | None = None
) -> Iterator[list[psutil.Process]]:
    """Worker processes, which end with the block; `tree`: of which commit they are."""
    command = [sys.executable, "-P", "-m", "workers", "--device", "cpu"]
    if tree is not None:
        environment = {**environment, "PYTHONPATH": str(tree)}
    started = [
        subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(number)
    ]
    try:
        yield [psutil.Process(one.pid) for one in started]
    finally:
        for one in started:
            one.terminate()
        for one in started:
            one.wait(30)


def processor_seconds(processes: Sequence[psutil.Process]) -> float:
    """Of these and of all their children, those that have ended included."""
    found = 0.0
    for one in processes:
        for own in (one, *one.children(recursive=True)):
            times = own.cpu_times()
            found += times.user + times.system
        ended = one.cpu_times()
        found += ended.children_user + ended.children_system
    return found


def _await(client: httpx.Client, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The experiments, once all have ended. Raises RuntimeError where one did not succeed."""
    found = []
    for id_ in ids:
        while (experiment := client.get(f"/v1/experiments/{id_}").json())["status"] in (
            "queued",
            "running",
        ):
            time.sleep(_POLL_SECONDS)
        if experiment["status"] != "succeeded":
            raise RuntimeError(f"{id_} ended as {experiment['status']}")
        found.append(experiment)
    return found


def measure(
    workers: int, *, data: Path, experiments: int, rounds: int, stack_cells: int, folder: Path
) -> Taken:
    """Of so many workers on a database and a broker of their own."""
    with stored_service(data=data, folder=folder, stack_cells=stack_cells) as service:
        client, postgres = service.client, service.postgres_url
        ids = []
        for seed in range(experiments):
            spec = hospital_charges(seed=seed, rounds=rounds)
            answer = client.post("/v1/experiments", json=spec.model_dump(mode="json"))
            ids.append(answer.raise_for_status().json()["id"])
        before, busy = _Counters.read(postgres), processor_seconds(service.postgres)
        with started_workers(workers, service.environment) as processes:
            ended = _await(client, ids)
            worked = processor_seconds(processes)
        after, spent = _Counters.read(postgres), processor_seconds(service.postgres) - busy
    began = min(datetime.fromisoformat(one["started_at"]) for one in ended)
    finished = max(datetime.fromisoformat(one["finished_at"]) for one in ended)
    played, seconds = experiments * rounds, (finished - began).total_seconds()
    return Taken(
        workers=workers,
        rounds=played,
        seconds=seconds,
        rounds_a_second=played / seconds,
        workers_processor_seconds=worked,
        postgres_processor_seconds=spent,
        wal_bytes_a_round=(after.wal - before.wal) / played,
        stored_bytes_a_round=(after.stored - before.stored) / played,
        commits_a_round=(after.commits - before.commits) / played,
        rows_written_a_round=(after.rows - before.rows) / played,
    )


def main() -> None:
    """Measure each number of workers in turn, and print what was taken as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--experiments", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--stack-cells", type=int, default=6)
    asked = parser.parse_args()
    taken = []
    for workers in asked.workers:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(
                workers,
                data=asked.data.resolve(),
                experiments=asked.experiments,
                rounds=asked.rounds,
                stack_cells=asked.stack_cells,
                folder=Path(folder),
            )
        taken.append(asdict(found))
    print(json.dumps({"machine": machine(), "taken": taken}, indent=2))


if __name__ == "__main__":
    main()
