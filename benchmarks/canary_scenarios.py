"""Experiments whose canaries have a claim of a given size, and noise that is half of it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from fedaudit.federations.load import load_federation
from fedaudit.privacy.lower_bounds.gaussian_trade_off import gaussian_mu
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.spec.attacks.canaries_spec import CanaryUnit
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell

DELTA = 1e-5
COUNTS = {0.5: 4500, 1.0: 1250, 2.0: 350, 4.0: 110, 8.0: 40}
"""Canaries for each claim."""
_HIDDEN, _FEWER_HIDDEN = 125, 25
"""Hidden units: a model of 501 parameters, or of 101 where canaries share few releases."""
_NOISE = {
    "central": "fedaudit.training.mechanisms.gaussian_central.unit_gaussian",
    "local": "fedaudit.training.mechanisms.gaussian_local.unit_gaussian",
    "record": "fedaudit.training.base.record_steps.unit_gaussian",
}


@dataclass(frozen=True)
class Scenario:
    """A cell, its canaries, and where its noise is drawn."""

    name: str
    cell: Cell
    unit: CanaryUnit
    count: int
    noise: str

    def seeded(self, seed: int) -> "Scenario":
        """The same with other coins, directions and noise."""
        spec = self.cell.spec.model_copy(update={"seed": seed})
        return replace(self, cell=replace(self.cell, spec=spec))

    @contextmanager
    def halved(self) -> Iterator[None]:
        """Draws half of the noise, on the way that the mechanism draws it."""
        module, _, name = self.noise.rpartition(".")
        whole: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
        with patch(self.noise, lambda *given, **named: whole(*given, **named) / 2):
            yield


def central(epsilon: float, count: int, *, rate: float = 1.0, rounds: int = 1) -> Scenario:
    """`gaussian-central` with a coin for each client, of exactly this epsilon after its rounds."""
    law = ReleaseLaw(ratio=1.0, rate=rate, compositions=rounds, adjacency="add-or-remove-one")
    ratio = gaussian_mu(epsilon, DELTA) / rounds**0.5 if rate == 1 else _ratio(law, epsilon)
    privacy = {
        "mechanism": "gaussian-central",
        "noise_multiplier": 1 / ratio,
        "clip": 1.0,
        "delta": DELTA,
        "accountant": "pld",
    }
    cohort = {"sampling": "poisson", "rate": rate}
    cell = _cell(count, privacy, rounds=rounds, cohort=cohort)
    return Scenario("central", cell, "client", count, _NOISE["central"])


def fixed(epsilon: float, count: int, *, share: float, rounds: int) -> Scenario:
    """`gaussian-central` with cohorts of a fixed size, whose noise is that of its exact epsilon;
    the claim, by Renyi orders, is larger."""
    law = ReleaseLaw(ratio=1.0, rate=share, compositions=rounds, adjacency="replace-one")
    privacy = {
        "mechanism": "gaussian-central",
        "noise_multiplier": 2 / _ratio(law, epsilon),
        "clip": 1.0,
        "delta": DELTA,
    }
    cohort = {"sampling": "fixed", "clients": max(1, round(share * count))}
    cell = _cell(count, privacy, rounds=rounds, cohort=cohort)
    return Scenario("fixed", cell, "client", count, _NOISE["central"])


def local(epsilon: float, count: int) -> Scenario:
    """`gaussian-local`, every client once."""
    privacy = {
        "mechanism": "gaussian-local",
        "noise_multiplier": 2 / gaussian_mu(epsilon, DELTA),
        "clip": 1.0,
        "delta": DELTA,
        "accountant": "pld",
    }
    cohort = {"sampling": "fixed", "clients": count}
    cell = _cell(count, privacy, rounds=1, cohort=cohort, hidden=_FEWER_HIDDEN)
    return Scenario("local", cell, "client", count, _NOISE["local"])


def record(
    epsilon: float, count: int, *, clients: int = 5, hidden: int = _FEWER_HIDDEN
) -> Scenario:
    """`record-personalised`: one step of clients whose records may spend this epsilon, by the
    ledger's accountant, so that all of them are in it."""
    cell = _loaded(
        {
            "federation": {
                "source": "synthetic-linear",
                "clients": clients,
                "rows_per_client": int(count / clients * 1.2) + 12,
                "thetas": [[5, 6], [4, -4.5]],
                "validation_fraction": 0.1,
                "validation_unit": "record",
            },
            "training": {
                "loss": "mse",
                "rounds": 1,
                "cohort": {"sampling": "poisson", "rate": 1.0},
                "local": {"steps": 1, "step_size": 0.01},
            },
            "privacy": {
                "mechanism": "record-personalised",
                "budgets": {"distribution": "three-levels"},
                "epsilon_min": epsilon,
                "epsilon_max": epsilon,
                "delta": DELTA,
            },
        },
        hidden=hidden,
    )
    return Scenario("record", cell, "record", count, _NOISE["record"])


def _ratio(law: ReleaseLaw, epsilon: float) -> float:
    return law.ratio_of_epsilon(epsilon, DELTA)


def _cell(
    count: int,
    privacy: Mapping[str, Any],
    *,
    rounds: int,
    cohort: Mapping[str, Any],
    hidden: int = _HIDDEN,
) -> Cell:
    """As many clients train as there are canaries; one validates."""
    return _loaded(
        {
            "federation": {
                "source": "synthetic-linear",
                "clients": count + 1,
                "rows_per_client": 1,
                "thetas": [[5, 6], [4, -4.5]],
                "validation_fraction": 1 / (count + 1),
            },
            "training": {
                "loss": "mse",
                "rounds": rounds,
                "cohort": dict(cohort),
                "local": {"epochs": 1, "step_size": 0.01},
            },
            "privacy": dict(privacy),
        },
        hidden=hidden,
    )


def _loaded(parts: Mapping[str, Any], *, hidden: int) -> Cell:
    spec = parse_spec({"name": "canaries", "model": {"kind": "mlp", "hidden": [hidden]}, **parts})
    return Cell(spec, load_federation(spec, sources_dir=None))
