"""Workers killed at random while a grid runs: `python -m benchmarks.killed_workers
--data ../shared/data [--sweep examples/papers/hospital-table-1.yaml] [--workers 3] [--every 20]`.

One `POST /v1/sweeps` on a service of its own: Postgres, Valkey, the API, a sweeper and workers.
Every so many seconds, and once all workers listen, a random one gets SIGKILL and another is started
in its place, until all cells have ended. The same sweep is played by a second service whose workers
nobody kills, and some of its cells by this process alone. The drill fails, with a line for each
fault, unless

- every cell has succeeded, with the ledger hash that it has undisturbed, and alone;
- the rounds of every cell are 1 to its last one, once each, in the tables of rounds and of the
  ledger, and each row holds the same figures as undisturbed;
- every cell has one report, whose bundle verifies under the service's key;
- nothing is reserved any more, and every budget has spent what it has undisturbed;
- the sweep's table and its costs are the same.

A sweep whose data are missing is replaced by `SYNTHETIC`, whose data are drawn.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import yaml

from benchmarks.machine import machine
from benchmarks.whole_service import SWEEPER, WORKER, WholeService, whole_service
from fedaudit.cli.local_run import run_locally
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.ed25519 import public_keys_in
from fedaudit.reports.verification.verification import VALID, verify
from fedaudit.spec.parse import parse_spec
from fedaudit_client.client import Client
from fedaudit_client.sweep_types import SweepCell
from infrastructure.signing_keys import public_file

_POLL_SECONDS = 2.0
_RELATIVE = 1e-9
"""Budgets add up in the order in which cells end."""

_ROWS = """
SELECT experiment_id, count(*), min(round), max(round), count(DISTINCT round),
    md5(string_agg(md5((to_jsonb(found) - '{experiment_id,project_id,link}'::text[])::text), ''
        ORDER BY to_jsonb(found)->>'round', md5(to_jsonb(found)::text)))
