"""Tables of which some features say something of the outcome, and mechanisms to train on them."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.spec.documents import gaussian

FEATURES = [f"x{place}" for place in range(8)]


def laplace(noise_multiplier: float, **fields: Any) -> dict[str, Any]:
    return {"mechanism": "laplace-l2", "noise_multiplier": noise_multiplier, **fields}


def local(noise_multiplier: float, clip: float) -> dict[str, Any]:
    return gaussian("local", noise_multiplier, clip=clip, delta=1e-3)


def central(noise_multiplier: float, clip: float) -> dict[str, Any]:
    return gaussian("central", noise_multiplier, clip=clip, delta=1e-3)


def write_table(
    path: Path, *, scale=1.0, rate=0.5, signal=1.0, clients=60, number=False, largest=20
) -> None:
    """Four of eight features say something of the outcome."""
    town = np.repeat(np.arange(clients), [largest, *[20] * (clients - 1)])
    random = np.random.default_rng(4)
    weights = signal * np.array([1.2, -0.9, 0.8, 0.6, 0, 0, 0, 0])
    x = random.normal(size=(len(town), 8))
    score = x @ weights + np.log(rate / (1 - rate))
    passed = random.random(len(x)) < 1 / (1 + np.exp(-score))
    outcome = [f"{one:.3f}" for one in score] if number else np.where(passed, "yes", "no").tolist()
    lines = [
        ",".join([f"t{town[row]}", *(f"{cell:.5f}" for cell in cells * scale), outcome[row]])
        for row, cells in enumerate(x)
    ]
    path.write_text("\n".join([",".join(["town", *FEATURES, "passed"]), *lines]))
