"""The handwriting task of Galli et al., section 5.3: speed, accuracy by round, and memory.

    OMP_NUM_THREADS=1 python -m benchmarks.handwriting --data ../shared/data --out result.json

Two parts, each on one thread:

- *Pace*: the paper's network, 10 clients of 40 images a round, averaged alone, and with noise and
  each round validated; in turn with a plain loop over clients that uses torch's modules and
  optimisers. Images are random bytes.
- *Accuracy*: the full algorithm on UNIPEN handwriting (217 writers, half of them turned by 90
  degrees), without and with noise, each run in a process of its own. UNIPEN replaces FEMNIST
  and is not FEMNIST. Left out, with a word, where the file is missing.
"""

import argparse
import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import nn

from benchmarks.handwriting_runs import (
    CLASSES,
    STEPS,
    UNIPEN_FILE,
    RepeatedEvent,
    handwriting,
    run_courses,
)
from benchmarks.machine import machine
from benchmarks.naive_loop import sanitised
from benchmarks.pages import add_write_option, write_measured
from benchmarks.reproductions.runs import table
from benchmarks.rounds import HEADER, Measured, pace
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.federations.split import split_clients
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack

# -- pace ----------------------------------------------------------------------------------------

BATCHES = {"epochs": 1, "batch_size": 20, "step_size": 0.05}


def random_images(*, clients: int = 20, rows: int = 40) -> Federation:
    """Clients of random images with random labels."""
    random = np.random.default_rng(1)
    labels = random.integers(0, CLASSES, (clients, rows))
    return Federation(
        features=ClientRows(
            values=random.integers(0, 256, (clients * rows, 784), dtype=np.uint8),
            divisor=255.0,
            image=(28, 28, 1),
        ),
        target=labels.ravel().astype(np.float32),
        raw_target=labels.ravel().astype(np.float64),
        first=np.arange(clients + 1) * rows,
        client_names=tuple(f"c{client:02d}" for client in range(clients)),
        feature_names=tuple(f"p{pixel:03d}" for pixel in range(784)),
        target_name="y",
        target_scale=1.0,
        classes=tuple(str(label) for label in range(CLASSES)),
        attributes=(),
        fingerprint="0" * 64,
        notes=(),
    )


