"""The engines on a GPU beside one core of the processor, in turn.

    OMP_NUM_THREADS=1 python -m benchmarks.on_devices --device cuda:0 --data DATA --out result.json

Time is elapsed: a device computes while the host waits. What a round gives is on the host when its
time ends, so nothing is left in flight.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.clipped_gradients import TASKS, Task, ours
from benchmarks.handwriting import pace_spec, random_images
from benchmarks.machine import machine
from benchmarks.pages import add_write_option, write_measured
from benchmarks.reproductions.runs import table
from benchmarks.rounds import workloads
from benchmarks.workloads import cells
from fedaudit.federations.federation import ClientRows
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.engine import backend
from fedaudit.training.stack import Stack

Play = Callable[[], int]
"""Plays some rounds, or takes some steps, and says how many."""
STACKS = (1, 24, 240)


@dataclass(frozen=True)
class Raced:
    """Rounds or steps a second, turn by turn."""

    name: str
    device: list[float]
    processor: list[float]

    @property
    def ratio(self) -> float:
        """Device over processor, the median of the turns."""
        pairs = zip(self.device, self.processor, strict=True)
        return median(device / processor for device, processor in pairs)

    def row(self) -> list[str]:
        """A line of the table."""
        sides = (median(self.device), median(self.processor))
        return [self.name, *(f"{one:,.1f}" for one in sides), f"{self.ratio:,.2f}"]


def rounds_of(chosen: list[Cell], *, together: int, device: str) -> Play:
    """So many rounds at a time of a stack of these cells."""
    stack = Stack(chosen, device=device)
    return lambda: sum(len(records) for records in stack.advance(together).values())


def stacked_rounds(spec: Callable[..., ExperimentSpec], size: int, data: Path, device: str) -> Play:
    """`size` experiments that differ in their seed."""
    chosen = cells([spec(seed=seed) for seed in range(1, size + 1)], data=data)
    return rounds_of(chosen, together=64, device=device)


def handwriting_rounds(noise: float | None, clients: int, device: str) -> Play:
    """The network of the handwriting task on random images, `clients` a round."""
    spec = pace_spec(noise_multiplier=noise, clients=clients)
    images = random_images(clients=2 * clients)
    return rounds_of([Cell(spec, images)], together=1, device=device)


def wide_rounds(device: str) -> Play:
    """A network of 784-128-62 of the cells of a table, 100 clients a round, with noise."""
    spec = parse_spec(
        pace_spec(noise_multiplier=1.0, clients=100).model_dump(mode="json")
        | {"model": {"kind": "mlp", "hidden": [128]}}
        | {"federation": {"source": "images", "path": "random.npz"}}
    )
    images = random_images(clients=200)
    rows = images.features
    assert isinstance(rows, ClientRows)
    return rounds_of(
        [Cell(spec, replace(images, features=np.divide(rows.values, 255, dtype=np.float32)))],
        together=4,
        device=device,
    )


def private_steps(task: Task, silos: int, device: str) -> Play:
    """Steps of clipped gradients of records with noise, of each silo."""
    take = ours(task, share=0.25, noise=1.0, silos=silos, device=device)

    def play() -> int:
        take(5)
        if device != "cpu":
            torch.cuda.synchronize(device)
        return 5

    return play


def contests(data: Path) -> dict[str, Callable[[str], Play]]:
    """Name, and what makes it for a device."""
    found: dict[str, Callable[[str], Play]] = {}
    for name, spec in workloads(data).items():
        for size in STACKS:
            found[f"{name}, {size} side by side"] = partial(stacked_rounds, spec, size, data)
    for clients, noise in ((10, None), (100, None), (10, 1.0)):
        words = "averaging" if noise is None else "with noise"
        made = partial(handwriting_rounds, noise, clients)
        found[f"W3 handwriting, {clients} clients, {words}"] = made
    found["wide network of a table, 100 clients"] = wide_rounds
    for task in TASKS:
        for silos in (1, 10):
            found[f"private steps, {task.name}, {silos} silos"] = partial(
                private_steps, task, silos
            )
    return found


def rate(play: Play, seconds: float) -> float:
    """Rounds or steps a second, of at least so many seconds."""
    began, done = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < seconds:
        done += play()
    return done / elapsed


def race(
    name: str, make: Callable[[str], Play], *, device: str, turns: int, seconds: float
) -> Raced:
    """Device and processor in turn, each warmed up before."""
    sides = [make(device), make("cpu")]
    for play in sides:
        play()
    found = [[rate(play, seconds) for play in sides] for _ in range(turns)]
    return Raced(name, [one[0] for one in found], [one[1] for one in found])


def main() -> None:
    """Prints the table, and writes the JSON where `--out` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.6, help="of one turn")
    parser.add_argument("--out", type=Path)
    add_write_option(parser)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for name, make in contests(chosen.data).items():
        found.append(
            race(name, make, device=chosen.device, turns=chosen.turns, seconds=chosen.seconds)
        )
        print(*found[-1].row(), flush=True)
    device = backend(chosen.device)["device_name"]
    compared = table(("a second", device, "one core", "ratio"), [one.row() for one in found])
    print(compared)
    if chosen.write:
        write_measured("benchmarks.on_devices", compared)
    if chosen.out is not None:
        measured = [{**asdict(one), "median_ratio": round(one.ratio, 3)} for one in found]
        document = {"benchmark": "on_devices", "device": device, "machine": machine()}
        chosen.out.write_text(json.dumps({**document, "measured": measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()
