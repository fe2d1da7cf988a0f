"""The mechanisms `gaussian-central` and `gaussian-local`: Gaussian noise in clips, at the server or
at each client.

Central: one client's update, clipped to norm c, moves the sum of a round by at most c where the
client joins or leaves (Poisson coins, random allocation), by at most 2c where its data are replaced
(a cohort of fixed size). Noise of standard deviation noise_multiplier * c on the sum is the sampled
Gaussian mechanism; rounds are composed. An adaptive clip shares that noise between the updates and
the count of those within the clip (Andrew et al. 2021, theorem 1).

Local: two updates of one client lie within two clips; every upload is the Gaussian mechanism by
itself, and a client's uploads are composed. The server sees who sends, so no sampling amplifies.

What the ways of drawing a cohort cost under `gaussian-central`, with the same noise.

Each figure is for its kind of neighbours: a smaller one under zero-out does not promise what a
larger one under replace-one does.

The mechanism `gaussian-distance`: a server's noise, divided by how far apart clients are.

Sainz-Pardo Diaz, Athanasiou, Jung, Palamidessi and Lopez Garcia, "Metric-privacy-inspired noise
calibration in federated learning", Knowledge-Based Systems 343 (2026), section 6, who do not
enforce it as a formal guarantee. None follows: the distance is one of secret models, so that the
scale of the noise reveals something of them, and it grows with the client that differs most, whose
presence then lessens the noise that would hide it. So nothing is counted, as without a mechanism.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, assert_never

from fedaudit.number_text import number
from fedaudit.privacy.accounting.accountant import COARSE_LOSS_STEP, LOSS_STEP, RDP_ORDERS
from fedaudit.privacy.accounting.epsilon_tables import (
    ROUGH_ORDERS,
    EpsilonCurve,
    EpsilonTerms,
    RepeatedEvent,
    planned_epsilon,
)
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    GuaranteeKind,
    MechanismParameters,
    PoissonSampled,
    RandomAllocated,
    Rotated,
    unbounded_inputs,
)
from fedaudit.privacy.guarantees.guarantee import Guarantee, scored_clients_train
from fedaudit.privacy.mechanisms.base import (
    EACH_CLIENT,
    EpsilonMechanism,
    Epsilons,
    MechanismFacts,
    NoiseOrigin,
    PrivacyMechanism,
    Sizes,
)
from fedaudit.privacy.noise.adaptive_clipping import update_noise_multiplier
from fedaudit.privacy.planning.cost_projection import (
    Projection,
    TargetedFigure,
    fixed_cohort,
    participations,
    unbounded_projection,
)
from fedaudit.privacy.planning.plan import EVERYONE, PlanAccountant, SpendingPlan
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.spec.privacy import (
    GAUSSIAN_DECADES,
    AccountantName,
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
)
from fedaudit.spec.training import AllocationCohort, FixedCohort, PoissonCohort, RotationCohort

BY_SERVER = NoiseOrigin(
    registry_model="Federated",
    registry_details=(
        "Data stay with the clients. The server is trusted with every update, and adds the noise."
    ),
    statement="The server adds the noise, and is trusted with every update.",
    noised="the noised sums of a round",
)
TRUSTED = (
    "The server is trusted with every update, and with who sent it: the guarantee says nothing "
    "about the server, nor about anyone who can read its memory or its traffic."
)
LOOSE_FIXED_SIZE = (
    "The epsilon of cohorts of a fixed size is an upper bound that may be loose: 12.26 at 10 of "
    "500 clients (noise multiplier 1, 50 rounds, delta 1e-5), where at least 1.37 is spent, and "
    "14.05 at 100 of 1,000 (noise multiplier 2, 100 rounds), where at least 4.36 is. What is "
    "spent lies between the two; only the upper bound is guaranteed. Cohorts by coins (`sampling: "
    "poisson`) have closer bounds, under zero-out."
)
_MOVING_CLIP = (
    "The clip follows a noised count of the updates within it; the count's share of the noise "
    "is part of the epsilon reported."
)
_CHOICE_COVERED = (
    "A client adds to the one hypothesis that it chose itself, and all hypotheses get "
    "noise, so the choice is covered too."
)


_LOSS_STEPS: Mapping[AccountantName, tuple[float | None, ...]] = {
    "rdp": (None,),
    "pld": (None, COARSE_LOSS_STEP, LOSS_STEP),
}
"""With which grids of losses noise is looked for, the quickest first; None is without one."""
_NEIGHBOURS: Mapping[Adjacency, tuple[str, str]] = {
    "replace-one": (
        "the whole data of one client that trains (adjacency replace-one)",
        "replacing a client moves the sum by up to two clips, and the accountant counts that",
    ),
    "add-or-remove-one": (
        "whether one of the clients that train contributes or sends nothing (adjacency "
        "add-or-remove-one in the zero-out sense: who trains, how many they are and the "
        "denominator stay as they are)",
        "a client that sends nothing moves the sum by at most one clip",
    ),
}
"""How neighbouring federations differ, and how far that moves a sum."""


@dataclass(frozen=True)
class _GaussianMechanism(EpsilonMechanism):
    """Every charge of a subject is of one event, against one observer."""

    privacy: GaussianCentral | GaussianLocal

    guarantee_kind: ClassVar[GuaranteeKind] = "formal"
    uncovered_model: ClassVar[None] = None
    """Models are, or follow from, what has noise."""

    @property
    def epsilon_budget(self) -> float | None:
        """No subject exceeds it: a client takes no further part, or the run ends, before."""
        return self.privacy.epsilon_budget

    def noise_multiplier(self) -> float | str:
        """Multiplier of one upload or the sum; with an adaptive clip, of the sum and the count."""
        return float(self.privacy.noise_multiplier)

    @property
    def accountant(self) -> PlanAccountant:
        """The accountant that the spec asks for."""
        return self.privacy.accountant

    def spending_plan(
        self, *, training_clients: int, names: Sequence[str] = (), records: RecordPlan | None = None
    ) -> SpendingPlan:
        """One event for every charge: of the population, or of each client."""
        everyone = self.facts.subject_kind == "population"
        event = self._event(self.privacy.noise_multiplier, training_clients=training_clients)
        terms, steps = self._terms, self.spec.training.rounds
        by_pld = self.privacy.accountant == "pld"
        line = EpsilonCurve.of_events((RepeatedEvent(event),), steps, terms, by_pld=by_pld)
        return SpendingPlan(
            subject_kind=self.facts.subject_kind,
            subjects=(EVERYONE,) if everyone else tuple(names),
            delta=terms.delta,
            adjacency=terms.adjacency,
            accountant=self.privacy.accountant,
            steps=steps,
            lines={terms.observer: (line,)},
        )

    @property
    def _terms(self) -> EpsilonTerms:
        [observer] = self.facts.observers
        return EpsilonTerms(adjacency=self.adjacency, observer=observer, delta=self.privacy.delta)

    @abstractmethod
    def _event(self, noise_multiplier: float, *, training_clients: int) -> Event:
        """What a charge is for."""

    def targeted_figure(self, *, n: int, training_clients: int) -> TargetedFigure:
        """Epsilon at the spec's delta, by its accountant, of one subject charged in every round."""
        privacy, rounds, terms = self.privacy, self.spec.training.rounds, self._terms

        def epsilon(
            noise_multiplier: float, *, orders: tuple[float, ...], pld_step: float | None
        ) -> float:
            event = self._event(noise_multiplier, training_clients=training_clients)
            count = int(RepeatedEvent(event).compositions_within(rounds))
            return planned_epsilon(event, count, terms, pld_step=pld_step, orders=orders)

        steps = _LOSS_STEPS[privacy.accountant]
        ways = [*((ROUGH_ORDERS, step) for step in steps), (RDP_ORDERS, steps[-1])]
        return TargetedFigure(
            name="epsilon",
            terms=f"{rounds} rounds by {privacy.accountant} at delta = {privacy.delta:g}",
            figures=tuple(partial(epsilon, orders=orders, pld_step=step) for orders, step in ways),
            decades=GAUSSIAN_DECADES,
        )

    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """The epsilon of all charges that the budget allows."""
        rounds, [observer] = self.spec.training.rounds, self.facts.observers
        ends: int | str = "privacy.epsilon_budget is not set"
        if self.epsilon_budget is None:
            # As the plan's last place, without the others.
            figure = self.targeted_figure(n=n, training_clients=training_clients)
            value = figure.projected(float(self.privacy.noise_multiplier))
        else:
            plan = plan or self.spending_plan(training_clients=training_clients)
            most = min(rounds, plan.steps_within(observer, self.epsilon_budget))
            value = float(plan.line(observer).epsilons[most])
            within = f"all {rounds} rounds stay within privacy.epsilon_budget"
            ends = most + 1 if most < rounds else within
        return self.projection({observer: value}, ends=ends)


