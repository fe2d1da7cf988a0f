"""What one declared round released, in the trainer's words."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, assert_never

from pydantic import Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from fedaudit.spec.base import MAX_INTEGER, SpecPart, Text
from fedaudit.spec.errors import Refusals, refuse, refuse_at

NoiseMultiplier = Annotated[float, Field(ge=1e-3, le=1e6)]
"""Larger ones give figures that floating-point numbers cannot hold. Below the bound an epsilon
means nothing: declare the kind none."""
Steps = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Parameters = Annotated[int, Field(ge=1, le=10**12)]
Rate = Annotated[float, Field(ge=1e-12, le=1)]
Length = Annotated[float, Field(ge=1e-9, le=1e9)]
"""Euclidean norm of an update."""


class GaussianRelease(SpecPart):
    """A sum of clipped contributions of the participants, plus Gaussian noise."""

    kind: Literal["gaussian"]
    noise_multiplier: NoiseMultiplier
    """The standard deviation of the noise over the clip."""
    steps: Steps = 1
    """How often noise was added within the round, each time anew."""


class PoissonRelease(SpecPart):
    """The same on a Poisson sample: every unit entered by its own coin, and the coins are
    secret."""

    kind: Literal["poisson-gaussian"]
    rate: Rate
    noise_multiplier: NoiseMultiplier
    steps: Steps = 1
    """Each draws its own sample."""


class FixedSizeRelease(SpecPart):
    """The same of a sample of a fixed size, drawn without replacement and kept secret."""

    kind: Literal["fixed-gaussian"]
    clients: Count
    """How many were drawn."""
    population: Count
    """How many they were drawn from."""
    noise_multiplier: NoiseMultiplier
    steps: Steps = 1

    def faults(self) -> Refusals:
        if self.clients > self.population:
            yield refuse("`clients` exceeds `population`; draw at most everyone")


class LaplaceRelease(SpecPart):
    """Each participant's upload with noise of metric privacy."""

    kind: Literal["laplace-l2"]
    steps: ClassVar[int] = 1
    n: Parameters
    """Released parameters."""
    noise_multiplier: NoiseMultiplier
    radius: Length | None
    """The fixed, public radius; null where it follows from the update."""
    clip: Length | None
    """The bound on an update's norm; null without one."""


class DistanceRelease(SpecPart):
    """A sum with Gaussian noise that a trusted server divides by the distance of the clients:
    heuristic, as it follows from their models, and counted as if there were none."""

    kind: Literal["gaussian-distance"]
    steps: ClassVar[int] = 1
    noise_multiplier: NoiseMultiplier
    """The standard deviation of the noise over the clip, at a distance of 1."""


class UnprotectedRelease(SpecPart):
    """Updates without any noise."""

    kind: Literal["none"]
    steps: ClassVar[int] = 1


AnyRelease = (
    GaussianRelease
    | PoissonRelease
    | FixedSizeRelease
    | LaplaceRelease
    | DistanceRelease
    | UnprotectedRelease
)
DeclaredEvent = Annotated[AnyRelease, Field(discriminator="kind")]


DeclaredMechanism = Literal[
    "gaussian", "gaussian-central", "gaussian-local", "laplace-l2", "gaussian-distance", "none"
]
"""`gaussian-central`: a trusted server adds noise to the sum. `gaussian-local`: clients add it to
their uploads. `gaussian`: noise on clipped sums of records within a client, as of DP-SGD, or
wherever it was added."""
_COUNTS_EPSILON: dict[DeclaredMechanism, bool] = {
    **dict.fromkeys(("gaussian", "gaussian-central", "gaussian-local"), True),
    **dict.fromkeys(("laplace-l2", "gaussian-distance", "none"), False),
}
EVERYONE = "everyone"
"""Stands for the whole population, which pays for rounds whose participants are secret."""
MAX_SUBJECTS = 100_000


class EpsilonBudget(SpecPart):
    """The epsilon that no client may exceed, at the delta of the ledger."""

    epsilon: Annotated[float, Field(gt=0, le=1e6)]