FROM TABLE_NAME AS found GROUP BY experiment_id
"""
_RUNNING = "SELECT count(*) FROM experiments WHERE status IN ('queued', 'running')"
_ENDED = "SELECT count(*) FROM experiments WHERE status NOT IN ('queued', 'running')"
_HELD = "SELECT count(*) FROM units WHERE state = 'leased'"
_TABLES = ("rounds", "ledger")

SYNTHETIC: Mapping[str, Any] = {
    "name": "killed-workers",
    "repeats": 4,
    "grid": {
        "training.hypotheses": [1, 2],
        "privacy": [
            {"mechanism": "none"},
            {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 0.5, "clip": 1.0},
            {"mechanism": "laplace-l2", "noise_multiplier": 5, "radius": 0.5, "clip": 1.0},
        ],
    },
    "base": {
        "name": "killed-workers",
        "seed": 1,
        "federation": {"source": "synthetic-groups"},
        "model": {"kind": "linear", "intercept": True},
        "training": {
            "loss": "rmse",
            "rounds": 1500,
            "cohort": {"clients": 70},
            "local": {"epochs": 1, "step_size": 0.1},
        },
        "fairness": {"sensitive": ["group"], "favourable": {"op": "ge", "value": 0}},
    },
}


@dataclass(frozen=True)
class Rows:
    """What a table holds of a cell: how many rows, of which rounds, and a hash of their content."""

    rows: int
    first: int
    last: int
    distinct: int
    content: str


@dataclass(frozen=True)
class CellEvidence:
    """What is left of one cell."""

    position: int
    experiment_id: str
    status: str
    reason: str | None
    ledger_hash: str | None
    verdict: str | None
    rounds_done: int
    tables: Mapping[str, Rows]


@dataclass(frozen=True)
class Kill:
    """A worker that was killed."""

    second: float
    """After the workers were started."""
    worker: int
    cells_done: int
    held: int
    """Units that were held by workers at that moment."""


@dataclass(frozen=True)
class Played:
    """A sweep that has ended."""

    cells: Sequence[CellEvidence]
    seconds: float
    kills: Sequence[Kill]
    attempts: Mapping[int, int]
    """Units by how often they were tried; a unit that was trained beside another counts as well."""
    lost_leases: int
    reserved: float
    unsettled: int
    spent: Mapping[str, float]
    """By budget."""
    table: Any
    costs: Any
    specs: Mapping[int, Mapping[str, Any]]
    """Of some cells."""


def play(
    asked: Mapping[str, Any],
    folder: Path,
    *,
    sources: Path,
    workers: int,
    every: float | None,
    seed: int,
    alone_every: int,
    settings: Mapping[str, str],
) -> Played:
    """The sweep on a service of its own; nobody is killed where `every` is None, and bundles are
    then not verified. `alone_every`: of so many cells the spec of one is kept."""
    folder.mkdir()
    with (
        whole_service(folder, sources=sources, **settings) as service,
        Client(service.url, service.key, timeout=300) as client,
        psycopg.connect(service.postgres.url, autocommit=True) as database,
    ):
        sweep = client.submit_sweep(asked)["id"]
        sweeper = service.start(SWEEPER)
        running = [service.start(WORKER) for _ in range(workers)]
        draws, began = random.Random(seed), time.monotonic()
        kills: list[Kill] = []
        last = 0.0
        while _number(database, _RUNNING):
            second = time.monotonic() - began
            due = every is not None and second >= last + every
            if due and all(worker.ready for worker in running):
                chosen = draws.randrange(workers)
                ended, held = _number(database, _ENDED), _number(database, _HELD)
                running[chosen].kill()
                kills.append(Kill(round(second, 1), chosen, ended, held))
                running[chosen], last = service.start(WORKER), second
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - began
        service.stop([sweeper, *running])
        tables = {name: _rows(database, name) for name in _TABLES}
        seen = client.sweep(sweep)
        check = every is not None
        cells = [_evidence(client, service, one, tables, check=check) for one in seen["cells"]]
        table = client.sweep_table(sweep)
        attempts = "SELECT attempts, count(*) FROM units GROUP BY attempts ORDER BY attempts"
        unsettled = "SELECT count(*) FROM reservations WHERE state <> 'settled'"
        budgets = "SELECT concat_ws(' ', book, figure, adjacency, unit_key), sum(spent) "
        budgets += "FROM federation_budgets GROUP BY 1"
        return Played(
            cells=cells,
            seconds=round(seconds, 1),
            kills=kills,
            attempts=dict(database.execute(attempts).fetchall()),
            lost_leases=_number(database, "SELECT coalesce(sum(lost_leases), 0) FROM units"),
            reserved=_number(database, "SELECT coalesce(sum(reserved), 0) FROM federation_budgets"),
            unsettled=_number(database, unsettled),
            spent=dict(database.execute(budgets).fetchall()),
            table=[{**row, "experiment_ids": None} for row in table["rows"]],
            costs=seen["costs"],
            specs={
                place: _spec(client, cells[place]) for place in range(0, len(cells), alone_every)
            },
        )


def _number(database: psycopg.Connection[Any], statement: str) -> Any:
    row = database.execute(statement).fetchone()
    assert row is not None
    return row[0]


def _rows(database: psycopg.Connection[Any], table: str) -> dict[str, Rows]:
    found = database.execute(_ROWS.replace("TABLE_NAME", table)).fetchall()
    return {str(own): Rows(*columns) for own, *columns in found}


def _evidence(
    client: Client,
    service: WholeService,
    cell: SweepCell,
    tables: Mapping[str, Mapping[str, Rows]],
    *,
    check: bool,
) -> CellEvidence:
    own = cell["experiment_id"]
    ledger_hash = verdict = None
    if cell["status"] == "succeeded":
        ledger_hash = client.report(own)["integrity"]["ledger_hash"]
        verdict = _verdict(client, service, own) if check else None
    return CellEvidence(
        position=cell["position"],
        experiment_id=own,
        status=cell["status"],
        reason=cell["status_reason"],
        ledger_hash=ledger_hash,
        verdict=verdict,
        rounds_done=cell["progress"]["round"],
        tables={name: rows[own] for name, rows in tables.items() if own in rows},
    )


def _verdict(client: Client, service: WholeService, experiment_id: str) -> str:
    """What verification says of its bundle, under the service's key."""
    trusted = public_keys_in(public_file(service.signing_key).read_bytes())
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        client.download_bundle(experiment_id, file)
        file.flush()
        with opened_bundle(Path(file.name)) as evidence:
            return verify(evidence, trusted=trusted).verdict


def _spec(client: Client, cell: CellEvidence) -> Mapping[str, Any]:
    spec = client.get(cell.experiment_id)["spec"]
    if spec is None:
        raise RuntimeError(f"the service does not say the spec of cell {cell.position}")
    return spec


def faults(found: Played, undisturbed: Played) -> list[str]:
    """What is wrong with a sweep whose workers were killed, beside the same one in peace."""
    pairs = zip(found.cells, undisturbed.cells, strict=True)
    said = [fault for cell, expected in pairs for fault in _faults_of_cell(cell, expected)]
    if found.unsettled or found.reserved > _RELATIVE:
        said.append(f"{found.unsettled} reservations are held, {found.reserved} is reserved")
    if not _close(found.spent, undisturbed.spent):
        said.append(f"{found.spent} is spent, in peace {undisturbed.spent}")
    if found.table != undisturbed.table:
        said.append("the table of the sweep is another one than in peace")
    if not _close(found.costs, undisturbed.costs):
        said.append(f"the sweep costs {found.costs}, in peace {undisturbed.costs}")
    return said


