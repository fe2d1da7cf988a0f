"""What one declared round released, in the trainer's words."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedaudit.spec.base import MAX_INTEGER, SpecPart

NoiseMultiplier = Annotated[float, Field(ge=1e-3, le=1e6)]
"""Beyond these bounds figures leave what floating-point numbers hold, and below them an epsilon
means nothing: declare the kind none."""
Steps = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Parameters = Annotated[int, Field(ge=1, le=10**12)]
Rate = Annotated[float, Field(ge=1e-12, le=1)]
Length = Annotated[float, Field(ge=1e-9, le=1e9)]
"""Of an update, in the Euclidean norm."""


class GaussianRelease(SpecPart):
    """A sum of clipped contributions of the participants, plus Gaussian noise."""

    kind: Literal["gaussian"]
    noise_multiplier: NoiseMultiplier
    """The standard deviation of the noise over the clip."""
    steps: Steps = 1
    """How often noise was added within the round, each time anew."""


class PoissonRelease(SpecPart):
    """The same of a Poisson sample: every unit entered by a coin of its own, and the coins are
    secret."""

    kind: Literal["poisson-gaussian"]
    rate: Rate
    noise_multiplier: NoiseMultiplier
    steps: Steps = 1
    """Each draws a sample of its own."""


class FixedSizeRelease(SpecPart):
    """The same of a sample of a fixed size, drawn without replacement and kept secret."""

    kind: Literal["fixed-gaussian"]
    clients: Count
    """How many were drawn."""
    population: Count
    """From how many."""
    noise_multiplier: NoiseMultiplier
    steps: Steps = 1

    @model_validator(mode="after")
    def _drawn_from_population(self) -> Self:
        if self.clients > self.population:
            raise ValueError("`clients` exceeds `population`; draw at most everyone")
        return self


class LaplaceRelease(SpecPart):
    """Each participant's upload with noise of metric privacy."""

    kind: Literal["laplace-l2"]
    n: Parameters
    """Released parameters."""
    noise_multiplier: NoiseMultiplier
    radius: Length | None
    """The fixed, public radius; null where it follows from the update."""
    clip: Length | None
    """The bound on an update's norm; null without one."""


class UnprotectedRelease(SpecPart):
    """Updates without any noise."""

    kind: Literal["none"]


GaussianEvent = GaussianRelease | PoissonRelease | FixedSizeRelease
DeclaredEvent = Annotated[
    GaussianRelease | PoissonRelease | FixedSizeRelease | LaplaceRelease | UnprotectedRelease,
    Field(discriminator="kind"),
]
AnyRelease = (
    GaussianRelease | PoissonRelease | FixedSizeRelease | LaplaceRelease | UnprotectedRelease
)