class LeakageBudget(SpecPart):
    """The leakage that no client may exceed."""

    leakage: Annotated[float, Field(gt=0, le=1e300)]


ClientBudget = Annotated[
    Annotated[EpsilonBudget, Tag("[epsilon]")] | Annotated[LeakageBudget, Tag("[leakage]")],
    # By the names in what was sent, or in a budget that was made: each is judged by its own terms.
    Discriminator(lambda one: "[epsilon]" if not one or "epsilon" in str(one) else "[leakage]"),
]


class MetricTerms(SpecPart):
    """What a leakage is counted under: n/nu of another radius or clip is another figure."""

    radius: Length | None
    """The fixed, public radius; null where it follows from each update."""
    clip: Length | None
    """The bound on an update's norm; null without one."""

    @property
    def has_theorem(self) -> bool:
        """Whether the theorem has a sum for it: that needs a fixed radius and a clip."""
        return self.radius is not None and self.clip is not None


class LedgerTerms(SpecPart):
    """What a trainer states once, before its first round; never changed afterwards."""

    terms_version: Literal[1] = 1
    name: Text
    mechanism: DeclaredMechanism
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Delta of every epsilon; left out where the cost is not an epsilon."""
    accountant: Literal["rdp", "pld"] | None = None
    adjacency: Literal["add-or-remove-one", "replace-one"] | None = None
    observer: Literal["final_model", "server"]
    """Observers that the figures hold against: those who see the models and not who took part, or
    the server as well."""
    unit: Literal["client", "record"]
    """Whom they protect: a client with all its records, or one record."""
    population: Annotated[int, Field(ge=1, le=MAX_INTEGER)]
    """How many units rounds draw from."""
    names_participants: Annotated[bool, Field(exclude_if=lambda value: value is True)] = True
    """Whether amplified rounds name who was drawn; false where the trainer cannot know, as under
    secure aggregation. Figures are conditional then, because nothing tests the sampling."""
    subjects: Annotated[list[Text], Field(min_length=1, max_length=MAX_SUBJECTS)] | None = None
    """Every client by name; rounds may then name no other."""
    budget: ClientBudget | None = None
    """Budget of each client; reservations keep within it."""
    federation_id: Annotated[str, Field(max_length=36)] | None = None
    """A federation whose budget is charged: the training used its data."""
    metric: Annotated[MetricTerms | None, Field(exclude_if=lambda value: value is None)] = None
    """For laplace-l2: the radius and clip that every round has. A federation's budget keeps
    leakages of different ones apart, and so needs them before the first round."""
    minimum_group_size: Annotated[int, Field(ge=1, le=1_000_000)] = 30
    """Groups with fewer rows are suppressed in the report."""

    def faults(self) -> Refusals:
        return _with_remedy(self, [*_costs(self), *_observers(self), *_named_subjects(self)])

    @property
    def counts_epsilon(self) -> bool:
        """Whether the cost is an epsilon with a delta."""
        return _COUNTS_EPSILON[self.mechanism]

    @property
    def hides_participants(self) -> bool:
        """Whether an observer does not see who took part, so that sampling may amplify."""
        return self.unit == "client" and self.observer == "final_model"


def _with_remedy(terms: LedgerTerms, found: Sequence[PydanticCustomError]) -> Refusals:
    """What was found; the first fault of what depends on each other says what is accepted."""
    accepted = _accepted(terms)
    stated = ", ".join(f"{name}: {value}" for name, value in accepted.items())
    for one in found:
        pointer, message = (one.context or {})["pointer"], (one.context or {})["message"]
        if stated and pointer.removeprefix("/") in accepted:
            message, stated = f"{message}. These go together: {stated}", ""
        yield refuse_at(pointer, message)


def _accepted(terms: LedgerTerms) -> dict[str, object]:
    """The nearest terms that claim no more than what such noise can bear out."""
    mechanism, observer, adjacency = terms.mechanism, terms.observer, terms.adjacency
    if mechanism == "gaussian-distance":
        return {"mechanism": mechanism, "observer": "final_model", "unit": "client"}
    if mechanism == "laplace-l2" and terms.federation_id is not None:
        return {"mechanism": mechanism, "observer": observer, "unit": "client"}
    if terms.unit == "record" and mechanism in ("gaussian-central", "gaussian-local"):
        mechanism = "gaussian"
    if mechanism == "gaussian-central":
        observer = "final_model"
    found: dict[str, object] = {"mechanism": mechanism, "observer": observer, "unit": terms.unit}
    if not _COUNTS_EPSILON[mechanism]:
        return found
    if terms.unit == "client" and (observer == "server" or adjacency is None):
        adjacency = "replace-one"
    found["adjacency"] = adjacency or "add-or-remove-one"
    return {**found, "accountant": terms.accountant or "rdp", "delta": terms.delta or 1e-5}


def _costs(terms: LedgerTerms) -> Refusals:
    for name in ("delta", "accountant", "adjacency"):
        if terms.counts_epsilon and getattr(terms, name) is None:
            yield refuse_at(f"/{name}", f"is required: {terms.mechanism} is counted as an epsilon")
        # Earlier ledgers without noise, and of leakages, state one to no effect.
        if terms.mechanism == "gaussian-distance" and getattr(terms, name) is not None:
            why = "belongs to an epsilon, and gaussian-distance has none; leave it out"
            yield refuse_at(f"/{name}", why)
    match terms.budget:
        case EpsilonBudget() if not terms.counts_epsilon:
            why = f"the cost of {terms.mechanism} is no epsilon; give a leakage"
            yield refuse_at("/budget", why)
        case LeakageBudget() if terms.mechanism != "laplace-l2":
            why = f"the cost of {terms.mechanism} is no leakage; give an epsilon"
            yield refuse_at("/budget", why)
        case EpsilonBudget() | LeakageBudget() | None:
            pass
        case _:
            assert_never(terms.budget)
    if terms.metric is not None and terms.mechanism != "laplace-l2":
        yield refuse_at(
            "/metric", f"only laplace-l2 has a radius, and not {terms.mechanism}; leave it out"
        )
    if terms.federation_id is not None:
        yield from _charged(terms)


def _charged(terms: LedgerTerms) -> Refusals:
    """Whether a federation's budget can count the cost."""
    match terms.mechanism:
        case "gaussian" | "gaussian-central" | "gaussian-local":
            return
        case "gaussian-distance" | "none":
            yield refuse_at(
                "/federation_id",
                f"of the mechanism {terms.mechanism} there is no cost that a federation's budget "
                "could count; leave it out",
            )
        case "laplace-l2":
            if terms.metric is None:
                yield refuse_at(
                    "/metric",
                    "is required: a federation's budget counts leakages of one radius and clip; "
                    "state {radius, clip}, null for an adaptive radius or no clip",
                )
            if terms.unit != "client":
                yield refuse_at(
                    "/unit",
                    "a federation's budget counts the leakage of clients; state client, or leave "
                    "federation_id out",
                )
        case _:
            assert_never(terms.mechanism)


