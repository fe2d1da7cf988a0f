"""Specs and runs of `record-personalised` that several tests share."""

from collections.abc import Sequence
from typing import Any

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import RoundRecord
from fedaudit.training.personalised import PersonalisedRun
from tests.training.specs import groups_spec


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


def play(stack: PersonalisedRun, cuts: Sequence[int] = (100,)) -> list[RoundRecord]:
    """The rounds of the first cell, played in calls of these sizes, the last one repeated."""
    records: list[RoundRecord] = []
    place = 0
    while 0 in stack.active:
        records += stack.advance(cuts[min(place, len(cuts) - 1)])[0]
        place += 1
    return records


def played(one: Cell) -> list[RoundRecord]:
    """All rounds of a cell."""
    return play(PersonalisedRun([one]))