@dataclass(frozen=True)
class GaussianCentralMechanism(_GaussianMechanism):
    """The population is charged for every round, because it is secret who was drawn."""

    facts: ClassVar[MechanismFacts] = MechanismFacts(
        name="gaussian-central",
        label="Gaussian, at the server",
        description="A trusted server adds Gaussian noise to sums. Counted as epsilon.",
        applied_by="server",
        noise_law="gaussian",
        unit="client",
        subject_kind="population",
        observers=("final_model",),
        cost_kinds=("epsilon",),
        noise_origin=BY_SERVER,
    )

    privacy: GaussianCentral

    no_client_costs: ClassVar[str] = (
        "who takes part in a round is secret, so everybody is charged for all of them"
    )
    """Ledger and report do not disclose who took part."""

    @property
    def adjacency(self) -> Adjacency:
        """Depends on how the cohort is drawn."""
        by_chance = self.spec.training.asked_clients is None
        return "add-or-remove-one" if by_chance else "replace-one"

    @property
    def shared_noise(self) -> tuple[float | None, float | None]:
        """No clip where it is adaptive."""
        clip = None if self.privacy.adaptive_clip is not None else self.privacy.initial_clip
        return float(self.privacy.noise_multiplier), clip

    def sentences(self) -> list[str]:
        """State the guarantee against an observer of the models; the server is trusted."""
        privacy = self.privacy
        neighbours, reach = _NEIGHBOURS[self.adjacency]
        clip, noise = self._clip_and_noise()
        cohort = self.spec.training.cohort
        found = [
            "Formal. The models of all rounds together satisfy (epsilon, delta)-differential "
            f"privacy, delta = {privacy.delta:g}, between federations that differ by {neighbours}, "
            "against everyone who sees the models but neither the updates nor who took part.",
            "The server is trusted: it sees every update before the noise, and who sent it. "
            "Nothing here protects a client against the server.",
            f"Updates are shortened to {clip}; {reach}. The sum of a round gets Gaussian noise of "
            f"{noise} clips in every round and is divided by a constant. Which "
            "clients train and how many they are is taken as known to everybody.",
        ]
        if isinstance(cohort, AllocationCohort):
            found.append(
                f"Every client takes part in exactly one round of every block of {cohort.every}, "
                "which is drawn for it in secret (random allocation). A block is charged as a "
                "whole with its first round, by a proven upper bound and not by simulation."
            )
        if self.spec.training.hypotheses > 1:
            found.append(_CHOICE_COVERED)
        return found

    def noised_numbers(self, n: int) -> int:
        """The sums for all hypotheses."""
        return n * self.spec.training.hypotheses

    def stack_traits(self) -> tuple[object, ...]:
        """Whether the clip is adaptive."""
        return (self.privacy.adaptive_clip is not None,)

    def limits(self) -> list[str]:
        """That the server is trusted, and that an adaptive clip depends on what the server sees."""
        fixed = isinstance(self.spec.training.cohort, FixedCohort)
        moving = self.privacy.adaptive_clip is not None
        return [TRUSTED] + [_MOVING_CLIP] * moving + [LOOSE_FIXED_SIZE] * fixed

    def _event(self, noise_multiplier: float, *, training_clients: int) -> Event:
        """One round."""
        cohort, noised = self.spec.training.cohort, Gaussian(noise_multiplier)
        match cohort:
            case FixedCohort():
                drawn = min(cohort.clients, training_clients)
                return FixedSizeSampled(training_clients, drawn, noised)
            case PoissonCohort():
                return PoissonSampled(cohort.rate, noised)
            case AllocationCohort():
                return RandomAllocated(cohort.every, noised)
            case RotationCohort():
                correlation = self.privacy.correlation
                bands = 1 if correlation is None else correlation.bands
                return Rotated(cohort.every, bands, noised)
            case _:
                assert_never(cohort)

    def _clip_and_noise(self) -> tuple[str, str]:
        """The clip, and the noise of the sum in clips."""
        noise = number(self.privacy.noise_multiplier)
        adaptive = self.privacy.adaptive_clip
        if adaptive is None:
            return f"a clip of {number(self.privacy.initial_clip)}", noise
        clip = (
            f"a clip that starts at {number(adaptive.initial)} and follows a noised count of "
            "the updates within it; updates and count share the noise, as one mechanism of noise "
            f"multiplier {noise}"
        )
        of_updates = update_noise_multiplier(
            noise_multiplier=self.privacy.noise_multiplier, count_noise=adaptive.count_noise
        )
        return clip, number(of_updates)


