"""Clients spread over one, two and three processes: the same bits, whatever the mechanism."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.round_records import FinalResult
from fedaudit.training.ranks.helpers import Helpers
from fedaudit.training.stack import Stack
from tests.training.federations import (
    image_cell,
    image_federation,
    one_by_one,
    random_federation,
    table_cell,
)
from tests.training.gaussian import ALONE, COINS, MOVING, REPORTED, SERVER
from tests.training.methods.test_ledgers import SPECS
from tests.training.one_by_one.test_client_by_client import broken_cell, classifying
from tests.training.one_by_one.test_client_by_client import scored as split
from tests.training.planted import KeptUpdates
from tests.training.test_layout import fingerprint

ROUNDS = 4
SMALL = {"kind": "mlp", "hidden": [6]}
BATCHES = {"training__local": {"epochs": 2, "batch_size": 3, "step_size": 0.1}}
OWN_MODELS = {"federation": split(0.4), "training__hypotheses": 1}
ROWS: dict[str, dict[str, Any]] = {
    "laplace, batches": {"model": SMALL, **BATCHES},
    "laplace by layer": {"model": SMALL, "privacy__per_layer": True},
    "no mechanism": {"privacy": {"mechanism": "none"}, "federation": split(0.4)},
    "budgets that end": {"privacy__client_budget": 24.0, "training__cohort": {"clients": 9}},
    "noise of clients": ALONE,
    "noise of a server": SERVER,
    "moving clip, coins": {"privacy": MOVING, "training__cohort": COINS, **REPORTED},
    "fine-tuning": {"training__method": "fine-tuning", **OWN_MODELS},
    "ditto": {"training__method": "ditto", **OWN_MODELS},
    "q-ffl": {**SPECS["q-ffl"], **OWN_MODELS},
}


def rows(name: str) -> Cell:
    data = one_by_one(random_federation(clients=24, classes=3))
    return table_cell(data, **classifying(training__rounds=ROUNDS, **ROWS[name]))


@pytest.fixture(scope="module", params=[1, 2], ids=["two ranks", "three ranks"])
def helpers(request: pytest.FixtureRequest) -> Iterator[Helpers]:
    """One group of processes for all cells: each imports torch."""
    with Helpers(["cpu"] * request.param, seconds=60.0) as started:
        yield started


def played(cell: Cell, helpers: Helpers | None) -> tuple[object, ...]:
    stack = Stack([cell], helpers=helpers)
    records = [record for rounds in (1, ROUNDS - 1) for record in stack.advance(rounds)[0]]
    return fingerprint(records), stack.checkpoint(0), _bits(stack.result(0))


def _bits(final: FinalResult) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(final).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return {key: _plain(own) for key, own in value.items()}
    if hasattr(value, "__dict__"):
        return _plain(vars(value))
    return value


@pytest.mark.parametrize("name", ROWS)
def test_a_run_is_the_same_by_any_number_of_ranks(name: str, helpers: Helpers) -> None:
    cell = rows(name)
    assert played(cell, helpers) == played(cell, None)
    assert len(helpers.pids) == len(helpers.devices)


def test_images_and_updates_that_are_withheld_are_the_same(helpers: Helpers) -> None:
    images = image_cell(image_federation(clients=9, max_rows=6), training__rounds=ROUNDS)
    broken, _ = broken_cell(training__rounds=ROUNDS)
    for cell in (images, broken):
        assert played(cell, helpers) == played(cell, None)


@pytest.mark.parametrize("name", ["noise of clients", "noise of a server"])
def test_what_is_planted_is_shown_to_the_first_rank_alone(name: str, helpers: Helpers) -> None:
    found = []
    for used in (None, helpers):
        cell = rows(name)
        clients = Stack([cell])._splits.training[0, :3]
        kept = KeptUpdates(clients, np.full((3, cell.shape.n), 0.5, dtype=np.float32))
        one = played(replace(cell, planted=kept), used)
        shown = [_plain(vars(seen)) for seen in (*kept.sums, *kept.uploads)]
        assert len(shown) == ROUNDS
        found.append((one, shown))
    assert found[0] == found[1]
