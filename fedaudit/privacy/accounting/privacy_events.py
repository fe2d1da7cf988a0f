"""Events: what was done to the data, independent of the accountant; and parameters of mechanisms.

An event is one release, or many equal ones. Public numbers alone describe it. An accountant
(`fedaudit.privacy.accounting.accountant`) turns events into an epsilon. The ledger stores events,
so that runs on one federation can be composed later, under another delta or by a better accountant.

A `noise_multiplier` here is always the standard deviation of the noise over the *clip*: the largest
norm that one unit (a record, a client) adds to the sum. The distance between two neighbouring sums
depends on the adjacency: one clip if a unit is added or removed, two if it is replaced. The
accountant takes that into account.

The parameters are what an accountant needs to know about a mechanism. They are public numbers,
except for the events of record groups: their rates follow from the budgets, and the ledger that
keeps them is confidential.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Annotated, Any, ClassVar, Literal, get_args

from numpy.typing import ArrayLike
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from fedaudit.arrays import Floats
from fedaudit.privacy.leakage import leakage, leakages, release_epsilons

Adjacency = Literal["add-or-remove-one", "replace-one"]
"""How two neighbouring datasets differ. `add-or-remove-one`, known as zero-out: one unit
contributes or sends nothing, and denominators and split stay. `replace-one`: one unit has other
content."""

Observer = Literal["final_model", "server"]
"""`final_model` sees only the model, and the sampling of clients is secret; `server` sees every
upload."""

ReportObserver = Literal["report"]
"""Sees what is published of the people held out of training: fairness figures of the report."""
REPORT: ReportObserver = "report"
AnyObserver = Literal["final_model", "server", "report"]
"""Whom a budget may name."""


Rate = Annotated[float, Field(gt=0, le=1)]
"""A rate of 0 is not an event."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""A release without noise is a `NonPrivate` event."""
Count = Annotated[int, Field(ge=1)]
EXACT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True, config=EXACT)
class Event:
    """The JSON form that all events share. Raises ValueError for a number out of its range, and for
    an event that is none."""

    kind: ClassVar[str]

    def as_dict(self) -> dict[str, Any]:
        """The event as JSON-able values; `event_from_dict` reads it back, to the last bit."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind} | {
            name: value.as_dict() if isinstance(value, Event) else value
            for name, value in values.items()
        }


@dataclass(frozen=True, config=EXACT)
class NonPrivate(Event):
    """A release without any mechanism: nothing bounds what it reveals."""

    kind: ClassVar[str] = "non-private"


@dataclass(frozen=True, config=EXACT)
class Gaussian(Event):
    """A sum of clipped contributions plus Gaussian noise."""

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: Positive


@dataclass(frozen=True, config=EXACT)
class PoissonSampled(Event):
    """The event on a Poisson sample, which every unit enters by a separate coin."""

    kind: ClassVar[str] = "poisson-sampled"
    rate: Rate
    event: Event


@dataclass(frozen=True, config=EXACT)
class FixedSizeSampled(Event):
    """The event on `sample` of `population` units, drawn without replacement."""

    kind: ClassVar[str] = "fixed-size-sampled"
    population: Count
    sample: Count
    event: Event

    def __post_init__(self) -> None:
        if self.sample > self.population:
            raise ValueError(
                f"sample = {self.sample} exceeds population = {self.population}; draw at most "
                "everyone"
            )


@dataclass(frozen=True, config=EXACT)
class RandomAllocated(Event):
    """The event in each of `rounds` rounds. Every unit enters exactly one of them, drawn for it at
    random. One composition is such a block of rounds."""

    kind: ClassVar[str] = "random-allocated"
    rounds: Count
    event: Event


@dataclass(frozen=True, config=EXACT)
class Rotated(Event):
    """The event in each of `rounds` rounds. Every unit enters exactly one of them, and all know
    which. One composition is such a block of rounds, and counts as the event once.

    Only stored ledgers have it. Their noise may be correlated over `bands` rounds, 1 for
    independent noise, by a banded matrix with columns of length 1. A unit does not enter twice
    within the bands, so it costs the same (Choquette-Choo et al. 2023; Denisov et al. 2022,
    theorem 2.1).
    """

    kind: ClassVar[str] = "rotated"
    rounds: Count
    bands: Count
    event: Event

    def __post_init__(self) -> None:
        if self.bands > self.rounds:
            raise ValueError(
                f"bands = {self.bands} exceeds rounds = {self.rounds}: a unit would enter twice "
                "within the bands, whose cost no accountant knows; use at most as many bands"
            )


@dataclass(frozen=True, config=EXACT)
class TwoStage(Event):
    """One round of record-level sampling within sampled clients (rPDP-FL, CCS 2024).

    The client enters with `client_rate`; if it does, it takes `steps` local steps, and the record
    enters each with `record_rate`. Noise is added in every step.
    """

    kind: ClassVar[str] = "two-stage"
    client_rate: Rate
    record_rate: Rate
    noise_multiplier: Positive
    steps: Count


@dataclass(frozen=True, config=EXACT)
class DiscreteLaplace(Event):
    """Integer counts plus discrete Laplace noise: `epsilon` without a delta, at any distance that
    one unit can move them."""

    kind: ClassVar[str] = "discrete-laplace"
    epsilon: Positive


@dataclass(frozen=True, config=EXACT)
class LaplaceL2(Event):
    """A release under metric privacy: counted as leakage, never as an epsilon with a delta."""

    kind: ClassVar[str] = "laplace-l2"
    n: Count
    noise_multiplier: Positive
    radius: Positive | None
    """The fixed, public radius; None where it is the norm of the secret update."""


@dataclass(frozen=True, config=EXACT)
class Composed(Event):
    """The event `count` times, with noise and samples drawn anew each time."""

    kind: ClassVar[str] = "composed"
    event: Event
    count: Count

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
"""Events of which one composition is a block of rounds."""

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
    if "event" in given:
        given["event"] = event_from_dict(given["event"])
    return _KINDS[kind](**given)


ADJACENCIES: Mapping[Adjacency, str] = {
    "add-or-remove-one": "zero-out (add-or-remove-one)",
    "replace-one": "replace-one",
}
"""Under the first, known as zero-out, a unit's contribution is there or is zero. Denominators and
the split stay as they are, and everyone is taken to know them. Ledger entries are hashed with the
stored name, and budgets are kept by it, so it does not change."""


def adjacency_words(name: str) -> str:
    """An adjacency in words; an unknown name is returned unchanged."""
    return {str(known): words for known, words in ADJACENCIES.items()}.get(name, name)


OBSERVERS: Mapping[Observer, str] = {
    "final_model": "those who see the models and not who took part",
    "server": "the server",
}
"""Follows "against": `final_model` knows only the models, `server` also who took part and when."""
REPORT_READERS: Mapping[ReportObserver, str] = {"report": "readers of the report"}
"""They see what is published of the people held out of training. Only that is counted against them,
and no training."""


def observer_words(name: str) -> str:
    """An observer in words; an unknown name is returned unchanged."""
    known = [*OBSERVERS.items(), *REPORT_READERS.items()]
    return {str(one): words for one, words in known}.get(name, name)


GuaranteeKind = Literal["formal", "heuristic", "declared", "none"]
"""`declared`: a trainer elsewhere states it; the noise was not observed."""
DECLARED: Literal["declared"] = "declared"
CostKind = Literal["leakage", "epsilon", "unbounded"]
"""How a cost is counted: as leakage under metric privacy, as an epsilon with a delta, or not at
all, because nothing bounds it."""


def known_guarantee_kind(name: object) -> GuaranteeKind | None:
    """The kind of that name. None of any other: a document may come from anywhere."""
    kinds: tuple[GuaranteeKind, ...] = get_args(GuaranteeKind)
    return next((kind for kind in kinds if kind == name), None)


@dataclass(frozen=True, config=EXACT)
class Component:
    """A part of the vector that has its own noise and radius, such as a layer."""

    name: str
    n: int
    """Released parameters of this part."""


def layer_components(sizes: Sequence[int]) -> tuple[Component, ...]:
    """The layers of a network, in the order of its vector: `layer-1` and so on."""
    return tuple(Component(f"layer-{place}", size) for place, size in enumerate(sizes, start=1))


@dataclass(frozen=True, config=EXACT)
class MechanismParameters:
    """The mechanism of one ledger entry. A number that it does not have is None.

    Raises ValueError for components that do not make up the released vector.
    """

    mechanism: str
    n: int
    """Released parameters."""
    noise_multiplier: float | None
    radius: float | None
    """The fixed, public radius; None where it is adaptive or there is no mechanism."""
    radius_floor: float | None
    """The public lower bound on an adaptive radius; None where the radius is fixed."""
    clip: float | None
    noise: str
    guarantee: GuaranteeKind
    event: str | None = None
    """Canonical JSON of what is composed (`SpendingPlan.events_json`); None where nothing is
    counted as an epsilon with a delta, and then the fields below are None too."""
    delta: float | None = None
    adjacency: str | None = None
    accountant: str | None = None
    components: tuple[Component, ...] | None = None
    """The parts of the vector, where each has a separate radius; None where the vector is
    released as a whole."""

    def __post_init__(self) -> None:
        if self.components is None:
            return
        if self.counts_epsilon or self.noise_multiplier is None:
            raise ValueError("only metric privacy releases components with separate radii")
        names = {component.name for component in self.components}
        least = min((part.n for part in self.components), default=0)
        if len(names) < len(self.components) or least < 1:
            raise ValueError("components need distinct names and at least one parameter each")
        if sum(part.n for part in self.components) != self.n:
            raise ValueError(f"the components do not add up to {self.n} parameters")

    @property
    def counts_epsilon(self) -> bool:
        """Whether the cost is an epsilon with a delta; otherwise it is leakage or unbounded."""
        return self.event is not None

    @property
    def cost_kind(self) -> CostKind:
        """How the cost of an entry is counted."""
        if self.event is not None:
            return "epsilon"
        return "unbounded" if self.noise_multiplier is None else "leakage"

    @property
    def component_sizes(self) -> tuple[int, ...]:
        """Parameters of each component; empty where the vector is released as a whole."""
        return tuple(component.n for component in self.components or ())

    @property
    def noised_sizes(self) -> tuple[int, ...]:
        """Parameters of each part of the vector that has its own noise."""
        return self.component_sizes or (self.n,)

    def leakage(self, releases: float) -> float:
        """What so many releases of the whole vector leak. ValueError where leakage is not counted.

        `releases` as in `metric.leakage.leakage`.
        """
        return leakage(releases, n=self.n, noise_multiplier=self.nu)

    def leakages(self, releases: ArrayLike, *, sizes: ArrayLike | None = None) -> Floats:
        """The same of many releases; `sizes`: parameters of the parts, the whole vector without."""
        n = self.n if sizes is None else sizes
        return leakages(releases, n=n, noise_multiplier=self.nu)

    def release_epsilons(self, radii: ArrayLike) -> Floats:
        """The rate per unit of distance of each noised part [..., parts], for radii that fit.

        Raises ValueError where leakage is not counted.
        """
        return release_epsilons(self.noised_sizes, noise_multiplier=self.nu, radii=radii)

    @property
    def nu(self) -> float:
        """The noise multiplier of metric privacy. ValueError where leakage is not counted."""
        if self.cost_kind != "leakage" or self.noise_multiplier is None:
            raise ValueError(f"the cost of {self.mechanism} is not counted as leakage")
        return self.noise_multiplier

    def radii_shape(self, subjects: int) -> tuple[int, ...]:
        """The shape of the radii of this many subjects: one each, or one per component and
        subject."""
        return (subjects,) if self.components is None else (subjects, len(self.components))

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        # Fields are plain values, of which a deep copy takes many times as long.
        found: dict[str, Any] = dict(vars(self))
        if self.components is not None:
            found["components"] = [asdict(part) for part in self.components]
        return found

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "MechanismParameters":
        """The inverse of `as_dict`. Raises ValueError for a missing or unknown field or one of
        another type, and ValueError or TypeError for invalid components."""
        given = dict(fields)
        if given.get("components") is not None:
            given["components"] = tuple(Component(**part) for part in given["components"])
        return cls(**given)


def unbounded_inputs(mechanism: str, *, n: int, noise: str) -> MechanismParameters:
    """What is recorded of training without noise."""
    return MechanismParameters(
        mechanism=mechanism,
        n=n,
        noise_multiplier=None,
        radius=None,
        radius_floor=None,
        clip=None,
        noise=noise,
        guarantee="none",
    )