@dataclass(frozen=True)
class GaussianLocalMechanism(_GaussianMechanism):
    """Every client is charged for its own uploads, against the server."""

    facts: ClassVar[MechanismFacts] = MechanismFacts(
        name="gaussian-local",
        label="Gaussian, at each client",
        description="Clients add Gaussian noise. Counted as epsilon.",
        applied_by="clients",
        noise_law="gaussian",
        unit="client",
        subject_kind="client",
        observers=("server",),
        cost_kinds=("epsilon",),
        noise_origin=EACH_CLIENT,
    )

    privacy: GaussianLocal

    adjacency: ClassVar[Adjacency] = "replace-one"
    """Any two datasets that a client may hold are neighbours."""

    @property
    def shared_noise(self) -> tuple[float | None, float | None]:
        """Those of every upload."""
        return float(self.privacy.noise_multiplier), self.privacy.clip

    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """The epsilon of a client drawn in every round; `expected` is the mean over clients."""
        plan = plan or self.spending_plan(training_clients=training_clients)
        projection = super().project_cost(n=n, training_clients=training_clients, plan=plan)
        rounds, ends = self.spec.training.rounds, projection.budget_ends_in_round
        most = rounds if ends is None else ends - 1
        cohort = fixed_cohort(self.spec, training_clients)
        shares = participations(rounds, cohort, training_clients, most=most)
        [entry], line = projection.epsilon, plan.line("server")
        entry["expected"] = float(line.epsilons[: most + 1] @ shares)
        return projection

    def sentences(self) -> list[str]:
        """State the guarantee against the server and every later observer."""
        privacy = self.privacy
        return [
            "Formal. All that a client sends satisfies (epsilon, delta)-differential privacy, "
            f"delta = {privacy.delta:g}, between any two datasets with a usable row "
            "that the client may hold (adjacency replace-one), against the server and everyone "
            "after it.",
            f"A client shortens its update to a clip of {number(privacy.clip)}, so that two "
            "updates lie within two clips, and adds Gaussian noise of "
            f"{number(privacy.noise_multiplier)} clips before anything leaves it. Its uploads are "
            "composed; being drawn at random gains it nothing, since the server sees who sends.",
            "Which clients have a usable row (who is held out follows from that), took part or "
            "were refused over their budget is visible to the server and not covered. An update "
            "that is not finite counts as none, and its noise is sent.",
        ]

    def _event(self, noise_multiplier: float, *, training_clients: int) -> Event:
        """One upload."""
        return Gaussian(noise_multiplier)


