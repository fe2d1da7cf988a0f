"""Events: what was done to the data, independent of the accountant.

An event is one release, or many equal ones, described by public numbers alone; an accountant
(`fedaudit.privacy.accounting.accountant`) turns events into an epsilon. The ledger stores events,
so that runs on one federation can be composed later, under another delta or by a better accountant.

A `noise_multiplier` here is always the standard deviation of the noise over the *clip*: the largest
norm that one unit (a record, a client) adds to the sum. The distance between two neighbouring sums
depends on the adjacency, one clip where a unit is added or removed and two where it is replaced,
and is the accountant's concern.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

Adjacency = Literal["add-or-remove-one", "replace-one"]
"""How two neighbouring datasets differ: in whether one unit contributes or sends nothing, known as
zero-out (denominators and split stay); or by the content of one unit."""

Observer = Literal["final_model", "server"]
"""The observer: sees only the model, while the sampling of clients is secret; or sees every
upload."""

ReportObserver = Literal["report"]
"""Sees what is published of the people held out of training: fairness figures of the report."""
REPORT: ReportObserver = "report"
AnyObserver = Literal["final_model", "server", "report"]
"""Whom a budget may name."""


@dataclass(frozen=True)
class Event:
    """The JSON form that all events share."""

    kind: ClassVar[str]

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-able values; `event_from_dict` reads it back, to the last bit."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind} | {
            name: value.as_dict() if isinstance(value, Event) else value
            for name, value in values.items()
        }


@dataclass(frozen=True)
class NonPrivate(Event):
    """A release without any mechanism: nothing bounds what it reveals."""

    kind: ClassVar[str] = "non-private"


@dataclass(frozen=True)
class Gaussian(Event):
    """A sum of clipped contributions plus Gaussian noise."""

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        _check_noise(self.noise_multiplier)


@dataclass(frozen=True)
class PoissonSampled(Event):
    """The event on a Poisson sample, which every unit enters by a coin of its own."""

    kind: ClassVar[str] = "poisson-sampled"
    rate: float
    event: Event

    def __post_init__(self) -> None:
        _check_rate("rate", self.rate)
        _check_event(self.event)


@dataclass(frozen=True)
class FixedSizeSampled(Event):
    """The event on `sample` of `population` units, drawn without replacement."""

    kind: ClassVar[str] = "fixed-size-sampled"
    population: int
    sample: int
    event: Event

    def __post_init__(self) -> None:
        _check_count("population", self.population)
        _check_count("sample", self.sample)
        if self.sample > self.population:
            raise ValueError(
                f"sample = {self.sample} exceeds population = {self.population}; draw at most "
                "everyone"
            )
        _check_event(self.event)


@dataclass(frozen=True)
class RandomAllocated(Event):
    """The event in each of `rounds` rounds, exactly one of which every unit enters, drawn for it at
    random: one composition is such a block of rounds."""

    kind: ClassVar[str] = "random-allocated"
    rounds: int
    event: Event

    def __post_init__(self) -> None:
        _check_count("rounds", self.rounds)
        _check_event(self.event)


@dataclass(frozen=True)
class Rotated(Event):
    """The event in each of `rounds` rounds, exactly one of which every unit enters, known to all:
    one composition is such a block of rounds, and the event once.

    Its noise may be correlated over `bands` rounds, 1 for independent noise. As a unit does not
    enter twice within the bands, it costs the same (`fedaudit.privacy.noise.banded_noise`).
    """

    kind: ClassVar[str] = "rotated"
    rounds: int
    bands: int
    event: Event

    def __post_init__(self) -> None:
        _check_count("rounds", self.rounds)
        _check_count("bands", self.bands)
        if self.bands > self.rounds:
            raise ValueError(
                f"bands = {self.bands} exceeds rounds = {self.rounds}: a unit would enter twice "
                "within the bands, whose cost no accountant knows; use at most as many bands"
            )
        _check_event(self.event)


@dataclass(frozen=True)
class TwoStage(Event):
    """One round of record-level sampling within sampled clients (rPDP-FL, CCS 2024).

    The client enters with `client_rate`; if it does, it takes `steps` local steps, and the record
    enters each with `record_rate`. Noise is added in every step.
    """

    kind: ClassVar[str] = "two-stage"
    client_rate: float
    record_rate: float
    noise_multiplier: float
    steps: int

    def __post_init__(self) -> None:
        _check_rate("client_rate", self.client_rate)
        _check_rate("record_rate", self.record_rate)
        _check_noise(self.noise_multiplier)
        _check_count("steps", self.steps)


@dataclass(frozen=True)
class DiscreteLaplace(Event):
    """Integer counts plus discrete Laplace noise: `epsilon` without a delta, at any distance that
    one unit can move them."""

    kind: ClassVar[str] = "discrete-laplace"
    epsilon: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon = {self.epsilon} must be positive and finite")


@dataclass(frozen=True)
class LaplaceL2(Event):
    """A release under metric privacy: counted as leakage, never as an epsilon with a delta."""

    kind: ClassVar[str] = "laplace-l2"
    n: int
    noise_multiplier: float
    radius: float | None
    """The fixed, public radius; None where it is the norm of the secret update."""

    def __post_init__(self) -> None:
        _check_count("n", self.n)
        _check_noise(self.noise_multiplier)
        if self.radius is not None and not (math.isfinite(self.radius) and self.radius > 0):
            raise ValueError(f"radius = {self.radius} must be positive and finite, or None")


@dataclass(frozen=True)
class Composed(Event):
    """The event `count` times, with noise and samples drawn anew each time."""

    kind: ClassVar[str] = "composed"
    event: Event
    count: int

    def __post_init__(self) -> None:
        _check_event(self.event)
        _check_count("count", self.count)

    def flattened(self) -> tuple[Event, int]:
        """What is composed, itself not a composition, and how often."""
        if not isinstance(self.event, Composed):
            return self.event, self.count
        event, count = self.event.flattened()
        return event, self.count * count


SingleEvent = (
    NonPrivate
    | Gaussian
    | PoissonSampled
    | FixedSizeSampled
    | RandomAllocated
    | Rotated
    | TwoStage
    | DiscreteLaplace
    | LaplaceL2
)
"""A single release."""
AnyEvent = SingleEvent | Composed
"""Every event there is: what accountants match to the end."""
BLOCKS = RandomAllocated | Rotated
"""Of which one composition is a block of rounds."""

_KINDS: dict[str, type[Event]] = {event.kind: event for event in get_args(AnyEvent)}


def known_event(event: Event) -> AnyEvent:
    """The value as one of the known events, for matching. Raises TypeError for any other."""
    if not isinstance(event, AnyEvent):
        raise TypeError(f"{type(event).__name__} is no event that is known")
    return event


def event_from_dict(values: Mapping[str, Any]) -> Event:
    """The inverse of `as_dict`. Raises ValueError for an unknown kind or a wrong set of fields."""
    given = dict(values)
    kind = given.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"no event of kind {kind!r}; known are {', '.join(_KINDS)}")
    event = _KINDS[kind]
    expected = {field.name for field in fields(event)}
    if given.keys() != expected:
        raise ValueError(f"an event of kind {kind!r} has the fields {sorted(expected)}")
    if "event" in given:
        given["event"] = event_from_dict(given["event"])
    return event(**given)


def _check_noise(noise_multiplier: float) -> None:
    if not (math.isfinite(noise_multiplier) and noise_multiplier > 0):
        raise ValueError(
            f"noise_multiplier = {noise_multiplier} must be positive and finite; a release "
            "without noise is a NonPrivate event"
        )


def _check_rate(name: str, rate: float) -> None:
    if not 0 < rate <= 1:
        raise ValueError(
            f"{name} = {rate} must lie above 0 and not above 1; what is never sampled is no event"
        )


def _check_count(name: str, count: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{name} = {count} must be a whole number, 1 or more")


def _check_event(event: Event) -> None:
    if not isinstance(event, Event):
        raise TypeError(f"event must be an Event, not {type(event).__name__}")


ADJACENCIES: Mapping[Adjacency, str] = {
    "add-or-remove-one": "zero-out (add-or-remove-one)",
    "replace-one": "replace-one",
}
"""The first, known as zero-out: a unit's contribution is there or is zero, while denominators and
the split, which everyone is taken to know, stay as they are. Ledger entries carry the stored name
within what is hashed, and budgets are kept by it, so it stays for both."""


def adjacency_words(name: str) -> str:
    """An adjacency in words; an unknown name is returned unchanged."""
    return {str(known): words for known, words in ADJACENCIES.items()}.get(name, name)


OBSERVERS: Mapping[Observer, str] = {
    "final_model": "those who see the models and not who took part",
    "server": "the server",
}
"""Follows "against": `final_model` knows only the models, `server` also who took part and when."""
REPORT_READERS: Mapping[ReportObserver, str] = {"report": "readers of the report"}
"""They see what is published of the people held out of training, and are asked about them alone: no
training is counted against them."""


def observer_words(name: str) -> str:
    """An observer in words; an unknown name is returned unchanged."""
    known = [*OBSERVERS.items(), *REPORT_READERS.items()]
    return {str(one): words for one, words in known}.get(name, name)
