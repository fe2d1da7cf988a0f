"""Runs over images of 8 by 8 that take a moment to attack."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from fedaudit.attacks.attack import AttackedRun, AttackOutcome
from fedaudit.attacks.gradient_leakage.gradient_leakage_attack import attack_gradient_leakage
from fedaudit.federations.federation import ClientRows, Federation
from fedaudit.reports.sections.attacks import GradientLeakageSection
from fedaudit.runs.run import new_run
from fedaudit.spec.attacks import GradientLeakageSpec
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell, first_hypotheses
from fedaudit.training.base.rounds import FinalResult

SIDE, CLASSES = 8, 5
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
    *,
    model: dict[str, Any] = SMOOTH,
    clients: int = 6,
    rows: int = 3,
    classes: int = CLASSES,
    channels: int = 1,
    **changes: Any,
) -> Cell:
    """A spec over random images, of which a third of the pixels are lit."""
    random = np.random.default_rng(1)
    count, width = clients * rows, SIDE * SIDE * channels
    lit = random.random((count, width)) < 1 / 3
    target = random.integers(0, classes, count)
    data = Federation(
        features=ClientRows(
            values=(random.integers(0, 256, (count, width)) * lit).astype(np.uint8),
            divisor=255.0,
            image=(SIDE, SIDE, channels),
        ),
        target=target.astype(np.float32),
        raw_target=target.astype(np.float64),
        first=np.arange(clients + 1) * rows,
        client_names=tuple(f"c{client}" for client in range(clients)),
        feature_names=tuple(f"p{pixel:03d}" for pixel in range(width)),
        target_name="y",
        target_scale=1.0,
        classes=tuple(str(label) for label in range(classes)),
        attributes=(),
        fingerprint="0" * 64,
        notes=(),
    )
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


def untrained(cell: Cell) -> AttackedRun:
    """A run at the hypotheses that it starts from."""
    result = FinalResult(
        stopped_by="rounds",
        rounds=0,
        best_round=0,
        hypotheses=first_hypotheses(cell),
        selection_loss=0.0,
        validation_loss=0.0,
        accuracy=None,
        fairness={},
        single_row_clients=0,
        collapsed_rounds=0,
    )
    run = new_run(cell, experiment_id="0" * 32, started_at=datetime.now(UTC))
    return AttackedRun(run, result, "cpu")


def attack(cell: Cell, **asked: Any) -> AttackOutcome:
    """The outcome of an attack, of four images unless asked otherwise."""
    spec = GradientLeakageSpec(**{"images": 4, "noise_multipliers": [0.0, 100.0], **asked})
    return attack_gradient_leakage(spec, untrained(cell), progress=lambda _: None)


def section_of(cell: Cell, **asked: Any) -> GradientLeakageSection:
    """Its section."""
    section = attack(cell, **asked).section
    assert isinstance(section, GradientLeakageSection)
    return section
