"""Which mechanism protects what a client sends."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from fedaudit.spec.base import SpecPart


class NoMechanism(SpecPart):
    """Updates leave as they are: no guarantee."""

    mechanism: Literal["none"]
    noise: Literal["simulation", "release"] = "simulation"


class LaplaceL2(SpecPart):
    """The Laplace mechanism under Euclidean distance (Galli et al., Lemma 4.1, Algorithm 2)."""

    mechanism: Literal["laplace-l2"]
    noise_multiplier: Annotated[float, Field(ge=1e-12, le=1e12)]
    """nu: a release costs n/nu within its radius, a number that must stay finite."""
    radius: Literal["adaptive"] | Annotated[float, Field(gt=0, le=1e12)] = "adaptive"
    """`adaptive` is the update's norm (Algorithm 2, heuristic); a number is public and fixed."""
    radius_floor: Annotated[float, Field(gt=0, le=1e12)] = 1e-6
    """Public lower bound on an adaptive radius."""
    clip: Annotated[float, Field(gt=0, le=1e12)] | None = None
    """Bound on the norm of an update before noise."""
    per_layer: Literal[False] = False
    client_budget: Annotated[float, Field(gt=0, le=1e15)] | None = None
    """Leakage that no client may pass; it takes no further part before it would."""
    noise: Literal["simulation", "release"] = "simulation"

    @field_validator("noise_multiplier", mode="before")
    @classmethod
    def _some_noise(cls, value: object) -> object:
        if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
            raise ValueError("must be greater than 0; for no noise ask for `mechanism: none`")
        return value


PrivacySpec = Annotated[NoMechanism | LaplaceL2, Field(discriminator="mechanism")]
