"""Specs for tests of privacy."""

from typing import Any

from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec


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
