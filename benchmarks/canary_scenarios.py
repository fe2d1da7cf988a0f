"""Experiments whose canaries have a claim of a given size, and noise that is half of it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy

from fedaudit.federations.load import load_federation
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, gaussian_delta, gaussian_epsilon
from fedaudit.randomness import Source
from fedaudit.spec.attacks import CanaryUnit
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.gaussian import TrustedServer
from fedaudit.training.stacked.stack_state import StackState

DELTA = 1e-5
COUNTS = {0.5: 4500, 1.0: 1250, 2.0: 350, 4.0: 110, 8.0: 40}
"""Canaries for each claim."""
_HIDDEN, _FEWER_HIDDEN = 125, 25
"""Hidden units: a model of 501 parameters, or of 101 where canaries share few releases."""
_NOISE = {
    "central": "fedaudit.training.mechanisms.gaussian.unit_gaussian",
    "local": "fedaudit.training.mechanisms.gaussian.unit_gaussian",
    "record": "fedaudit.training.base.record_steps.unit_gaussian",
}


KEPT = "the model that is kept has no noise"
VIOLATIONS: Mapping[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "z, then -z": lambda draw, at: draw(at - at % 2) * (1 - 2 * (at % 2))[..., None],
    "rounds 3, 4 are minus rounds 1, 2": lambda draw, at: (
        draw(at - 2 * (at % 4 // 2)) * (1 - 2 * (at % 4 // 2))[..., None]
    ),
    "(z_t - z_(t-1)) / sqrt 2": lambda draw, at: (draw(at + 1) - draw(at)) / 2**0.5,
    "every third repeats the one before": lambda draw, at: draw(at - (at % 3 == 2)),
    "0.6 shared + 0.8 own": lambda draw, at: 0.6 * draw(0 * at) + 0.8 * draw(at + 1),
    "0.9 shared + 0.44 own": lambda draw, at: (
        0.9 * draw(0 * at) + (1 - 0.9**2) ** 0.5 * draw(at + 1)
    ),
}
"""What noise is drawn in place of that of the releases at some places, counted from 0."""


_MOST_MU = 1e6


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose epsilon at `delta` is at most this one: the inverse."""
    if not epsilon >= 0:
        raise ValueError(f"epsilon = {epsilon} must not be negative")
    high = 1.0
    while high < _MOST_MU and gaussian_epsilon(high, delta) < epsilon:
        high *= 2
    return float(
        scipy.optimize.brentq(
            lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-12, high, xtol=1e-14, rtol=1e-13
        )
    )


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

    @contextmanager
    def sabotaged(self, violation: str) -> Iterator[None]:
        """Carries out one of `VIOLATIONS`, on the way that the mechanism draws its noise; or keeps
        the best hypotheses of a trusted server without noise (`KEPT`)."""
        if violation == KEPT:
            with _kept_without_noise():
                yield
            return
        module, _, name = self.noise.rpartition(".")
        whole: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
        change, first = VIOLATIONS[violation], 0 if self.unit == "record" else 1

        def changed(source: Source, *, n: int, round_: Any, counters: Any) -> Any:
            def draw(numbers: Any) -> Any:
                return whole(source, n=n, round_=numbers + first, counters=counters)

            return change(draw, np.asarray(round_) - first)

        with patch(self.noise, changed):
            yield


@contextmanager
def _kept_without_noise() -> Iterator[None]:
    average, keep, bare = TrustedServer.average, StackState.keep_best, list[Any]()

    def averaged(self: Any, theta: Any, sums: Any, noise: Any, **named: Any) -> Any:
        bare.append(average(self, theta, sums, 0 * noise, **named))
        return average(self, theta, sums, noise, **named)

    def kept(self: Any, cells: Any, played: Any, improved: Any) -> None:
        keep(self, cells, [replace(played[-1], hypotheses=bare[-1])] * len(played), improved)

    with (
        patch.object(TrustedServer, "average", averaged),
        patch.object(StackState, "keep_best", kept),
    ):
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


def local(epsilon: float, count: int, *, rounds: int = 1) -> Scenario:
    """`gaussian-local`, every client in every round."""
    privacy = {
        "mechanism": "gaussian-local",
        "noise_multiplier": 2 * rounds**0.5 / gaussian_mu(epsilon, DELTA),
        "clip": 1.0,
        "delta": DELTA,
        "accountant": "pld",
    }
    cohort = {"sampling": "fixed", "clients": count}
    cell = _cell(count, privacy, rounds=rounds, cohort=cohort, hidden=_FEWER_HIDDEN)
    return Scenario("local", cell, "client", count, _NOISE["local"])


def record(
    epsilon: float, count: int, *, clients: int = 5, hidden: int = _FEWER_HIDDEN, steps: int = 1
) -> Scenario:
    """`record-personalised`: steps of clients whose records may spend this epsilon, by the
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
                "local": {"steps": steps, "step_size": 0.01},
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
