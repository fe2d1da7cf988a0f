"""Steps a second of private training at record level, beside Opacus.

`python -m benchmarks.clipped_gradients` takes a logistic regression of 13 inputs with batches of 64
and a network of 784-128-10 (101,770 parameters) with batches of 256, plain gradient descent, clip
1. The contenders take turns, one thread each, and the figure is processor time, so that a busy
machine shows in the spread and not in the ratio. A step is everything from the choice of records
to the new parameters: forward, clipped sum, noise, optimiser.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.machine import machine
from benchmarks.pages import add_write_option, write_measured
from benchmarks.reproductions.runs import table
from fedaudit.networks.record_gradients import (
    AnyNetworkClippedGradients,
    ClippedGradients,
    clipped_gradients,
)
from fedaudit.networks.shape import DenseShape
from fedaudit.networks.stacked_network import Loss, record_loss
from fedaudit.randomness import CounterSource
from fedaudit.training.base.record_steps import RecordSteps, Sgd, SiloRecords

Steps = Callable[[int], None]
"""Takes so many steps."""

_CLIP, _STEP_SIZE, _SHARE = 1.0, 0.1, 0.25
_SILOS = 10


@dataclass(frozen=True)
class Task:
    """A network and the records it is trained on."""

    name: str
    sizes: tuple[int, ...]
    classes: int
    batch: int

    @property
    def shape(self) -> DenseShape:
        """The layers, with a bias each."""
        return DenseShape(self.sizes, intercept=True)

    @property
    def loss(self) -> Loss:
        """Cross-entropy."""
        return Loss("cross-entropy", self.classes)

    def records(self, count: int) -> tuple[Tensor, Tensor]:
        """Features and classes, made up."""
        random = torch.Generator().manual_seed(1)
        features = torch.randn(count, self.sizes[0], generator=random)
        return features, torch.randint(self.classes, (count,), generator=random)


TASKS = (
    Task("logistic, batch 64", (13, 1), 2, 64),
    Task("MLP of 101,770 parameters, batch 256", (784, 128, 10), 10, 256),
)


def ours(
    task: Task,
    *,
    share: float,
    noise: float,
    silos: int = 1,
    gradients: ClippedGradients | None = None,
    device: str = "cpu",
) -> Steps:
    """`RecordSteps`; each record takes part with probability `share`."""
    rows = round(task.batch / share)
    features, target = task.records(rows * silos)
    records = SiloRecords(
        features=features.to(device),
        target=target.float().to(device),
        first=np.arange(silos) * rows,
        inclusion=np.full((silos, rows), share),
        noise_multipliers=np.full(silos, noise),
        silos=np.arange(silos),
    )
    clipped = gradients or clipped_gradients(task.shape, task.loss)
    start = torch.zeros(task.shape.n, device=device)

    def take(steps: int) -> None:
        play = RecordSteps(
            gradients=clipped,
            optimiser=Sgd(_STEP_SIZE),
            steps=steps,
            clip=_CLIP,
            normaliser=float(task.batch),
        )
        play(start, records, source=CounterSource(1), round_=1)

    return take


def by_autograd(task: Task) -> Steps:
    """Ten silos with the general form, one record after the other."""
    general = AnyNetworkClippedGradients(
        partial(record_loss, task.shape, task.loss), n=task.shape.n
    )
    return ours(task, share=_SHARE, noise=1.0, silos=_SILOS, gradients=general)


def modules(task: Task, target: Tensor) -> tuple[nn.Module, nn.Module, Tensor]:
    """The network of torch's own modules, its loss, and the target as that loss takes it."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(task.sizes, task.sizes[1:], strict=False):
        layers += [nn.ReLU()] * bool(layers) + [nn.Linear(inputs, outputs)]
    if task.classes == 2:
        return nn.Sequential(*layers), nn.BCEWithLogitsLoss(), target.float()[:, None]
    return nn.Sequential(*layers), nn.CrossEntropyLoss(), target


def unprotected(task: Task) -> Steps:
    """torch's own modules and optimiser, without clipping and noise: what no private step beats."""
    features, target = task.records(task.batch)
    module, criterion, target = modules(task, target)
    optimiser = torch.optim.SGD(module.parameters(), lr=_STEP_SIZE)

    def take(steps: int) -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            criterion(module(features), target).backward()
            optimiser.step()

    return take


