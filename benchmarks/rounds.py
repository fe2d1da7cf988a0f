"""Rounds a second of the stacked engine against a plain loop over clients.

    OMP_NUM_THREADS=1 python -m benchmarks.rounds --data ../shared/data --out result.json

Both do all the work of a round (choice of hypothesis, local update, noise, clustering,
validation, counts per group) in one process and one thread, in turn, so that whatever else the
machine does slows both. The engine also keeps the round's records. Ratios are of processor time,
turn by turn; their median is what counts.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.machine import machine
from benchmarks.naive_loop import NaiveRun
from benchmarks.pages import add_write_option, write_measured
from benchmarks.reproductions.runs import table
from benchmarks.workloads import cells, hospital_charges, missing_hospital_data, synthetic_linear
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

AVERAGING: dict[str, Any] = {"hypotheses": 1, "noise_multiplier": None}
STACKS = (24, 60, 240)
_SECONDS = 0.8
_BLOCK = 64


@dataclass(frozen=True)
class Pace:
    """Rounds (of one experiment) a second of processor time and of elapsed time."""

    processor: float
    elapsed: float


@dataclass(frozen=True)
class Measured:
    """One workload; a pace for each turn."""

    name: str
    experiments: int
    engine: list[Pace]
    plain: list[Pace]

    @property
    def ratios(self) -> list[float]:
        """Engine over plain loop, turn by turn, in processor time."""
        pairs = zip(self.engine, self.plain, strict=True)
        return [engine.processor / plain.processor for engine, plain in pairs]

    def row(self) -> list[str]:
        """A line of the table."""
        low, high = min(self.ratios), max(self.ratios)
        return [
            self.name,
            str(self.experiments),
            f"{median(one.processor for one in self.engine):,.0f}",
            f"{median(one.elapsed for one in self.engine):,.0f}",
            f"{median(one.processor for one in self.plain):,.1f}",
            f"{median(one.elapsed for one in self.plain):,.1f}",
            f"{median(self.ratios):,.0f} ({low:,.0f} to {high:,.0f})",
        ]


HEADER = (
    "workload",
    "experiments",
    "engine, processor",
    "elapsed",
    "plain loop, processor",
    "elapsed",
    "ratio",
)


def pace(play: Callable[[], int], seconds: float) -> Pace:
    """Calls `play`, which answers how many rounds it played, for at least `seconds`."""
    rounds = 0
    elapsed, processor = time.perf_counter(), time.process_time()
    while time.perf_counter() - elapsed < seconds:
        rounds += play()
    processor = time.process_time() - processor
    elapsed = time.perf_counter() - elapsed
    return Pace(processor=round(rounds / processor, 2), elapsed=round(rounds / elapsed, 2))


def measure(name: str, chosen: Sequence[Cell], *, turns: int, seconds: float) -> Measured:
    """Engine and plain loop in turn: A B A B."""
    stack, naive = Stack(chosen), NaiveRun(chosen[0].spec, chosen[0].federation)

    def engine() -> int:
        return sum(len(records) for records in stack.advance(_BLOCK).values())

    def plain() -> int:
        naive.round()
        return 1

    engine()
    plain()
    found = [(pace(engine, seconds), pace(plain, seconds)) for _ in range(turns)]
    return Measured(
        name=name,
        experiments=len(chosen),
        engine=[pair[0] for pair in found],
        plain=[pair[1] for pair in found],
    )


def workloads(data: Path) -> dict[str, Callable[..., ExperimentSpec]]:
    """The tasks whose data are there."""
    tasks: dict[str, Callable[..., ExperimentSpec]] = {"W1 synthetic": synthetic_linear}
    if reason := missing_hospital_data(data):
        print(f"W2 left out: {reason}")
    else:
        tasks["W2 hospital"] = hospital_charges
    return tasks


def measure_all(data: Path, *, turns: int, seconds: float) -> list[Measured]:
    """Every task: averaging alone, the full algorithm, and the full algorithm in stacks."""
    found = []
    for task, spec in workloads(data).items():
        variants = [(f"{task}, averaging only", 1, AVERAGING), (f"{task}, full", 1, {})]
        variants += [(f"{task}, full", size, {}) for size in STACKS]
        for name, size, changes in variants:
            specs = [spec(seed=seed, **changes) for seed in range(1, size + 1)]
            chosen = cells(specs, data=data)
            found.append(measure(name, chosen, turns=turns, seconds=seconds))
    return found


def document(found: Sequence[Measured]) -> dict[str, Any]:
    """The measurement as JSON."""
    return {
        "benchmark": "rounds",
        "unit": "rounds of one experiment a second",
        "machine": machine(),
        "measured": [
            {
                **asdict(one),
                "ratios": [round(ratio, 2) for ratio in one.ratios],
                "median_ratio": round(median(one.ratios), 2),
            }
            for one in found
        ],
    }


def main() -> None:
    """Prints the table, and writes the JSON where `--out` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of one turn")
    parser.add_argument("--out", type=Path)
    add_write_option(parser)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = measure_all(chosen.data, turns=chosen.turns, seconds=chosen.seconds)
    rows = table(HEADER, [one.row() for one in found])
    print(rows)
    if chosen.write:
        write_measured("benchmarks.rounds", rows)
    if chosen.out is not None:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(document(found), indent=1) + "\n")


if __name__ == "__main__":
    main()
