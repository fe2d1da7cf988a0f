"""Specs and cells of `record-personalised` that several tests share."""

from typing import Any

from fedaudit.federations.federation import Federation
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from tests.training.federations import RECORD_SPLIT
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


def records_cell(data: Federation, *, held_out: float = 0.4, **changes: Any) -> Cell:
    """A cell of hand-made data, of whose records this share is held out."""
    split = {**RECORD_SPLIT, "validation_fraction": held_out}
    return Cell(parse_spec(records_spec(**{"federation": split, "fairness": {}, **changes})), data)