def _faults_of_cell(cell: CellEvidence, expected: CellEvidence) -> Iterator[str]:
    name = f"cell {cell.position}"
    if cell.status != "succeeded" or expected.status != "succeeded":
        yield f"{name}: {cell.status} ({cell.reason}), in peace {expected.status}"
        return
    if cell.ledger_hash != expected.ledger_hash:
        yield f"{name}: another ledger hash than in peace"
    if cell.verdict != VALID:
        yield f"{name}: its bundle is {cell.verdict}"
    for table in _TABLES:
        rows = cell.tables.get(table)
        if rows is None or (rows.first, rows.last) != (1, cell.rounds_done):
            yield f"{name}: {table} is not of rounds 1 to {cell.rounds_done}: {rows}"
        elif not rows.rows == rows.distinct == cell.rounds_done:
            yield f"{name}: {table} lacks rounds or has some twice: {rows}"
        elif rows != expected.tables.get(table):
            yield f"{name}: {table} holds other figures than in peace"


def _close(one: Any, other: Any) -> bool:
    """Whether two pieces of JSON are the same but for how their numbers were rounded."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_close(one[name], other[name]) for name in one)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= _RELATIVE * max(abs(one), abs(other))
    return bool(one == other)


def faults_alone(found: Played, *, sources: Path) -> list[str]:
    """Of the cells whose specs were asked for, which differ where this process plays them alone."""
    said = []
    for place, stored in found.specs.items():
        spec = parse_spec(dict(stored))
        run = run_locally(spec, sources_dir=sources, device="cpu", progress=lambda _rounds: None)
        if run.report["integrity"]["ledger_hash"] != found.cells[place].ledger_hash:
            said.append(f"cell {found.cells[place].position}: another ledger hash than alone")
    return said


def asked_sweep(path: Path, sources: Path, *, rounds: int | None) -> dict[str, Any]:
    """The sweep of a file, or `SYNTHETIC` where its data are missing."""
    asked: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    data = asked["base"]["federation"].get("path")
    if data is not None and not (sources / data).is_file():
        print(f"{sources / data} is not there: a grid on made-up data is played instead")
        asked = json.loads(json.dumps(SYNTHETIC))
    if rounds is not None:
        asked["base"]["training"]["rounds"] = rounds
    return asked


def summary(found: Played) -> dict[str, Any]:
    """The figures of a sweep that was played."""
    return {
        "cells": len(found.cells),
        "succeeded": sum(cell.status == "succeeded" for cell in found.cells),
        "rounds": sum(cell.rounds_done for cell in found.cells),
        "seconds": found.seconds,
        "kills": [asdict(kill) for kill in found.kills],
        "units_by_attempts": {str(tried): units for tried, units in found.attempts.items()},
        "lost_leases": found.lost_leases,
        "verified": sum(cell.verdict == VALID for cell in found.cells),
        "spent": found.spent,
    }


def main() -> int:
    """Prints what was found as JSON; 1 where there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    sweep = Path("examples/papers/hospital-table-1.yaml")
    parser.add_argument("--sweep", type=Path, default=sweep)
    parser.add_argument("--rounds", type=int, help="in place of the sweep's own")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two kills")
    parser.add_argument("--seed", type=int, default=20, help="of who is killed")
    parser.add_argument("--lease-seconds", type=float, default=30.0)
    parser.add_argument("--max-attempts", type=int, default=3)
    parser.add_argument(
        "--alone-every", type=int, default=10, help="of so many cells one is played alone as well"
    )
    asked = parser.parse_args()
    sources = asked.data.resolve()
    wanted = asked_sweep(asked.sweep, sources, rounds=asked.rounds)
    settings = {
        "lease_seconds": str(asked.lease_seconds),
        "max_attempts": str(asked.max_attempts),
    }
    with tempfile.TemporaryDirectory() as folder:
        killed, peaceful = (
            play(
                wanted,
                Path(folder) / name,
                sources=sources,
                workers=asked.workers,
                every=every,
                seed=asked.seed,
                alone_every=asked.alone_every,
                settings=settings,
            )
            for name, every in (("killed", asked.every), ("peaceful", None))
        )
    found = faults(killed, peaceful) + faults_alone(killed, sources=sources)
    document = {
        "machine": machine(),
        "killed": summary(killed),
        "undisturbed": summary(peaceful),
        "faults": found,
    }
    print(json.dumps(document, indent=1))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
