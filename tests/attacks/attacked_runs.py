"""Runs to attack, and hand-made data on which a model overfits."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from fedaudit.attacks.attack import AttackedRun
from fedaudit.federations.federation import Federation
from fedaudit.runs.blocks import record_block
from fedaudit.runs.run import new_run
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import PlayedRounds
from fedaudit.training.stack import Stack
from tests.training.federations import TABLE, federation
from tests.training.specs import groups_spec


def attacked_run(cell: Cell) -> AttackedRun:
    """The run of a cell, at its end."""
    run = new_run(cell, experiment_id="attacked", started_at=datetime(2026, 1, 1, tzinfo=UTC))
    trainer = Stack([cell])
    records = PlayedRounds()
    while trainer.active:
        records += trainer.advance(25)[0]
    record_block(run, records, last=True, reported=True)
    return AttackedRun(run, trainer.result(0), "cpu")


def untrained(cell: Cell) -> AttackedRun:
    """A run at the hypotheses that it starts from."""
    run = new_run(cell, experiment_id="0" * 32, started_at=datetime(2026, 1, 1, tzinfo=UTC))
    return AttackedRun(run, Stack([cell]).result(0), "cpu")


def overfitting_spec(**changes: Any) -> dict[str, Any]:
    """A logistic model of as many features as `labels_by_chance` has training rows, and more."""
    return groups_spec(
        **{
            "federation": {**TABLE, "validation_fraction": 2 / 3},
            "model": {"kind": "logistic", "start": "zeros"},
            "training__loss": "cross-entropy",
            "training__hypotheses": 1,
            "training__rounds": 2,
            "training__cohort": {"clients": 10},
            "training__local": {"epochs": 1, "step_size": 2.0},
            "training__stopping": {"patience": None, "validate_every": 2},
            "privacy": {"mechanism": "none"},
            "fairness": {},
            **changes,
        }
    )


def labels_by_chance(*, rows: int = 50, width: int = 1000) -> Federation:
    """Rows whose two classes have nothing to do with their features: all that can be learned is
    the rows themselves."""
    random = np.random.default_rng(0)
    features = random.normal(size=(30, rows, width))
    target = random.integers(0, 2, size=(30, rows))
    return federation(list(features), list(target), classes=("no", "yes"))


def overfitted(**changes: Any) -> AttackedRun:
    """A run that has memorised its training rows, unless its mechanism keeps it from that."""
    return attacked_run(Cell(parse_spec(overfitting_spec(**changes)), labels_by_chance()))