def theirs(task: Task, *, poisson: bool, noise: float, ghost: bool = False) -> Steps:
    """Opacus; without `poisson` it gets the same batch each step and needs no loader."""
    import opacus  # Other benchmarks take `ours` where it is not installed.

    features, target = task.records(round(task.batch / (_SHARE if poisson else 1.0)))
    module, criterion, target = modules(task, target)
    data = torch.utils.data.TensorDataset(features, target)
    mode = {"grad_sample_mode": "ghost", "criterion": criterion} if ghost else {}
    made = opacus.PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=_STEP_SIZE),
        data_loader=torch.utils.data.DataLoader(data, batch_size=task.batch),
        noise_multiplier=noise,
        max_grad_norm=_CLIP,
        poisson_sampling=poisson,
        **mode,
    )
    private, optimiser, loader = made[0], made[1], made[-1]
    criterion = made[2] if ghost else criterion

    def batches(steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        if not poisson:
            yield from ((features, target) for _ in range(steps))
            return
        while steps > 0:
            for batch in loader:
                yield batch
                steps -= 1
                if steps == 0:
                    return

    def take(steps: int) -> None:
        for inputs, truth in batches(steps):
            optimiser.zero_grad()
            criterion(private(inputs), truth).backward()
            optimiser.step()

    return take


def contenders(task: Task) -> dict[str, Steps]:
    """By name."""
    return {
        "ours, batch given": ours(task, share=1.0, noise=1.0),
        "Opacus, batch given": theirs(task, poisson=False, noise=1.0),
        "Opacus ghost clipping, batch given": theirs(task, poisson=False, noise=1.0, ghost=True),
        "ours, no noise": ours(task, share=1.0, noise=0.0),
        "Opacus, no noise": theirs(task, poisson=False, noise=0.0),
        "not private, batch given": unprotected(task),
        "ours, Poisson": ours(task, share=_SHARE, noise=1.0),
        "Opacus, Poisson": theirs(task, poisson=True, noise=1.0),
        "ours, ten silos, Poisson": ours(task, share=_SHARE, noise=1.0, silos=_SILOS),
        "autograd, ten silos, Poisson": by_autograd(task),
    }


RATIOS = {
    "batch given": ("ours, batch given", "Opacus, batch given"),
    "batch given, against ghost clipping": (
        "ours, batch given",
        "Opacus ghost clipping, batch given",
    ),
    "batch given, against no privacy": ("ours, batch given", "not private, batch given"),
    "no noise": ("ours, no noise", "Opacus, no noise"),
    "not private, against Opacus": ("not private, batch given", "Opacus, batch given"),
    "Poisson": ("ours, Poisson", "Opacus, Poisson"),
    "ten silos, against autograd": ("ours, ten silos, Poisson", "autograd, ten silos, Poisson"),
}


def rate(take: Steps, seconds: float) -> float:
    """Steps a second of processor time, over at least so many seconds."""
    steps, spent, batch = 0, 0.0, 1
    while spent < seconds:
        began = time.process_time()
        take(batch)
        took = time.process_time() - began
        steps, spent = steps + batch, spent + took
        batch = min(max(1, int(batch * min(4.0, (seconds - spent) / max(took, 1e-6)))), 200)
    return steps / spent


def measure(task: Task, *, turns: int, seconds: float) -> dict[str, list[float]]:
    """Rates by contender; all take a turn before any takes its next."""
    racing = contenders(task)
    for take in racing.values():
        take(1)
    rates: dict[str, list[float]] = {name: [] for name in racing}
    for _ in range(turns):
        for name, take in racing.items():
            rates[name].append(round(rate(take, seconds), 2))
    return rates


def main() -> None:
    """Prints the rates and the median ratio of each turn; writes every turn to `--out`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a contender in a turn")
    parser.add_argument("--out", type=Path)
    add_write_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")  # of Opacus about its hooks and its generator
    found: list[dict[str, Any]] = []
    for task in TASKS:
        rates = measure(task, turns=options.turns, seconds=options.seconds)
        ratios = {
            name: round(median(a / b for a, b in zip(rates[one], rates[other], strict=True)), 2)
            for name, (one, other) in RATIOS.items()
        }
        found.append({"task": task.name, "steps_a_second": rates, "ratios": ratios})
        print(f"{task.name}\n| contender | steps a second |\n| --- | --- |")
        for name, values in rates.items():
            print(f"| {name} | {median(values):,.1f} |")
        for name, ratio in ratios.items():
            print(f"{name}: {ratio:.1f} times", flush=True)
    if options.write:
        rows = [[name, *(f"{one['ratios'][name]:.2f}" for one in found)] for name in RATIOS]
        header = ("times", *(one["task"] for one in found))
        write_measured("benchmarks.clipped_gradients", table(header, rows))
    if options.out is not None:
        document = {
            "benchmark": "clipped_gradients",
            "unit": "steps a second of processor time; with ten silos a step is one of all ten",
            "machine": {**machine(), "opacus": version("opacus")},
            "measured": found,
        }
        options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