def _observers(terms: LedgerTerms) -> Refusals:
    central = terms.mechanism in ("gaussian-central", "gaussian-distance")
    if central and terms.observer == "server":
        yield refuse_at(
            "/observer",
            f"under {terms.mechanism} the server sees updates without noise; state final_model",
        )
    if (central or terms.mechanism == "gaussian-local") and terms.unit == "record":
        yield refuse_at(
            "/unit", f"{terms.mechanism} protects clients; of records state the mechanism gaussian"
        )
    visible = terms.counts_epsilon and terms.unit == "client" and terms.observer == "server"
    if visible and terms.adjacency == "add-or-remove-one":
        yield refuse_at(
            "/adjacency",
            "the server sees who sends, so a client that sends nothing is no neighbour of one that "
            "does; state replace-one",
        )


def _named_subjects(terms: LedgerTerms) -> Refusals:
    amplified = terms.hides_participants and terms.mechanism != "gaussian-distance"
    if not terms.names_participants and not amplified:
        yield refuse_at(
            "/names_participants",
            "only rounds that are amplified by sampling clients may name no one; leave it out",
        )
    names = terms.subjects
    if names is None:
        return
    if len(set(names)) != len(names):
        yield refuse_at("/subjects", "names a client twice")
    if EVERYONE in names:
        yield refuse_at("/subjects", f"{EVERYONE!r} means the whole population; use another")
    if terms.unit == "client" and len(names) != terms.population:
        yield refuse_at(
            "/subjects",
            f"names {len(names)} clients of a population of {terms.population}; name all or none",
        )


