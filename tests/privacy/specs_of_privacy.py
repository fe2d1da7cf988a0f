"""Specs for tests of privacy: one builder for each mechanism, settings of privacy by name."""

from typing import Any

from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec

POISSON = {"sampling": "poisson", "rate": 0.1}
DELTA = 1e-5
"""Of both Gaussian mechanisms."""


def a_spec(
    privacy: dict[str, Any] | None = None, *, clustering: str = "k-means", **training: Any
) -> ExperimentSpec:
    """A small synthetic experiment; nu = 5 with an adaptive radius unless told otherwise."""
    return parse_spec(
        {
            "name": "privacy",
            "federation": {"source": "synthetic-linear", "clients": 200},
            "model": {"kind": "linear", "intercept": False},
            "training": {
                "loss": "rmse",
                "hypotheses": 2,
                "rounds": 50,
                "cohort": {"clients": 7},
                "clustering": {"method": clustering},
                **training,
            },
            "privacy": privacy or {"mechanism": "laplace-l2", "noise_multiplier": 5},
        }
    )


def laplace(
    *, clustering: str = "k-means", hypotheses: int = 2, rounds: int = 50, **privacy: Any
) -> ExperimentSpec:
    """`laplace-l2` with nu = 5 and an adaptive radius."""
    privacy = {"mechanism": "laplace-l2", "noise_multiplier": 5, **privacy}
    return a_spec(privacy, clustering=clustering, hypotheses=hypotheses, rounds=rounds)


def central(
    *, cohort: Any = POISSON, hypotheses: int = 1, rounds: int = 50, **privacy: Any
) -> ExperimentSpec:
    """`gaussian-central`, everybody by a coin."""
    settings = {"noise_multiplier": 1.1, "clip": 1.0, "delta": DELTA, **privacy}
    return a_spec(
        {"mechanism": "gaussian-central", **settings},
        clustering="reported",
        cohort=cohort,
        hypotheses=hypotheses,
        rounds=rounds,
    )


def local(*, rounds: int = 50, **privacy: Any) -> ExperimentSpec:
    """`gaussian-local`."""
    settings = {"noise_multiplier": 8.0, "clip": 0.5, "delta": DELTA, **privacy}
    return a_spec({"mechanism": "gaussian-local", **settings}, rounds=rounds, hypotheses=1)


def records_spec(
    baseline: str | None = None,
    *,
    distribution: str = "three-levels",
    rate: float = 0.5,
    rounds: int = 6,
    steps: int = 10,
    batch_size: int = 16,
    **privacy: Any,
) -> ExperimentSpec:
    """`record-personalised`."""
    settings = {"budgets": {"distribution": distribution}, "delta": 1e-3, "baseline": baseline}
    return a_spec(
        {"mechanism": "record-personalised", **settings, **privacy},
        hypotheses=1,
        loss="mse",
        rounds=rounds,
        cohort={"sampling": "poisson", "rate": rate},
        local={"steps": steps, "batch_size": batch_size},
    )
