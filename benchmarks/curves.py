"""How runs grow with clients, features, hypotheses and rounds: `python -m benchmarks.curves`.

    OMP_NUM_THREADS=1 nice -n 19 python -m benchmarks.curves

Every point is a table of its own (Parquet, three rows a client unless it says otherwise) and two
processes. The first loads it, which lays it out on disk. The second maps it and does the rest, as
the API does (load and plan) and then a worker (rounds with their ledger, and the report).
The ledger is kept in memory here, which a worker writes to the database. Seconds are of the
processor. Memory is the peak of what the process alone holds (`RssAnon`, looked at 50 times a
second), beyond what it had after its imports; pages of mapped files are not in it, which the system
takes back when it needs them. `--only clients` measures one curve. Results go to `--out`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Result = TypeVar("Result")

_RESULTS = Path(__file__).parent / "results" / "curves.json"
_LOOKED_EVERY = 0.02
_ROWS_AT_ONCE = 200_000


@dataclass(frozen=True, kw_only=True)
class Point:
    """One table and one run."""

    clients: int = 1_000
    rows: int = 3
    """Of a client."""
    features: int = 10
    hypotheses: int = 2
    rounds: int = 100
    cohort: int = 50


_CURVES: dict[str, list[Point]] = {
    "clients": [
        *(Point(clients=10**power) for power in range(2, 7)),
        Point(clients=10**6, rows=10),
    ],
    "features": [Point(features=10**power) for power in range(1, 5)],
    "hypotheses": [Point(hypotheses=k) for k in (1, 2, 5, 10, 20)],
    "rounds": [Point(rounds=10**power) for power in range(2, 6)],
}


def spec_of(point: Point) -> dict[str, Any]:
    """Regression with noise; groups are counted on a thousand held-out clients in each round."""
    return {
        "name": "curves",
        "federation": {
            "source": "table",
            "path": "table.parquet",
            "client_key": "client",
            "target": "y",
            "drop": ["group"],
            "validation_fraction": 0.2,
        },
        "model": {"kind": "linear"},
        "training": {
            "loss": "rmse",
            "hypotheses": point.hypotheses,
            "rounds": point.rounds,
            "cohort": {"clients": point.cohort},
            "stopping": {"validation_clients": 1_000},
        },
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 5.0},
        "fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 0}},
    }


def write_table(path: Path, point: Point) -> None:
    """Random rows, clients in order."""
    rng = np.random.default_rng(1)
    total = point.clients * point.rows
    numbers = [pa.field(f"x{place}", pa.float32()) for place in range(point.features)]
    schema = pa.schema([("client", pa.int32()), ("group", pa.string()), ("y", pa.float32())])
    schema = pa.schema([*schema, *numbers])
    step = max(1, min(_ROWS_AT_ONCE, 10**7 // point.features))
    with pq.ParquetWriter(path, schema, use_dictionary=["group"]) as writer:
        for first in range(0, total, step):
            count = min(step, total - first)
            clients = (np.arange(first, first + count) // point.rows).astype(np.int32)
            groups = pa.array(["a", "b"]).take(pa.array(rng.integers(0, 2, count)))
            values = rng.normal(size=(point.features + 1, count)).astype(np.float32)
            writer.write_table(pa.table([clients, groups, *values], schema=schema))


# -- what a process measures of itself -----------------------------------------------------------


def _anonymous() -> float:
    """MiB that this process alone holds."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


class _Peak:
    """The most memory since it was last asked."""

    def __init__(self) -> None:
        self._before = self._most = _anonymous()
        threading.Thread(target=self._watch, daemon=True).start()

    def taken(self) -> float:
        """MiB beyond what there was at first."""
        most, self._most = max(self._most, _anonymous()), 0.0
        return round(most - self._before, 1)

    def _watch(self) -> None:
        while True:
            self._most = max(self._most, _anonymous())
            time.sleep(_LOOKED_EVERY)


