"""One large model over several processes: rounds a second, and what they take of the processor.

    OMP_NUM_THREADS=1 python -m benchmarks.ranks --out result.json

Models of several sizes on random images with the Laplace mechanism, each trained by one process and
by several in turn. Rounds are measured once the helpers have started; the start is a figure of its
own. Elapsed figures mean something only where each process has a core to itself.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.handwriting import BATCHES, random_images
from benchmarks.handwriting_runs import handwriting
from benchmarks.machine import machine
from benchmarks.reproductions.runs import table
from fedaudit.training.base.cell import Cell
from fedaudit.training.ranks.helpers import Helpers
from fedaudit.training.stack import Stack

MODELS: dict[str, dict[str, Any]] = {
    "logistic": {"kind": "logistic"},
    "mlp, 32": {"kind": "mlp", "hidden": [32]},
    "mlp, 512": {"kind": "mlp", "hidden": [512]},
    "mlp, 1200": {"kind": "mlp", "hidden": [1200]},
    "cnn-femnist": {"kind": "cnn-femnist"},
}
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Spread:
    """How fast one model is trained by so many processes; medians over turns."""

    model: str
    parameters: int
    processes: int
    start_seconds: float
    """From nothing until the first round is done, less a round."""
    round_seconds: float
    first_seconds: float
    """Processor time of the first process in a round."""
    helpers_seconds: float
    """Processor time of all helpers together in a round."""


class _Trained:
    """A model being trained by so many processes."""

    def __init__(self, model: str, processes: int) -> None:
        spec = handwriting(
            hypotheses=2, noise_multiplier=1.0, rounds=1_000_000, local=BATCHES, validate_every=5
        )
        changed = {**spec.model_dump(mode="json"), "model": MODELS[model]}
        cell = Cell(type(spec).model_validate(changed), random_images())
        self.model, self.processes, self.parameters = model, processes, cell.shape.n
        self.helpers = Helpers(["cpu"] * (processes - 1))
        self._stack = Stack([cell], helpers=self.helpers)
        self.turns: list[tuple[float, float, float]] = []
        began = time.monotonic()
        self._stack.advance(1)
        self._start = time.monotonic() - began

    def turn(self, seconds: float) -> None:
        """Plays rounds for so long, and keeps what one took."""
        rounds, began, own, others = 0, time.monotonic(), time.process_time(), self._others()
        while time.monotonic() - began < seconds:
            self._stack.advance(5)
            rounds += 5
        took = (
            time.monotonic() - began,
            time.process_time() - own,
            self._others() - others,
        )
        elapsed, first, helpers = (one / rounds for one in took)
        self.turns.append((elapsed, first, helpers))

    def _others(self) -> float:
        """Processor seconds of the helpers so far."""
        ticks = 0
        for pid in self.helpers.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS

    def found(self) -> Spread:
        """The medians."""
        elapsed, first, helpers = (median(column) for column in zip(*self.turns, strict=True))
        return Spread(
            model=self.model,
            parameters=self.parameters,
            processes=self.processes,
            start_seconds=self._start - elapsed,
            round_seconds=elapsed,
            first_seconds=first,
            helpers_seconds=helpers,
        )


def measure(model: str, *, processes: Sequence[int], turns: int, seconds: float) -> list[Spread]:
    """One model by one process, in turn with each of these numbers of `processes`."""
    alone = _Trained(model, 1)
    found = []
    for one in processes:
        # torch.distributed has one group in a process, so those with helpers come one by one.
        with (other := _Trained(model, one)).helpers:
            for _ in range(turns):
                alone.turn(seconds)
                other.turn(seconds)
            found.append(other.found())
    return [alone.found(), *found]


def spread_table(found: Sequence[Spread]) -> str:
    """A line for each model and number of processes."""
    header = (
        "model",
        "parameters",
        "processes",
        "start, s",
        "rounds/s",
        "cpu first, ms",
        "helpers, ms",
    )
    return table(
        header,
        [
            [
                one.model,
                f"{one.parameters:,}",
                str(one.processes),
                f"{one.start_seconds:.1f}",
                f"{1 / one.round_seconds:.2f}",
                f"{1000 * one.first_seconds:.0f}",
                f"{1000 * one.helpers_seconds:.0f}",
            ]
            for one in found
        ],
    )


def main() -> None:
    """Prints the table, and writes the JSON where `--out` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--processes", type=int, nargs="+", default=[2], help="2 or more")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one turn")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found: list[Spread] = []
    for model in chosen.models:
        found += measure(
            model, processes=chosen.processes, turns=chosen.turns, seconds=chosen.seconds
        )
        print(spread_table(found), "\nload:", *os.getloadavg(), flush=True)
    if chosen.out is not None:
        document = {
            "benchmark": "ranks",
            "machine": machine(),
            "load": os.getloadavg(),
            "local": BATCHES,
            "spread": [asdict(one) for one in found],
        }
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
