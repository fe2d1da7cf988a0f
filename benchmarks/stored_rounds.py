"""Rounds a second with everything stored: the service beside the bare engine.

`python -m benchmarks.stored_rounds` starts `fedaudit up` twice, on SQLite with the folder queue
and on Postgres with Valkey (the servers that the tests use), submits the same experiment over HTTP
and takes the time between its own `started_at` and `finished_at`: data loaded, trained, ledger,
figures, events and checkpoints stored, report assembled. The bare engine runs before and after,
so that a busy machine shows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx

import migrations
from benchmarks.machine import machine
from benchmarks.pages import add_write_option, write_measured
from benchmarks.reproductions.runs import table
from benchmarks.servers import start_postgres, start_valkey
from benchmarks.workloads import HOSPITAL_FILE, hospital_charges, synthetic_linear
from fedaudit.federations.load import load_federation
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

_ROUNDS = 3000


@contextmanager
def service(data_dir: Path, environment: Mapping[str, str]) -> Iterator[httpx.Client]:
    """A client of a fresh `fedaudit up`."""
    command = [sys.executable, "-P", "-m", "fedaudit.cli.main", "up", "--json"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(data_dir)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        facts = json.loads(process.stdout.readline())
        headers = {"Authorization": f"Bearer {facts['api_key']}"}
        with httpx.Client(base_url=f"{facts['url']}/v1", headers=headers, timeout=60) as client:
            yield client
    finally:
        process.terminate()
        process.wait(timeout=20)


def stored_rate(client: httpx.Client, spec: ExperimentSpec) -> float:
    """Rounds a second of one experiment, by the service's own clock."""
    answer = client.post("/experiments", json=spec.model_dump(mode="json"))
    answer.raise_for_status()
    place = f"/experiments/{answer.json()['id']}"
    while (experiment := client.get(place).json())["status"] in ("queued", "running"):
        time.sleep(0.5)
    if experiment["status"] != "succeeded":
        raise RuntimeError(f"the experiment ended as {experiment['status']}: {experiment}")
    started, finished = (
        datetime.fromisoformat(experiment[name]) for name in ("started_at", "finished_at")
    )
    rounds: int = experiment["progress"]["round"]
    return rounds / (finished - started).total_seconds()


def engine_rate(spec: ExperimentSpec, sources: Path) -> float:
    """Rounds a second of the engine alone, data loaded and records made, nothing stored."""
    began = time.perf_counter()
    stack = Stack([Cell(spec, load_federation(spec, sources_dir=sources))])
    rounds = 0
    while stack.active:
        rounds += len(stack.advance(100)[0])
    return rounds / (time.perf_counter() - began)


def measure(spec: ExperimentSpec, sources: Path, turns: int) -> dict[str, list[float]]:
    """Rates of the bare engine, embedded and on Postgres, in turn."""
    rates: dict[str, list[float]] = {"engine": [], "embedded": [], "postgres": []}
    postgres, valkey = start_postgres(), start_valkey()
    migrations.upgrade(postgres.url)
    servers = {"FEDAUDIT_DATABASE_URL": postgres.url, "FEDAUDIT_BROKER_URL": valkey.url}
    common = {"FEDAUDIT_SOURCES_DIR": str(sources)}
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            service(Path(folder) / "embedded", common) as embedded,
            service(Path(folder) / "production", {**common, **servers}) as production,
        ):
            for _ in range(turns):
                rates["engine"].append(engine_rate(spec, sources))
                rates["embedded"].append(stored_rate(embedded, spec))
                rates["postgres"].append(stored_rate(production, spec))
    finally:
        postgres.stop()
        valkey.stop()
    return rates


def main() -> None:
    """Prints a row a workload and writes every turn to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--out", type=Path)
    add_write_option(parser)
    options = parser.parse_args()
    specs = {"W1 synthetic": synthetic_linear(seed=1, rounds=options.rounds)}
    if (options.data / HOSPITAL_FILE).exists():
        specs["W2 hospital"] = hospital_charges(seed=1, rounds=options.rounds)
    else:
        print(f"W2 left out: {options.data / HOSPITAL_FILE} is missing")
    found: dict[str, Any] = {}
    for name, spec in specs.items():
        found[name] = measure(spec, options.data.resolve(), options.turns)
    header = ("workload", "engine alone", "embedded", "Postgres and Valkey")
    rows = [[name, *(f"{median(one):,.0f}" for one in by.values())] for name, by in found.items()]
    print(table(header, rows))
    if options.write:
        write_measured("benchmarks.stored_rounds", table(header, rows))
    if options.out is not None:
        document = {"machine": machine(), "rounds": options.rounds, "rounds_a_second": found}
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
