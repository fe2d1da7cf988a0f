"""Specs and runs of `record-personalised` that several tests share."""

from typing import Any

from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from tests.training.round_records import RoundRecord
from tests.training.specs import groups_spec, play


def records_spec(**changes: Any) -> dict[str, Any]:
    """A small experiment whose records have budgets of their own."""
    return groups_spec(
        **{
            "federation": {
                "source": "synthetic-groups",
                "clients_per_group": [8, 4],
                "rows_per_client": 12,
                "validation_fraction": 0.25,
                "validation_unit": "record",
            },
            "training": {
                "loss": "mse",
                "rounds": 6,
                "cohort": {"sampling": "poisson", "rate": 0.6},
                "local": {"steps": 5, "batch_size": 4, "step_size": 0.05, "optimiser": "adam"},
                "clustering": {"method": "k-means"},
                "stopping": {"patience": None},
            },
            "privacy": {
                "mechanism": "record-personalised",
                "budgets": {"distribution": "three-levels"},
                "delta": 1e-3,
            },
            **changes,
        }
    )


def played(one: Cell) -> list[RoundRecord]:
    """All rounds of a cell."""
    return play(Stack([one]))
