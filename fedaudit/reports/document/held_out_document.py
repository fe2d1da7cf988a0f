"""How sure a figure of held-out people is, and what noise on their counts may reveal."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.reports.document.part import Part


class IntervalSection(Part):
    """What a formula gives, or, in former reports, percentiles over clients drawn anew."""

    low: float
    high: float
    level: float
    method: str
    samples: int | None
    """How often clients were drawn; None where a formula gives the interval."""


class LastRounds(Part):
    """The range of a figure over the last rounds that were validated."""

    low: float
    high: float
    rounds: int


class CountSensitivity(Part):
    """How far the rows of one unit can move the counts of all attributes together."""

    l1: float
    l2: float
    attributes: int
    max_rows: int
    """Of one unit that count towards an attribute."""


class FairnessPrivacy(Part):
    """What the noised counts of held-out people may reveal of one of them."""

    mechanism: Literal["discrete-laplace", "gaussian"]
    epsilon: Annotated[float, Field(ge=0)]
    """What the run's ledger was charged, at `delta`."""
    delta: float
    """0 for discrete Laplace noise."""
    unit: Literal["client", "record"]
    adjacency: str
    observer: str
    accountant: str
    releases: int
    noise_deviation: float
    """Standard deviation of the noise on each count."""
    sensitivity: CountSensitivity
    in_force: bool
    """Whether the noise was secret. False for simulated noise, which protects nobody."""
    statement: str
