"""What a service takes around the rounds: `python -m benchmarks.around_runs --data DATA`.

Milliseconds of processor time on Postgres: of the worker for a run of the hospital task in a stack,
and for one more beside these; of the API for a submission, a list of 20, the end of a sweep of
1,000 queued cells (in all), and, as the least that any request costs, a read of one experiment.
`--before` names a checkout of another commit: both are measured in turn, each by its own service,
and the smallest of the turns is shown.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.served_api import http
from benchmarks.whole_service import WORKER, WholeService, whole_service
from benchmarks.workloads import hospital_charges, synthetic_linear
from fedaudit_client.client import Client

_REPEATED = 100
_CELLS = 1000


def _spent(pid: int) -> float:
    """Milliseconds of processor time so far."""
    times = psutil.Process(pid).cpu_times()
    return 1000.0 * float(times.user + times.system)


def _sweep(spec: dict[str, Any], seeds: range) -> dict[str, Any]:
    return {"name": "around", "grid": {"seed": list(seeds)}, "base": spec}


def _worked(service: WholeService, client: Client, cells: int, rounds: int) -> list[float]:
    """Of a run in a stack, and of one in a second stack."""
    spec = hospital_charges(seed=1, rounds=rounds).model_dump(mode="json")
    found = []
    worker = None
    for first in (1, 1 + cells):
        sweep = client.submit_sweep(_sweep(spec, range(first, first + cells)))["id"]
        worker = worker or service.start(WORKER)
        while not worker.ready:
            time.sleep(0.1)
        before = _spent(worker.pid)
        while client.sweep(sweep)["status"] in ("queued", "running"):
            time.sleep(1.0)
        found.append((_spent(worker.pid) - before) / cells)
    if worker is not None:
        service.stop([worker])
    return found


def measure(sources: Path, cells: int, rounds: int, *, alone: bool) -> dict[str, float]:
    """Milliseconds by what they were spent on; `alone`: of runs only."""
    with (
        tempfile.TemporaryDirectory() as folder,
        whole_service(Path(folder), sources=sources) as service,
        Client(service.url, service.key, timeout=900) as client,
        http(service.url, service.key) as plain,
    ):
        api = next(one.pid for one in psutil.Process().children() if "api" in one.cmdline())
        first, beside = _worked(service, client, cells, rounds)
        found = {f"run in a stack of {cells}": first, "run beside these": beside}
        if alone:
            return found
        spec = synthetic_linear(seed=1, rounds=200).model_dump(mode="json")
        submitted = client.submit(spec)["id"]
        asked: dict[str, Callable[[], httpx.Response]] = {
            "read of one experiment": partial(plain.get, f"/v1/experiments/{submitted}"),
            "submission": partial(plain.post, "/v1/experiments", json=spec),
            "list of 20": partial(plain.get, "/v1/experiments", params={"limit": 20}),
        }
        for name, ask in asked.items():
            ask().raise_for_status()
            before = _spent(api)
            for _ in range(_REPEATED):
                ask().raise_for_status()
            found[name] = (_spent(api) - before) / _REPEATED
        sweep = client.submit_sweep(_sweep(spec, range(_CELLS)))["id"]
        before = _spent(api)
        client.ask("POST", f"sweeps/{sweep}/cancel")
        found[f"end of a sweep of {_CELLS:,} cells"] = _spent(api) - before
    return found


def main() -> None:
    """Prints a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cells", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--alone", action="store_true", help="measure runs only")
    parser.add_argument("--write", action="store_true", help="the table into its page of docs")
    parser.add_argument("--one", action="store_true", help="measure once, and print JSON")
    options = parser.parse_args()
    if options.one:
        asked = options.data.resolve(), options.cells, options.rounds
        print(json.dumps(measure(*asked, alone=options.alone)))
        return
    # Only here: a checkout from before may lack them.
    from benchmarks.pages import write_measured
    from benchmarks.reproductions.runs import table

    trees = {"now": Path(__file__).parent.parent}
    if options.before is not None:
        trees = {"before": options.before.resolve(), **trees}
    own = ["--data", str(options.data), "--cells", str(options.cells)]
    command = [sys.executable, "-P", __file__, *own, "--rounds", str(options.rounds), "--one"]
    command += ["--alone"] if options.alone else []
    found: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for _ in range(options.turns):
        for name, tree in trees.items():
            environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
            one = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
            found[name].append(json.loads(one.stdout))
    rows = [
        [what, *(f"{min(turn[what] for turn in turns):,.1f}" for turns in found.values())]
        for what in found["now"][0]
    ]
    print(table(("milliseconds of", *trees), rows))
    if options.write:
        write_measured("benchmarks.around_runs", table(("milliseconds of", *trees), rows))


if __name__ == "__main__":
    main()