MAX_ROUND = 2**31 - 1
MAX_ROUNDS_A_REQUEST = 1000
RoundNumber = Annotated[int, Field(ge=1, le=MAX_ROUND)]
Rows = Annotated[int, Field(ge=0, le=10**12)]
Names = Annotated[list[Text], Field(max_length=MAX_SUBJECTS)]


class GroupTally(SpecPart):
    """The rows of one group by truth and prediction; *positive* is the favourable outcome."""

    true_positives: Rows
    false_positives: Rows
    true_negatives: Rows
    false_negatives: Rows


GroupTallies = Annotated[
    dict[Text, Annotated[dict[Text, GroupTally], Field(min_length=1, max_length=1000)]],
    Field(max_length=20),
]


MAX_CANARIES = 20_000
MAX_PASSES = 16
Finite = Annotated[float, Field(ge=-1e30, le=1e30)]
Squared = Annotated[float, Field(ge=1e-9, le=1e30)]


class CanaryScores(SpecPart):
    """What canaries show of the releases of one round, measured in clips: y is what left minus what
    others sent, and x the sum of the directions that canaries sent."""

    present: Annotated[str, Field(pattern="^[01]+$", min_length=2, max_length=MAX_CANARIES)]
    """The coin of each canary: 1 where it is there."""
    scores: Annotated[list[Finite], Field(min_length=2, max_length=MAX_CANARIES)]
    """How far the releases together reach along what each canary sends if it is there."""
    releases: Steps
    """That each canary was in: at most the steps of the round."""
    product: Finite
    """Product of y and x, summed over all numbers."""
    weight: Squared
    """Product of x and x."""
    squares: Squared
    """Product of y and y."""
    numbers: Annotated[int, Field(ge=2, le=10**15)]
    """How many were released."""
    passes: Annotated[int, Field(ge=1, le=MAX_PASSES, exclude_if=lambda value: value == 1)] = 1
    """How many copies of the release each canary went through. `product`, `weight`, `squares` and
    `numbers` cover all passes, `scores` the first."""

    def faults(self) -> Refusals:
        if len(self.scores) != len(self.present):
            yield refuse("`present` and `scores` have one entry for each canary; send as many")
        if self.product**2 > self.weight * self.squares * (1 + 1e-6):
            yield refuse("`product` exceeds what `weight` and `squares` allow; measure it anew")


class DeclaredRound(SpecPart):
    """One round, as the trainer declares it."""

    round: RoundNumber
    event: DeclaredEvent
    participants: Names
    """Who sent an update."""
    failures: Names = []
    """Who was asked and is not among them, whatever went wrong: charged as if it had sent one."""
    groups: GroupTallies = {}
    """How the model of this round predicted, by sensitive attribute and group."""
    canaries: Annotated[CanaryScores | None, Field(exclude_if=lambda value: value is None)] = None
    """What canaries in its releases show, if there were any."""

    def faults(self) -> Refusals:
        if self.canaries is None:
            return
        if isinstance(self.event, LaplaceRelease | DistanceRelease | UnprotectedRelease):
            yield refuse_at("/canaries", "test Gaussian noise, which the event has not; leave out")
        elif self.canaries.releases > self.event.steps:
            yield refuse_at("/canaries/releases", f"the round has {self.event.steps} steps")


class RoundsRequest(SpecPart):
    """Rounds in ascending order: all are taken, or none."""

    rounds: Annotated[list[DeclaredRound], Field(min_length=1, max_length=MAX_ROUNDS_A_REQUEST)]


class ReservationRequest(SpecPart):
    """What a round is about to release, and of whom."""

    event: DeclaredEvent
    participants: Annotated[Names, Field(min_length=1)]
