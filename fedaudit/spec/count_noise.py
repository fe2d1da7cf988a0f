"""How the counts of held-out people are changed before they become published rates."""

from typing import Annotated, Literal, Self, assert_never

from pydantic import Field, model_validator

from fedaudit.spec.base import SpecPart
from fedaudit.spec.errors import refuse_at

HeldOutUnit = Literal["client", "record"]
_ROWS = "/fairness/noise/max_rows_per_client"


class _CountNoise(SpecPart):
    """What both mechanisms have in common."""

    epsilon: Annotated[float, Field(ge=1e-3, le=100)]
    """What all fairness figures of the report may reveal of one held-out client or record; with
    `rounds` so may those of every validated round."""
    unit: HeldOutUnit
    """Whom it protects: a validation client with all its rows, or a single held-out record."""
    max_rows_per_client: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Rows of a client that count towards an attribute, with the unit `client`; which ones is
    drawn, whatever they hold."""
    rounds: Annotated[bool, Field(exclude_if=lambda rounds: not rounds)] = False
    """Whether the gaps of validated rounds are published with noise too, each of which costs
    `epsilon` once more; without it they are withheld."""

    @model_validator(mode="after")
    def _bound_goes_with_clients(self) -> Self:
        match self.unit:
            case "client":
                if self.max_rows_per_client is None:
                    raise refuse_at(
                        _ROWS,
                        "is required with the unit `client`: without a bound on a client's rows no "
                        "noise hides them; give the number of rows of which most clients have less",
                    )
            case "record":
                if self.max_rows_per_client is not None:
                    raise refuse_at(_ROWS, "goes with the unit `client`; leave it out")
            case _:
                assert_never(self.unit)
        return self


class DiscreteLaplaceCounts(_CountNoise):
    """Integer noise of the discrete Laplace distribution: epsilon without a delta."""

    mechanism: Literal["discrete-laplace"]


class GaussianCounts(_CountNoise):
    """Integer noise of the discrete Gaussian distribution."""

    mechanism: Literal["gaussian"]
    delta: Annotated[float, Field(ge=1e-15, le=0.1)]


CountNoise = Annotated[DiscreteLaplaceCounts | GaussianCounts, Field(discriminator="mechanism")]


class CountRounding(SpecPart):
    """Counts rounded up or down at random to a multiple of `base`, without bias; 1 leaves them."""

    base: Annotated[int, Field(ge=1, le=1000)] = 5
