"""A grid by one request beside the engine: `python -m benchmarks.swept_grid --data DIR
[--workers 2] [--against REV] [--pairs 1]`.

`POST /v1/sweeps` with the 240 cells of `examples/papers/hospital-table-1.yaml`, which worker
processes play from a queue in Valkey with everything stored on Postgres. The workers have played
one cell each before, so that what they import is not counted. Then the engine alone plays the same
stacks, as the workers put them together, and stores nothing. Seconds of the processor of all
workers and of Postgres, and of the clock from the first cell's start to the last one's finish; the
engine's are those of one process. With `--against` the workers are in turn those of another commit,
which must have the same tables.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
import psycopg
import yaml

from benchmarks.against import checked_out
from benchmarks.machine import machine
from benchmarks.process_tree import processor_seconds
from benchmarks.served_api import http
from benchmarks.whole_service import WORKER, whole_service
from benchmarks.workloads import hospital_charges
from fedaudit.federations.federation import DataKey, Federation, data_key
from fedaudit.federations.load import load_federation
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.trainer_choice import open_stack

_GRID = Path(__file__).parent.parent / "examples" / "papers" / "hospital-table-1.yaml"
_POLL_SECONDS = 1.0
_STRIDE = 50
_SWEPT = "WHERE id IN (SELECT experiment_id FROM sweep_cells)"


@dataclass(frozen=True, kw_only=True)
class Swept:
    """One grid, played by workers and by the engine."""

    commit: str
    cells: int
    stacks: int
    rounds: int
    workers_processor_seconds: float
    postgres_processor_seconds: float
    clock_seconds: float
    engine_processor_seconds: float
    engine_clock_seconds: float
    load: float
    """Of the machine, over the minute before the end."""

    @property
    def of_engine(self) -> float:
        """Rounds a second of the workers' processor time over the engine's."""
        return self.engine_processor_seconds / self.workers_processor_seconds

    @property
    def of_engine_by_clock(self) -> float:
        """Rounds a second of the clock, of all workers together over one engine's."""
        return self.engine_clock_seconds / self.clock_seconds


def _submitted(client: httpx.Client, path: str, body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body, timeout=300)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def _await(url: str) -> None:
    """Raises RuntimeError where an experiment ended without a report."""
    while True:
        with psycopg.connect(url) as connection:
            rows = connection.execute("SELECT DISTINCT status FROM experiments").fetchall()
        states = {state for (state,) in rows}
        if states == {"succeeded"}:
            return
        if ended := states - {"queued", "running", "succeeded"}:
            raise RuntimeError(f"experiments ended as {', '.join(sorted(ended))}")
        time.sleep(_POLL_SECONDS)


def _stacks(url: str) -> tuple[list[list[ExperimentSpec]], int, float]:
    """The specs of the sweep's cells as workers took them together; all their rounds; and seconds
    of the clock."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            f"SELECT unit_id, spec FROM experiments {_SWEPT} ORDER BY unit_id, unit_position"
        ).fetchall()
        of_all = connection.execute(
            "SELECT sum(rounds_done), extract(epoch FROM max(finished_at) - min(started_at))"
            f" FROM experiments {_SWEPT}"
        ).fetchone()
    assert of_all is not None
    stacks: dict[str, list[ExperimentSpec]] = {}
    for unit, spec in rows:
        stacks.setdefault(unit, []).append(parse_spec(spec))
    return list(stacks.values()), int(of_all[0]), float(of_all[1])


def _engine(stacks: Sequence[Sequence[ExperimentSpec]], data: Path) -> tuple[float, float]:
    """Seconds of the processor and of the clock that the engine takes for them; data loaded."""
    loaded: dict[DataKey, Federation] = {}
    for spec in (spec for stack in stacks for spec in stack):
        if data_key(spec) not in loaded:
            loaded[data_key(spec)] = load_federation(spec, sources_dir=data)
    processor, clock = time.process_time(), time.perf_counter()
    for specs in stacks:
        stack = open_stack([Cell(spec, loaded[data_key(spec)]) for spec in specs])
        while stack.active:
            stack.advance(_STRIDE)
    return time.process_time() - processor, time.perf_counter() - clock


def measure(
    asked: dict[str, Any], *, data: Path, workers: int, stack_cells: int, tree: Path | None
) -> Swept:
    """Of one sweep on a database and a broker of its own; `tree`: the workers' commit."""
    cells = str(stack_cells)
    with (
        tempfile.TemporaryDirectory() as folder,
        whole_service(Path(folder), sources=data, stack_cells=cells) as service,
        http(service.url, service.key) as client,
    ):
        url, postgres = service.postgres.url, service.postgres_processes
        started = [service.start(WORKER, tree=tree) for _ in range(workers)]
        processes = [psutil.Process(one.pid) for one in started]
        for one in range(workers):
            warm = hospital_charges(seed=one, hypotheses=1 + one, rounds=2)
            _submitted(client, "/v1/experiments", warm.model_dump(mode="json"))
        _await(url)
        worked, busy = processor_seconds(processes), processor_seconds(postgres)
        swept = _submitted(client, "/v1/sweeps", asked)["cells"]
        _await(url)
        worked = processor_seconds(processes) - worked
        busy = processor_seconds(postgres) - busy
        stacks, rounds, seconds = _stacks(url)
    alone = _engine(stacks, data)
    return Swept(
        commit="this" if tree is None else "other",
        cells=len(swept),
        stacks=len(stacks),
        rounds=rounds,
        workers_processor_seconds=worked,
        postgres_processor_seconds=busy,
        clock_seconds=seconds,
        engine_processor_seconds=alone[0],
        engine_clock_seconds=alone[1],
        load=os.getloadavg()[0],
    )


def _as_json(found: Swept) -> dict[str, Any]:
    rates = {"of_engine": found.of_engine, "of_engine_by_clock": found.of_engine_by_clock}
    return {**asdict(found), **rates}


def main() -> None:
    """Measure, both commits in turn where there are two, and print what was taken as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--grid", type=Path, default=_GRID)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stack-cells", type=int, default=32)
    parser.add_argument("--repeats", type=int, help="seeds of each cell, in place of the grid's")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--against", metavar="REV")
    asked = parser.parse_args()
    grid: dict[str, Any] = yaml.safe_load(asked.grid.read_text())
    if asked.repeats:
        grid["repeats"] = asked.repeats
    with ExitStack() as opened:
        trees: list[Path | None] = [None]
        if asked.against:
            trees.append(opened.enter_context(checked_out(asked.against)))
        found = [
            measure(
                grid,
                data=asked.data.resolve(),
                workers=asked.workers,
                stack_cells=asked.stack_cells,
                tree=tree,
            )
            for pair in range(asked.pairs)
            for tree in (trees if pair % 2 else trees[::-1])
        ]
    shares = {
        commit: median(one.of_engine for one in found if one.commit == commit)
        for commit in sorted({one.commit for one in found})
    }
    print(
        json.dumps(
            {"machine": machine(), "of_engine": shares, "runs": list(map(_as_json, found))},
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
