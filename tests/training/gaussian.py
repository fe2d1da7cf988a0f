"""Specs and cells of the mechanisms that the tests of training share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.split import split_clients
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack import Stack
from fedaudit.training.stacked.stack_state import CellState
from tests.training.federations import random_federation, table_cell
from tests.training.specs import groups_spec

LOCAL = {"mechanism": "gaussian-local", "noise_multiplier": 0.5, "clip": 1.0, "delta": 1e-3}
CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 0.5, "clip": 1.0, "delta": 1e-3}
DISTANCE = {"mechanism": "gaussian-distance", "noise_multiplier": 0.5, "clip": 1.0}
MOVING = {**CENTRAL, "clip": {"adaptive": {"initial": 0.1, "count_noise": 2.0}}}
COINS = {"sampling": "poisson", "rate": 0.15}
BLOCKS = {"sampling": "allocation", "every": 5}

ALONE: dict[str, Any] = {"privacy": LOCAL, "training__hypotheses": 1}
REPORTED: dict[str, Any] = {"training__clustering": {"method": "reported"}}
SERVER: dict[str, Any] = {"privacy": CENTRAL, **REPORTED}
LAYERS: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [3]},
    "training__local": {"step_size": 0.01},
    "privacy__per_layer": True,
}
ADAM: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 4,
    "step_size": 0.05,
    "optimiser": "adam",
    "schedule": {"kind": "cosine", "warm_up": 2},
}
MOVES: dict[str, dict[str, Any]] = {
    "adam": {"training__local": ADAM, "training__server": {"optimiser": "adam"}},
    "momentum": {
        "training__local": {"steps": 3, "step_size": 0.05, "momentum": 0.8},
        "training__server": {"optimiser": "momentum", "momentum": 0.5, "step_size": 0.7},
    },
}
"""Optimisers of clients and of the server."""
MECHANISMS: dict[str, dict[str, Any]] = {
    "laplace": {},
    "layers": LAYERS,
    "local": ALONE,
    "server": SERVER,
    "distance": {"privacy": DISTANCE, "training__hypotheses": 1},
    "moving-clip": {"privacy": MOVING, **REPORTED},
    "coins": {"privacy": MOVING, "training__cohort": COINS, **REPORTED},
    "adam": MOVES["adam"],
    "server-momentum": {**SERVER, **MOVES["momentum"]},
    "blocks": {"privacy": CENTRAL, "training__cohort": BLOCKS, **REPORTED},
}
"""Changes to `groups_spec`."""


def with_room_for(releases: int, *, server: bool = True, **changes: Any) -> dict[str, Any]:
    """A spec under an epsilon that has room for so many releases, and not for one more."""
    spec = groups_spec(**{**(SERVER if server else ALONE), **changes})
    plan = mechanism_of(parse_spec(spec)).spending_plan(training_clients=50)
    epsilons = plan.line("final_model" if server else "server").epsilons
    budget = float(epsilons[releases] + epsilons[releases + 1]) / 2
    return {**spec, "privacy": {**spec["privacy"], "epsilon_budget": budget}}


def cell_with(value: float | None, **changes: Any) -> Cell:
    """A linear model without intercept; training clients have this one feature value, if any.

    Zeros give updates of zero, infinities give updates that are not finite. Who validates has
    ordinary rows. 40 % of the clients validate.
    """
    data = random_federation()
    given = {
        "model": {"kind": "linear", "intercept": False},
        "training__loss": "mse",
        "training__local": {"step_size": 0.01},
        **SERVER,
        **changes,
    }
    cell = table_cell(data, **given)
    if value is not None:
        data.side_by_side[data.rows_of(training_clients(cell))] = value
    return cell


def training_clients(cell: Cell) -> NDArray[np.int32]:
    """Who trains."""
    fraction = cell.spec.federation.validation_fraction
    clients = cell.federation.clients
    return split_clients(clients, validation_fraction=fraction, seed=cell.spec.seed).training


def state(stack: Stack, position: int = 0) -> CellState:
    """What a cell of the stack remembers."""
    return CellState.decode(stack.checkpoint(position))


def states(cell: Cell, rounds: int) -> list[CellState]:
    """The states of a run before its first round and after each."""
    stack = Stack([cell])
    found = [state(stack)]
    for _ in range(rounds):
        stack.advance(1)
        found.append(state(stack))
    return found
