"""Runs over images of 8 by 8 that take a moment to attack."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.attacks.attack import AttackOutcome
from fedaudit.attacks.gradient_leakage.gradient_leakage_attack import attack_gradient_leakage
from fedaudit.federations.federation import ClientRows
from fedaudit.reports.sections.attacks import GradientLeakageSection
from fedaudit.spec.attacks import GradientLeakageSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.attacks.attacked_runs import untrained
from tests.training.federations import federation

SIDE, CLASSES = 8, 5
CLIENTS, ROWS = 6, 3
SMOOTH = {"kind": "layers", "layers": [{"kind": "dense", "units": 24}, {"kind": "sigmoid"}]}
CONVOLUTIONAL = {
    "kind": "layers",
    "input": [SIDE, SIDE, 1],
    "layers": [
        {"kind": "convolution", "filters": 6, "size": 3, "padding": 1},
        {"kind": "sigmoid"},
        {"kind": "flatten"},
    ],
}
LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 1.0}


def small_cell(
    *, model: dict[str, Any] = SMOOTH, classes: int = CLASSES, channels: int = 1, **changes: Any
) -> Cell:
    """A spec over random images, of which a third of the pixels are lit."""
    random = np.random.default_rng(1)
    count, width = CLIENTS * ROWS, SIDE * SIDE * channels
    lit = random.random((count, width)) < 1 / 3
    target = random.integers(0, classes, count)
    bare = federation(
        [np.zeros((ROWS, 1))] * CLIENTS,
        [own.tolist() for own in target.reshape(CLIENTS, ROWS)],
        classes=tuple(str(label) for label in range(classes)),
    )
    values = (random.integers(0, 256, (count, width)) * lit).astype(np.uint8)
    data = replace(bare, features=ClientRows(values, 255.0, (SIDE, SIDE, channels)))
    document = {
        "name": "small-images",
        "seed": 3,
        "federation": {"source": "images", "path": "a.npz", "validation_fraction": 0.3},
        "model": model,
        "training": {
            "loss": "cross-entropy",
            "rounds": 1,
            "cohort": {"clients": 2},
            "local": {"steps": 1, "step_size": 0.1},
        },
        "privacy": LAPLACE,
        **changes,
    }
    return Cell(parse_spec(document), data)


def attack(cell: Cell, **asked: Any) -> AttackOutcome:
    """The outcome of an attack, of four images unless asked otherwise."""
    spec = GradientLeakageSpec(**{"images": 4, "noise_multipliers": [0.0, 100.0], **asked})
    return attack_gradient_leakage(spec, untrained(cell), progress=lambda _: None)


def section_of(cell: Cell, **asked: Any) -> GradientLeakageSection:
    """Its section."""
    section = attack(cell, **asked).section
    assert isinstance(section, GradientLeakageSection)
    return section