_WHY = (
    "the noise follows how far apart the clients' secret models are: no theorem bounds what a "
    "release reveals, and there is no epsilon"
)


@dataclass(frozen=True)
class GaussianDistanceMechanism(PrivacyMechanism):
    """The population takes part in every round; no cost is counted."""

    facts: ClassVar[MechanismFacts] = MechanismFacts(
        name="gaussian-distance",
        label="Gaussian by distance, at the server",
        description="A trusted server adds noise by the distance of clients. Nothing is counted.",
        applied_by="server",
        noise_law="gaussian",
        unit="client",
        subject_kind="population",
        observers=("final_model",),
        cost_kinds=("unbounded",),
        noise_origin=BY_SERVER,
        unbounded=_WHY,
        unbounded_release="in a sum with noise that no theorem bounds",
    )

    privacy: GaussianDistance

    guarantee_kind: ClassVar[GuaranteeKind] = "heuristic"

    @property
    def uncovered_model(self) -> str | None:
        """Every model is."""
        return f"{_WHY}; use the mechanism gaussian-central"

    no_client_costs: ClassVar[str] = _WHY

    def noise_multiplier(self) -> float | str:
        """Noise multiplier of the sum at a distance of 1."""
        return float(self.privacy.noise_multiplier)

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> MechanismParameters:
        """The clip; the ledger's noise multiplier is one that a cost is counted by."""
        found = unbounded_inputs(self.facts.name, n=n, noise=self.privacy.noise)
        return replace(found, clip=float(self.privacy.clip), guarantee=self.guarantee_kind)

    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """No cost, and the reason."""
        return unbounded_projection(_WHY, noise_multiplier=self.privacy.noise_multiplier)

    def guarantee(
        self, *, n: int, epsilons: Epsilons = (), planned: Epsilons = (), layers: Sizes = ()
    ) -> Guarantee:
        """What is done, and that nothing follows from it."""
        privacy = self.privacy
        sentences = [
            "Heuristic: not enforced as a formal guarantee. A trusted server shortens updates to "
            f"a clip of {number(privacy.clip)} and averages them, with Gaussian noise on the sum "
            f"of {number(privacy.noise_multiplier)} clips divided by the largest distance between "
            "two clients' models in the round, or by "
            f"{number(privacy.distance_floor)} where that is larger (Sainz-Pardo Diaz et al. "
            "2026).",
            "That distance follows from secret models: the scale of the noise reveals it, and "
            "there is least noise where one client differs most. No epsilon follows, and nothing "
            "bounds what the models reveal to those who see them.",
        ]
        if (own := scored_clients_train(self.spec)) is not None:
            sentences.append(own)
        return self.stated(sentences, adjacency=None, why_not=_WHY)

    def limits(self) -> list[str]:
        """That the server is trusted."""
        return [TRUSTED]