class Measured:
    """Figures of one process after the other of its tasks."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._peak = _Peak()

    def __call__(self, what: str, task: Callable[[], Result]) -> Result:
        """The task's result; notes its processor time and peak."""
        began = time.process_time()
        result = task()
        self.found[f"{what}_seconds"] = round(time.process_time() - began, 4)
        self.found[f"{what}_mib"] = self._peak.taken()
        return result


def _own_figures(folder: Path, point: Point, *, only_load: bool) -> dict[str, float]:
    from fedaudit.federations.load import load_federation
    from fedaudit.federations.reading.source_files import DataRoom
    from fedaudit.runs.blocks import record_block
    from fedaudit.runs.checked_report import checked_report
    from fedaudit.runs.experiment_plan import plan_experiment
    from fedaudit.runs.memory_sink import MemorySink
    from fedaudit.runs.report_material import report_material
    from fedaudit.runs.run import new_run
    from fedaudit.runs.worker_extra import import_worker_extra
    from fedaudit.spec.parse import parse_spec
    from fedaudit.training.base.backend import backend
    from fedaudit.training.base.cell import Cell
    from fedaudit.training.base.round_records import PlayedRounds
    from fedaudit.training.stack import Stack

    import_worker_extra()
    spec, room = parse_spec(spec_of(point)), DataRoom(maps_dir=folder / "maps")
    measured = Measured()
    federation = measured("load", lambda: load_federation(spec, sources_dir=folder, room=room))
    if only_load:
        return measured.found
    measured("plan", lambda: plan_experiment(spec, federation))
    cell = Cell(spec, federation)
    run = new_run(cell, experiment_id="0" * 32, started_at=datetime.now(UTC))
    sink = MemorySink(run.ledger.ledger_context)
    stack = measured("start", lambda: Stack([cell]))

    def play() -> None:
        while stack.active:
            records = stack.advance(64)[0]
            sink.write(record_block(run, records, last=not stack.active))

    measured("rounds", play)
    result = measured("result", lambda: stack.result(0))

    def report() -> dict[str, Any]:
        sink.write(record_block(run, PlayedRounds(), last=True, reported=True))
        material = report_material(run, result, sink, device="cpu", backend=backend("cpu"))
        return checked_report(material, result)

    document = measured("report", report)
    return {**measured.found, "report_bytes": len(json.dumps(document))}


def _in_a_process(folder: Path, point: Point, *, only_load: bool) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.curves", "--measure", str(folder)]
    command += [json.dumps(asdict(point)), *["--only-load"] * only_load]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(answer.stderr[-3000:])
    found: dict[str, float] = json.loads(answer.stdout)
    return found


def _measure(point: Point, folder: Path) -> dict[str, Any]:
    write_table(folder / "table.parquet", point)
    time.sleep(2.1)  # so that the file has settled, and its fingerprint can be kept
    first = _in_a_process(folder, point, only_load=True)
    found = _in_a_process(folder, point, only_load=False)
    return {
        **asdict(point),
        "file_mb": round((folder / "table.parquet").stat().st_size / 1e6, 1),
        "first_load_seconds": first["load_seconds"],
        "first_load_mib": first["load_mib"],
        **found,
        "rounds_a_second": round(point.rounds / found["rounds_seconds"], 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Prints a line for each point, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(_CURVES))
    parser.add_argument("--out", type=Path, default=_RESULTS)
    parser.add_argument("--folder", type=Path, help="where tables are made; default: temporary")
    parser.add_argument("--measure", nargs=2, metavar=("FOLDER", "POINT"), help=argparse.SUPPRESS)
    parser.add_argument("--only-load", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        folder, point = Path(asked.measure[0]), replace(Point(), **json.loads(asked.measure[1]))
        print(json.dumps(_own_figures(folder, point, only_load=asked.only_load)))
        return
    from benchmarks.machine import machine

    found: dict[str, list[dict[str, Any]]] = {}
    for name, points in _CURVES.items():
        if asked.only not in (None, name):
            continue
        found[name] = []
        for point in points:
            with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
                found[name].append(_measure(point, Path(folder)))
            print(name, json.dumps(found[name][-1]), flush=True)
            asked.out.write_text(json.dumps({"machine": machine(), "curves": found}, indent=2))


if __name__ == "__main__":
    main()
