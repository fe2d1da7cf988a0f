"""Workers killed at random while a grid runs: `python -m benchmarks.killed_workers
--data ../shared/data [--sweep examples/papers/hospital-table-1.yaml] [--workers 3] [--every 20]`.

One `POST /v1/sweeps` on a service of its own: Postgres, Valkey, the API, a sweeper and workers.
Every so many seconds, and once all workers listen, a random one of those that hold a unit gets
SIGKILL and another is started in its place, until all cells have ended. The same sweep is played by
a second service with undisturbed workers, and some of its cells by this process alone. The drill
fails, with a line for each fault, unless

- every cell has succeeded, with the ledger hash that it has undisturbed, and alone;
- the rounds of every cell are 1 to its last one, once each, in the tables of rounds and of the
  ledger, and each row holds the same figures as undisturbed;
- every cell has one report, whose bundle verifies under the service's key: it is valid, or, where
  the cell's worker was lost, all but the witness is proven (docs/verification.md says why);
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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import yaml

from benchmarks.machine import machine
from benchmarks.sweep_evidence import CellEvidence, SweepEvidence, faults, gathered, number
from benchmarks.whole_service import SWEEPER, WORKER, whole_service
from fedaudit.cli.run import run_locally
from fedaudit.reports.verification.verification import VALID
from fedaudit.spec.parse import parse_spec
from fedaudit_client.client import Client

_POLL_SECONDS = 2.0
_RUNNING = "SELECT count(*) FROM experiments WHERE status IN ('queued', 'running')"
_ENDED = "SELECT count(*) FROM experiments WHERE status NOT IN ('queued', 'running')"
_HOLDERS = "SELECT split_part(worker, ':', 2)::int FROM units WHERE state = 'leased'"

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

    seconds: float
    kills: Sequence[Kill]
    evidence: SweepEvidence
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
    """The sweep on a service of its own; no worker is killed where `every` is None, and bundles are
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
        while number(database, _RUNNING):
            second = time.monotonic() - began
            due = every is not None and second >= last + every
            due = due and all(worker.ready for worker in running)
            pids = {pid for (pid,) in database.execute(_HOLDERS)} if due else set()
            if busy := [place for place, worker in enumerate(running) if worker.pid in pids]:
                chosen = draws.choice(busy)
                running[chosen].kill()
                ended = number(database, _ENDED)
                kills.append(Kill(round(second, 1), chosen, ended, held=len(pids)))
                running[chosen], last = service.start(WORKER), second
            time.sleep(_POLL_SECONDS)
        seconds = time.monotonic() - began
        service.stop([sweeper, *running])
        evidence = gathered(service, client, database, sweep, verified=every is not None)
        some = range(0, len(evidence.cells), alone_every)
        specs = {place: _spec(client, evidence.cells[place]) for place in some}
    return Played(round(seconds, 1), kills, evidence, specs)


def _spec(client: Client, cell: CellEvidence) -> Mapping[str, Any]:
    spec: Mapping[str, Any] | None = client.get(cell.experiment_id)["spec"]
    if spec is None:
        raise RuntimeError(f"the service does not say the spec of cell {cell.position}")
    return spec


def faults_alone(found: Played, *, sources: Path) -> list[str]:
    """Of the cells whose specs were asked for, which differ where this process plays them alone."""
    said = []
    for place, stored in found.specs.items():
        spec = parse_spec(dict(stored))
        run = run_locally(spec, sources_dir=sources, device="cpu", progress=lambda _rounds: None)
        if run.report["integrity"]["ledger_hash"] != found.evidence.cells[place].ledger_hash:
            said.append(f"cell {place}: another ledger hash than alone")
    return said


def asked_sweep(
    path: Path, sources: Path, *, rounds: int | None, repeats: int | None
) -> dict[str, Any]:
    """The sweep of a file, or `SYNTHETIC` where its data are missing."""
    asked: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    data = asked["base"]["federation"].get("path")
    if data is not None and not (sources / data).is_file():
        print(f"{sources / data} is not there: a grid on made-up data is played instead")
        asked = json.loads(json.dumps(SYNTHETIC))
    if rounds is not None:
        asked["base"]["training"]["rounds"] = rounds
    if repeats is not None:
        asked["repeats"] = repeats
    return asked


def summary(found: Played) -> dict[str, Any]:
    """The figures of a sweep that was played."""
    cells, evidence = found.evidence.cells, found.evidence
    return {
        "cells": len(cells),
        "succeeded": sum(cell.status == "succeeded" for cell in cells),
        "rounds": sum(cell.rounds_done for cell in cells),
        "seconds": found.seconds,
        "kills": [asdict(kill) for kill in found.kills],
        "units_by_attempts": {str(tried): units for tried, units in evidence.attempts.items()},
        "cells_of_lost_workers": sum(cell.attempts > 1 for cell in cells),
        "lost_leases": evidence.lost_leases,
        "valid": sum(cell.verdict == VALID for cell in cells),
        "valid_but_for_the_witness": sum(cell.resumed for cell in cells),
        "spent": evidence.spent,
    }


def main() -> int:
    """Prints what was found as JSON; 1 where there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    sweep = Path("examples/papers/hospital-table-1.yaml")
    parser.add_argument("--sweep", type=Path, default=sweep)
    parser.add_argument("--rounds", type=int, help="in place of the sweep's own")
    parser.add_argument("--repeats", type=int, help="likewise")
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
    wanted = asked_sweep(asked.sweep, sources, rounds=asked.rounds, repeats=asked.repeats)
    settings = {"lease_seconds": str(asked.lease_seconds), "max_attempts": str(asked.max_attempts)}
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
    found = faults(killed.evidence, peaceful.evidence) + faults_alone(killed, sources=sources)
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
