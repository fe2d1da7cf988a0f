"""Specs and cells that the tests of training share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.federations.load import load_federation
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from tests.training.round_records import RoundRecord, records_of


def groups_spec(**changes: Any) -> dict[str, Any]:
    """A small synthetic-groups experiment; changes are dotted paths with `__` for the dot."""
    spec: dict[str, Any] = {
        "name": "groups",
        "seed": 0,
        "federation": {
            "source": "synthetic-groups",
            "clients_per_group": [80, 20],
            "rows_per_client": 10,
            "validation_fraction": 0.5,
        },
        "model": {"kind": "linear", "intercept": True},
        "training": {
            "loss": "rmse",
            "hypotheses": 2,
            "rounds": 30,
            "cohort": {"sampling": "fixed", "clients": 20},
            "local": {"epochs": 1, "step_size": 0.1},
            "clustering": {"method": "k-means", "empty_cluster": "relocate"},
            "stopping": {"patience": None},
        },
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 1.0},
        "fairness": {
            "sensitive": ["group"],
            "favourable": [
                {"group": {"group": "g1"}, "op": "ge", "value": 0},
                {"group": {"group": "g2"}, "op": "le", "value": 15},
            ],
        },
    }
    return _with(spec, changes)


def table_spec(path: str, features: Sequence[Any], **changes: Any) -> dict[str, Any]:
    """A classifier of whether `passed` is yes, over a table whose clients are its towns; changes as
    those of `groups_spec`."""
    spec: dict[str, Any] = {
        "name": "table",
        "seed": 1,
        "federation": {
            "source": "table",
            "path": path,
            "client_key": "town",
            "target": "passed",
            "positive": "yes",
            "features": [*features],
        },
        "model": {"kind": "logistic"},
        "training": {
            "loss": "cross-entropy",
            "hypotheses": 1,
            "rounds": 40,
            "cohort": {"clients": 20},
            "local": {"step_size": 0.5},
        },
        "privacy": {"mechanism": "none"},
    }
    return _with(spec, changes)


def _with(spec: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    for path, value in changes.items():
        part = spec
        *parents, last = path.split("__")
        for parent in parents:
            part = part[parent]
        part[last] = value
    return spec


def linear_spec(**changes: Any) -> dict[str, Any]:
    """The synthetic linear task of Galli et al., section 5.1, without sensitive attributes."""
    return groups_spec(
        **{
            "federation": {"source": "synthetic-linear", "clients": 100, "rows_per_client": 10},
            "model": {"kind": "linear", "intercept": False},
            "fairness": {},
            **changes,
        }
    )


def ran(spec: dict[str, Any], folder: Path | None = None, **more: Any) -> LocalRun:
    """The run of a spec without a service, on synthetic data or those of a folder."""
    parsed = parse_spec(spec)
    return run_locally(parsed, sources_dir=folder, device="cpu", progress=lambda _: None, **more)


def cell(spec: dict[str, Any]) -> Cell:
    """The cell of a spec with synthetic data."""
    parsed = parse_spec(spec)
    return Cell(parsed, load_federation(parsed, sources_dir=None))


def play(trainer: Any, cuts: Sequence[int] = (100,)) -> list[RoundRecord]:
    """The rounds of the first cell, played in calls of these sizes, the last one repeated."""
    records: list[RoundRecord] = []
    place = 0
    while 0 in trainer.active:
        records += records_of(trainer.advance(cuts[min(place, len(cuts) - 1)])[0])
        place += 1
    return records


def train(one: Cell | dict[str, Any]) -> tuple[list[RoundRecord], FinalResult]:
    """Runs one experiment, given as a spec of synthetic data or as a cell, to its end."""
    stack = Stack([one if isinstance(one, Cell) else cell(one)])
    return play(stack, (25,)), stack.result(0)


def kinds_of(predicted: NDArray[np.bool_], truth: NDArray[np.bool_]) -> NDArray[np.integer]:
    """The place of each row among true and false positives, true and false negatives."""
    return np.select([predicted & truth, predicted, ~truth], [0, 1, 2], 3)
