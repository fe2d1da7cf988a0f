"""Queued experiments, each alone and claimed together: `python -m benchmarks.queued_experiments
--data DIR [--experiments 24] [--rounds 200] [--postgres] [--pairs 2]`.

Experiments of one shape, 24 seeds of the hospital task unless told otherwise, are submitted over
HTTP one by one and then played by a worker in this process with everything stored, in turn with
`FEDAUDIT_STACK_CELLS` 1 and the default. Beside them the engine's own rate for the same stacks,
which stores nothing. Rounds a second of processor time of the worker's thread and of the wall
clock; ratios of medians.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import select

import migrations
from benchmarks.machine import machine
from benchmarks.served_api import http, make_key, served
from benchmarks.servers import start_postgres
from benchmarks.workloads import hospital_charges
from fedaudit.federations.load import load_federation
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell
from fedaudit.training.trainer_choice import open_stack
from infrastructure.queue import Queue
from infrastructure.settings import Settings
from infrastructure.signing_keys import create_key_file
from models.database import Database
from models.scopes import SCOPES
from models.tables.units import Unit
from workers.context import WorkerContext
from workers.run_unit import run_unit

_ALONE, _TOGETHER, _ENGINE = "alone", "together", "engine"


@contextmanager
def database_url(*, postgres: bool, folder: Path) -> Iterator[str]:
    """A migrated database."""
    if not postgres:
        url = f"sqlite:///{folder}/fedaudit.db"
        migrations.upgrade(url)
        yield url
        return
    server = start_postgres()
    try:
        migrations.upgrade(server.url)
        yield server.url
    finally:
        server.stop()


def played(specs: list[ExperimentSpec], settings: Settings) -> tuple[float, float]:
    """Seconds of the processor and of the clock that a worker takes for all of them."""
    database = Database(settings.database_url)
    _, key = make_key(database, "benchmark", SCOPES, name=f"benchmark {time.time_ns()}")
    with served(settings) as url, http(url, key) as client:
        for spec in specs:
            answer = client.post("/v1/experiments", json=spec.model_dump(mode="json"))
            answer.raise_for_status()
    context = WorkerContext(settings, database, Queue(settings), "cpu")
    processor, clock = time.process_time(), time.perf_counter()
    while waiting := _next(database):
        run_unit(context, waiting)
    taken = time.process_time() - processor, time.perf_counter() - clock
    database.dispose()
    return taken


def _next(database: Database) -> str | None:
    with database.read() as session:
        return session.scalars(
            select(Unit.id).where(Unit.state == "waiting").order_by(Unit.id).limit(1)
        ).first()


def bare(specs: list[ExperimentSpec], *, sources: Path, at_once: int) -> tuple[float, float]:
    """The same for the engine alone, in stacks of the same size."""
    federation = load_federation(specs[0], sources_dir=sources)
    processor, clock = time.process_time(), time.perf_counter()
    for start in range(0, len(specs), at_once):
        cells = [Cell(spec, federation) for spec in specs[start : start + at_once]]
        stack = open_stack(cells)
        while stack.active:
            stack.advance(50)
    return time.process_time() - processor, time.perf_counter() - clock


def main() -> None:
    """Measure in turn, and print rates and ratios as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--experiments", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--postgres", action="store_true")
    asked = parser.parse_args()
    specs = [hospital_charges(seed=seed, rounds=asked.rounds) for seed in range(asked.experiments)]
    taken: dict[str, list[tuple[float, float]]] = {_ALONE: [], _TOGETHER: [], _ENGINE: []}
    with (
        tempfile.TemporaryDirectory() as made,
        database_url(postgres=asked.postgres, folder=Path(made)) as url,
    ):
        folder = Path(made)
        create_key_file(folder / "key.pem")
        settings = Settings(
            data_dir=folder / "data",
            sources_dir=asked.data,
            database_url=url,
            broker_url=f"filesystem://{folder}/queue",
            signing_key_file=folder / "key.pem",
        )
        alone = settings.model_copy(update={"stack_cells": 1})
        for _ in range(asked.pairs):
            taken[_ALONE].append(played(specs, alone))
            taken[_TOGETHER].append(played(specs, settings))
            taken[_ENGINE].append(bare(specs, sources=asked.data, at_once=settings.stack_cells))
    print(json.dumps(_summary(taken, rounds=asked.rounds * asked.experiments), indent=2))


def _summary(taken: dict[str, list[tuple[float, float]]], *, rounds: int) -> dict[str, Any]:
    rates = {
        name: {
            "processor": rounds / median(one[0] for one in times),
            "clock": rounds / median(one[1] for one in times),
        }
        for name, times in taken.items()
    }
    return {
        "machine": machine(),
        "rounds": rounds,
        "rounds_a_second": rates,
        "together_over_alone": rates[_TOGETHER]["processor"] / rates[_ALONE]["processor"],
        "together_over_engine": rates[_TOGETHER]["processor"] / rates[_ENGINE]["processor"],
    }


if __name__ == "__main__":
    main()
