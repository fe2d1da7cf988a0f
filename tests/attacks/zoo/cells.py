"""Small cells of every mechanism, with rounds and clients enough for a replay to see something."""

from collections.abc import Callable
from typing import Any

from fedaudit.training.base.cell import Cell
from tests.spec.documents import BY_RECORD, gaussian
from tests.training.federations import one_by_one, random_federation, table_cell
from tests.training.personalised import records_spec
from tests.training.specs import cell, groups_spec

ROUNDS = 8
DATA = {
    "source": "synthetic-groups",
    "clients_per_group": [18, 6],
    "rows_per_client": 6,
    "validation_fraction": 0.25,
}
LAYERS: dict[str, Any] = {
    "model": {"kind": "mlp", "hidden": [3]},
    "training__local": {"epochs": 1, "step_size": 0.05},
}
ONE: dict[str, Any] = {"training__hypotheses": 1}
REPORTED: dict[str, Any] = {"training__clustering": {"method": "reported"}}
NOISED_COUNTS: dict[str, Any] = {
    "sensitive": ["group"],
    "favourable": {"op": "ge", "value": 5},
    "noise": {
        "mechanism": "discrete-laplace",
        "epsilon": 1.0,
        "unit": "client",
        "max_rows_per_client": 6,
    },
}
COINS: dict[str, Any] = {"training__cohort": {"sampling": "poisson", "rate": 0.4}}


def updates(privacy: dict[str, Any], **changes: Any) -> Cell:
    """Of a mechanism on whole updates: 24 clients, of whom 18 train."""
    given: dict[str, Any] = {
        "federation": DATA,
        "training__cohort": {"clients": 7},
        "training__rounds": ROUNDS,
        "privacy": privacy,
        **changes,
    }
    return cell(groups_spec(**given))


def of_rows(cell: Callable[..., Cell]) -> Callable[[], Cell]:
    """The same with rows held out of all 24 clients, who all train."""
    return lambda: cell(federation={**DATA, "validation_unit": "record"})


def adaptive(**changes: Any) -> Cell:
    """`laplace-l2` with an adaptive radius."""
    return updates({"mechanism": "laplace-l2", "noise_multiplier": 2.0}, **changes)


def fixed(*, budget: float | None = None, noise: str = "simulation", **changes: Any) -> Cell:
    """`laplace-l2` with a public radius and a clip."""
    privacy = {
        "mechanism": "laplace-l2",
        "noise_multiplier": 2.0,
        "radius": 0.4,
        "clip": 0.2,
        "client_budget": budget,
        "noise": noise,
    }
    return updates(privacy, **changes)


def layered() -> Cell:
    """`laplace-l2` with noise for each of two layers, and a clip for both."""
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 2.0, "per_layer": True, "clip": 0.2}
    return updates(privacy, **LAYERS)


def local(*, clip: float = 0.2, **changes: Any) -> Cell:
    """`gaussian-local`."""
    return updates(gaussian("local", 4.0, clip=clip, delta=1e-4), **ONE, **changes)


def central(*, noise: str = "simulation", **changes: Any) -> Cell:
    """`gaussian-central` with a cohort of fixed size and two hypotheses."""
    privacy = gaussian("central", 2.0, clip=0.2, delta=1e-4, noise=noise)
    return updates(privacy, **{**REPORTED, **changes})


def distance(**changes: Any) -> Cell:
    """`gaussian-distance`, of a network with two layers."""
    privacy = {"mechanism": "gaussian-distance", "noise_multiplier": 0.5, "clip": 0.2}
    return updates(privacy, **{**ONE, **LAYERS, **changes})


def coins(**changes: Any) -> Cell:
    """`gaussian-central` whose clients toss coins."""
    return central(**{**COINS, **changes})


def blocks(**changes: Any) -> Cell:
    """`gaussian-central` whose clients enter one round of every four."""
    return central(training__cohort={"sampling": "allocation", "every": 4}, **changes)


def moving(**changes: Any) -> Cell:
    """`gaussian-central` whose clip follows a noised count."""
    clip = {"adaptive": {"initial": 0.2, "count_noise": 2.5}}
    privacy = gaussian("central", 2.0, clip=clip, delta=1e-4)
    return updates(privacy, **REPORTED, **COINS, **changes)


def in_turn(**privacy: Any) -> Cell:
    """Clients computed one by one, as those of images are."""
    data = one_by_one(random_federation(clients=20))
    changes = {"training__rounds": 6, "training__local": {"epochs": 1, "step_size": 0.05}}
    return table_cell(data, privacy=privacy, training__hypotheses=1, **changes)


def records(*, rounds: int = 6, **privacy: Any) -> Cell:
    """`record-personalised`."""
    return cell(records_spec(privacy={**BY_RECORD, **privacy}, training__rounds=rounds))


def of_baseline(baseline: str) -> Callable[[], Cell]:
    """`record-personalised` with one of its baselines."""
    return lambda: records(baseline=baseline)
