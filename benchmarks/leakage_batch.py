"""Images reconstructed side by side and one by one: processor time, and whether both agree.

    OMP_NUM_THREADS=1 python -m benchmarks.leakage_batch --out benchmarks/results/leakage_batch.json

L-BFGS on the updates of 16 random images of 28 by 28 through a fully connected network of 784, 100
and 62 units, with noise of each layer by itself. The two ways take turns.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch import Tensor

from benchmarks.machine import machine
from benchmarks.reproductions.runs import table
from fedaudit.attacks.gradient_leakage.reconstruction import Reconstruction
from fedaudit.attacks.gradient_leakage.update_match import UnrolledMatch, sent_updates
from fedaudit.networks.initial import initial_hypotheses
from fedaudit.networks.layered_shape import LayeredShape, layered_shape
from fedaudit.networks.shape import layer_sizes
from fedaudit.privacy.noise.laplace import unit_layers
from fedaudit.randomness import CounterSource
from fedaudit.spec.attacks.gradient_leakage_spec import GradientLeakageSpec
from fedaudit.spec.model.layer_values import Rows
from fedaudit.spec.model.layers import Activation, Dense

IMAGES, CLASSES, UNITS, ITERATIONS = 16, 62, 100, 60
MULTIPLIERS = (0.0, 1.0)


@dataclass(frozen=True)
class Workload:
    """Updates of random images, with noise."""

    attacker: Reconstruction
    theta: Tensor
    labels: Tensor
    targets: Tensor

    def together(self) -> Tensor:
        """The images, all at once."""
        return self._guess(list(range(IMAGES)))

    def one_by_one(self) -> Tensor:
        """The images, each by itself."""
        return torch.cat([self._guess([image]) for image in range(IMAGES)])

    def _guess(self, images: list[int]) -> Tensor:
        return self.attacker(
            self.theta,
            self.targets[images],
            known_labels=self.labels[images],
            numbers=images,
            source=CounterSource(1),
            progress=lambda _: None,
        ).images


def workload(noise_multiplier: float) -> Workload:
    """Blots of light, whose gradients have noise in proportion to each layer's length."""
    shape = layered_shape(
        [Dense(kind="dense", units=UNITS), Activation(kind="sigmoid")],
        Rows(None),
        features=784,
        outputs=CLASSES,
    )
    theta = torch.from_numpy(
        initial_hypotheses(shape, start="uniform", hypotheses=1, seed=1)[0]
    ).double()
    random = np.random.default_rng(1)
    images = torch.from_numpy(random.random((IMAGES, 1, 784)) * (random.random(784) < 0.3))
    labels = torch.from_numpy(random.integers(0, CLASSES, (IMAGES, 1)))
    targets = _gradients(shape, theta, images, labels)
    sizes = layer_sizes(shape)
    noise = unit_layers(CounterSource(1), sizes=sizes, round_=0, counters=np.arange(IMAGES))
    sent = sent_updates(shape, targets, by_noise=False)
    scaled = [
        targets[:, own].norm(dim=1, keepdim=True) * torch.from_numpy(noise[:, own]) / size
        for own, size in zip(sent.layers, sizes, strict=True)
    ]
    targets = targets + noise_multiplier * torch.cat(scaled, dim=1)
    spec = GradientLeakageSpec(label="inferred", iterations=ITERATIONS)
    return Workload(Reconstruction(shape, (28, 28, 1), CLASSES, 1.0, spec), theta, labels, targets)


def _gradients(shape: LayeredShape, theta: Tensor, images: Tensor, labels: Tensor) -> Tensor:
    sent = sent_updates(shape, theta[None].expand(IMAGES, -1), by_noise=False)
    match = UnrolledMatch(shape, theta, sent, local_steps=1, step_size=1.0)
    hot = torch.nn.functional.one_hot(labels, CLASSES).double()
    return match.updates(images, hot).detach()


def main() -> None:
    """Takes turns, prints a table and writes every turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    results, lines = [], []
    for multiplier in MULTIPLIERS:
        work = workload(multiplier)
        difference = float((work.together() - work.one_by_one()).abs().max())
        turns = [(_seconds(work.together), _seconds(work.one_by_one)) for _ in range(asked.turns)]
        ratios = [alone / together for together, alone in turns]
        results.append({"nu": multiplier, "largest_difference": difference, "turns": turns})
        lines.append(
            [
                f"{multiplier:g}",
                f"{median(together for together, _ in turns):.2f}",
                f"{median(alone for _, alone in turns):.2f}",
                f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})",
                f"{difference:.1e}",
            ]
        )
    header = ["nu", "together, s", "one by one, s", "ratio", "largest difference of a pixel"]
    print(table(header, lines))
    if asked.out:
        asked.out.write_text(json.dumps({"machine": machine(), "results": results}, indent=1))


def _seconds(work: Callable[[], Tensor]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


if __name__ == "__main__":
    main()