class PlainLoop:
    """One hypothesis, the way one writes it from the paper."""

    def __init__(self, cell: Cell) -> None:
        torch.manual_seed(1)
        self.random = np.random.default_rng(1)
        self.local = cell.spec.training.local
        self.cohort = cell.spec.training.asked_clients or 0
        self.module = nn.Sequential(
            nn.Conv2d(1, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(9216, 128),
            nn.ReLU(),
            nn.Linear(128, CLASSES),
        )
        features = cell.federation.features
        assert isinstance(features, ClientRows)
        self.clients = [
            (
                torch.from_numpy(np.float32(features.values[own]) / np.float32(255)).reshape(
                    -1, 1, 28, 28
                ),
                torch.from_numpy(cell.federation.target[own]).long(),
            )
            for own in map(cell.federation.own, range(cell.federation.clients))
        ]
        self.privacy, stopping = cell.spec.privacy, cell.spec.training.stopping
        self.validates = stopping.validate_every == 1
        self.split = split_clients(
            cell.federation.clients,
            validation_fraction=cell.spec.federation.validation_fraction,
            seed=cell.spec.seed,
        )

    def round(self) -> None:
        """One round."""
        chosen = self.random.choice(self.split.training, self.cohort, replace=False)
        uploads = [self.local_update(int(client)) for client in chosen]
        average = torch.stack(uploads).mean(0)
        nn.utils.vector_to_parameters(average, self.module.parameters())
        if self.validates:
            self.validate()

    def validate(self) -> tuple[float, float]:
        """Loss and accuracy over the held-out clients."""
        found = []
        with torch.no_grad():
            for client in self.split.validation:
                images, labels = self.clients[client]
                outputs = self.module(images)
                right = (outputs.argmax(1) == labels).float().mean().item()
                found.append((nn.functional.cross_entropy(outputs, labels).item(), right))
        loss, accuracy = np.mean(found, axis=0)
        return loss, accuracy

    def local_update(self, client: int) -> torch.Tensor:
        """A client's parameters after one epoch."""
        images, labels = self.clients[client]
        module = deepcopy(self.module)
        optimiser = torch.optim.SGD(module.parameters(), lr=self.local.step_size)
        order = torch.from_numpy(self.random.permutation(len(labels)))
        for batch in torch.split(order, self.local.batch_size or len(labels)):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(module(images[batch]), labels[batch])
            torch.autograd.backward(loss)
            optimiser.step()
        after = nn.utils.parameters_to_vector(module.parameters()).detach()
        if not isinstance(self.privacy, LaplaceL2):
            return after
        before = nn.utils.parameters_to_vector(self.module.parameters()).detach()
        return sanitised(before, after, self.privacy, self.random)


def pace_spec(
    *, noise_multiplier: float | None = None, clients: int = 10, validate_every: int = 1_000_000
) -> ExperimentSpec:
    """One model of `clients` clients a round, without an end."""
    return handwriting(
        hypotheses=1,
        noise_multiplier=noise_multiplier,
        rounds=1_000_000,
        local=BATCHES,
        validate_every=validate_every,
        clients=clients,
    )


def measure_pace(name: str, spec: ExperimentSpec, *, turns: int, seconds: float) -> Measured:
    """Engine and plain loop in turn."""
    cell = Cell(spec, random_images())
    stack, loop = Stack([cell]), PlainLoop(cell)

    def engine() -> int:
        return len(stack.advance(1)[0])

    def plain() -> int:
        loop.round()
        return 1

    engine()
    plain()
    found = [(pace(engine, seconds), pace(plain, seconds)) for _ in range(turns)]
    return Measured(
        name=f"W3 handwriting, {name}",
        experiments=1,
        engine=[pair[0] for pair in found],
        plain=[pair[1] for pair in found],
    )


def paces(*, turns: int, seconds: float) -> list[Measured]:
    """Averaging only, and the whole of a round."""
    full = pace_spec(noise_multiplier=1.0, validate_every=1)
    return [
        measure_pace("averaging only", pace_spec(), turns=turns, seconds=seconds),
        measure_pace("noise and validation", full, turns=turns, seconds=seconds),
    ]


def image_operations() -> int:
    """Products and sums of one image, forwards and backwards: behind the pool a quarter of the
    second convolution's outputs have a slope."""
    first, second = 26 * 26 * 32 * 9, 24 * 24 * 64 * 288
    dense = 9216 * 128 + 128 * CLASSES
    return 2 * (2 * first + second + 2 * second // 4 + 3 * dense)


def beside_products(*, turns: int, seconds: float, size: int = 1024) -> str:
    """The arithmetic of averaging a second of processor time, in turn with that of torch's product
    of two matrices."""
    stack = Stack([Cell(pace_spec(), random_images())])
    left, right = torch.randn(2, size, size)

    def averaging() -> int:
        return len(stack.advance(1)[0]) * 10 * 40 * image_operations()

    def product() -> int:
        torch.mm(left, right)
        return 2 * size**3

    averaging()
    found = [[pace(one, seconds).processor for one in (averaging, product)] for _ in range(turns)]
    ours, theirs = (median(one) / 1e9 for one in zip(*found, strict=True))
    return (
        f"Averaging does {ours:.0f} thousand million products and sums a second, torch's product "
        f"of two matrices {theirs:.0f}."
    )


# -- results -------------------------------------------------------------------------------------


def pace_table(measured: Sequence[Measured]) -> str:
    """Rounds a second with a digit more than the small tasks need."""
    return table(HEADER, [_pace_cells(found) for found in measured])


def _pace_cells(found: Measured) -> list[str]:
    cells = found.row()
    cells[2:6] = [
        f"{median(getattr(one, clock) for one in side):.2f}"
        for side in (found.engine, found.plain)
        for clock in ("processor", "elapsed")
    ]
    low, high = min(found.ratios), max(found.ratios)
    cells[6] = f"{median(found.ratios):.2f} ({low:.2f} to {high:.2f})"
    return cells


def course_tables(found: Sequence[RepeatedEvent]) -> str:
    """Accuracy by round, and what the runs cost."""
    rounds = list(found[0].accuracy)
    by_round = [[_nu(one), *(f"{one.accuracy[round_]:.3f}" for round_ in rounds)] for one in found]
    costs = [
        [
            _nu(one),
            f"{one.round_seconds:.1f}",
            f"{one.validation_seconds:.1f}",
            f"{one.resident_mib:.0f}",
            f"{one.peak_mib - one.resident_mib:.0f}",
            f"{one.models_mib + one.uploads_mib:.0f}",
            str(one.collapsed_rounds),
        ]
        for one in found
    ]
    header = ("nu", "a round, s", "validation, s", "resident, MiB", "peak above, MiB")
    sums = ("k models and uploads, MiB", "collapsed rounds")
    return "\n\n".join(
        [
            table(("nu", *(f"round {round_}" for round_ in rounds)), by_round),
            table((*header, *sums), costs),
        ]
    )


def _nu(course: RepeatedEvent) -> str:
    return "none" if course.noise_multiplier is None else f"{course.noise_multiplier:g}"


def main() -> None:
    """Prints the tables, and writes the JSON where `--out` is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one turn")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path)
    add_write_option(parser)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    measured = paces(turns=chosen.turns, seconds=chosen.seconds)
    beside = beside_products(turns=chosen.turns, seconds=chosen.seconds / 2)
    print(pace_table(measured), beside, sep="\n\n", flush=True)
    if chosen.write:
        write_measured("benchmarks.handwriting", pace_table(measured))
    courses = []
    if (chosen.data / UNIPEN_FILE).is_file():
        courses = run_courses(chosen.data, chosen.rounds)
        print(course_tables(courses))
    else:
        print(f"accuracy left out: {chosen.data / UNIPEN_FILE} is not there")
    if chosen.out is not None:
        document = {
            "benchmark": "handwriting",
            "machine": machine(),
            "local": {"pace": BATCHES, "accuracy": STEPS},
            "pace": [
                {**asdict(one), "ratios": [round(ratio, 3) for ratio in one.ratios]}
                for one in measured
            ],
            "accuracy": [asdict(one) for one in courses],
        }
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
