"""What a service takes around the rounds: `python -m benchmarks.around_runs --data DATA`.

Milliseconds of processor time on Postgres: of the worker for a run of the hospital task in its
first stack, and for one in a second stack; of the API for a submission, a list of 20, the end of a
sweep of 1,000 queued cells (in all), and, as the least that any request costs, a read of one
experiment. `--before` names a checkout of another commit: both services run at once and are
measured block by block in turn, since the pace of a machine changes within minutes. Shown are the
medians of the turns, and of their ratios.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
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


@dataclass(frozen=True)
class _Measured:
    """One service: each block gives milliseconds by what they were spent on."""

    service: WholeService
    client: Client
    cells: int
    rounds: int

    def block(self, name: str, turn: int) -> dict[str, float]:
        """Runs come before requests, whose submissions wait for a worker and get none."""
        return {"runs": self._runs, "requests": self._requests, "ends": self._ends}[name](turn)

    def _runs(self, turn: int) -> dict[str, float]:
        """A worker that starts anew, and two stacks one after the other."""
        spec = hospital_charges(seed=1, rounds=self.rounds).model_dump(mode="json")
        worker, found = None, {}
        for place, name in enumerate((f"run in a stack of {self.cells}", "run beside these")):
            first = (2 * turn + place) * self.cells
            sweep = self.client.submit_sweep(_sweep(spec, range(first, first + self.cells)))["id"]
            worker = worker or self.service.start(WORKER)
            while not worker.ready:
                time.sleep(0.1)
            before = _spent(worker.pid)
            while self.client.sweep(sweep)["status"] in ("queued", "running"):
                time.sleep(1.0)
            found[name] = (_spent(worker.pid) - before) / self.cells
        if worker is not None:
            self.service.stop([worker])
        return found

    def _requests(self, _turn: int) -> dict[str, float]:
        spec = synthetic_linear(seed=1, rounds=200).model_dump(mode="json")
        with http(self.service.url, self.service.key) as plain:
            submit = partial(plain.post, "/v1/experiments", json=spec)
            read = partial(plain.get, f"/v1/experiments/{submit().json()['id']}")
            listed = partial(plain.get, "/v1/experiments", params={"limit": 20})
            asked = {"read of one experiment": read, "submission": submit, "list of 20": listed}
            return {name: self._each(ask) for name, ask in asked.items()}

    def _each(self, ask: Callable[[], httpx.Response]) -> float:
        ask().raise_for_status()
        before = _spent(self._api)
        for _ in range(_REPEATED):
            ask().raise_for_status()
        return (_spent(self._api) - before) / _REPEATED

    def _ends(self, turn: int) -> dict[str, float]:
        spec = synthetic_linear(seed=1, rounds=200).model_dump(mode="json")
        first = turn * _CELLS
        sweep = self.client.submit_sweep(_sweep(spec, range(first, first + _CELLS)))["id"]
        before = _spent(self._api)
        self.client.ask("POST", f"sweeps/{sweep}/cancel")
        return {f"end of a sweep of {_CELLS:,} cells": _spent(self._api) - before}

    @property
    def _api(self) -> int:
        children = psutil.Process().children()
        return next(int(one.pid) for one in children if "api" in one.cmdline())


def serve(sources: Path, cells: int, rounds: int) -> None:
    """Measures the block of each line on standard input, `NAME TURN`, and prints its figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        whole_service(Path(folder), sources=sources) as service,
        Client(service.url, service.key, timeout=900) as client,
    ):
        measured = _Measured(service, client, cells, rounds)
        for line in sys.stdin:
            name, turn = line.split()
            print(json.dumps(measured.block(name, int(turn))), flush=True)


class _Tree:
    """The service of one commit, in a process that measures it."""

    def __init__(self, command: list[str], tree: Path) -> None:
        own = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=own, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> "_Tree":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def block(self, name: str, turn: int) -> dict[str, float]:
        """Raises RuntimeError where the process ended; its errors are on standard error."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("no pipes")
        print(name, turn, file=self._process.stdin, flush=True)
        answered = self._process.stdout.readline()
        if not answered:
            raise RuntimeError("the service that was measured has ended")
        found: dict[str, float] = json.loads(answered)
        return found


def _rows(turns: list[list[dict[str, float]]]) -> list[list[str]]:
    """A row for each figure: the medians of each tree, and that of the turns' ratios."""
    rows = []
    for what in turns[0][0]:
        by_tree = list(zip(*([one[what] for one in turn] for turn in turns), strict=True))
        row = [what, *(f"{median(one):,.1f}" for one in by_tree)]
        if len(by_tree) == 2:
            row.append(f"{median(now / before for before, now in zip(*by_tree, strict=True)):.2f}")
        rows.append(row)
    return rows


def main() -> None:
    """Prints a row for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--before", type=Path)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--cells", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--blocks", nargs="+", default=["runs", "requests", "ends"])
    parser.add_argument("--write", action="store_true", help="the table into its page of docs")
    parser.add_argument("--serve", action="store_true", help="measure as standard input asks")
    options = parser.parse_args()
    if options.serve:
        serve(options.data.resolve(), options.cells, options.rounds)
        return
    # Only here: a checkout from before may lack them.
    from benchmarks.pages import write_measured
    from benchmarks.reproductions.runs import table

    trees = {"now": Path(__file__).parent.parent}
    if options.before is not None:
        trees = {"before": options.before.resolve(), **trees}
    own = ["--data", str(options.data), "--cells", str(options.cells)]
    command = [sys.executable, "-P", __file__, *own, "--rounds", str(options.rounds), "--serve"]
    with ExitStack() as stack:
        measured = [stack.enter_context(_Tree(command, tree)) for tree in trees.values()]
        rows = [
            row
            for name in options.blocks
            for row in _rows(
                [[one.block(name, turn) for one in measured] for turn in range(options.turns)]
            )
        ]
    header = ("milliseconds of", *trees, *(["ratio"] if len(trees) == 2 else []))
    print(table(header, rows))
    if options.write:
        write_measured("benchmarks.around_runs", table(header, rows))


if __name__ == "__main__":
    main()
