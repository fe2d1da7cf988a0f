"""The mechanism `gaussian-central`: a trusted server adds Gaussian noise to sums.

One client's update, clipped to norm c, moves the sum of a round by at most c where the client joins
or leaves (Poisson coins), by at most 2c where its data are replaced (a cohort of fixed size). Noise
of standard deviation noise_multiplier * c on the sum is the Gaussian mechanism, sampled; rounds are
composed. An adaptive clip shares that noise between the updates and the count of those within the
clip (Andrew et al. 2021, theorem 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, assert_never

from fedaudit.privacy.accounting.mechanism_parameters import (
    CostKind,
    GuaranteeKind,
    MechanismParameters,
)
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
)
from fedaudit.privacy.guarantees.guarantee import number
from fedaudit.privacy.mechanisms.base import MechanismFacts, NoiseOrigin
from fedaudit.privacy.mechanisms.with_epsilon import EpsilonMechanism
from fedaudit.privacy.noise.adaptive_clipping import update_noise_multiplier
from fedaudit.privacy.planning.cost_projection import Projection
from fedaudit.privacy.planning.plan import EVERYONE, SpendingPlan, plan_of_one_event
from fedaudit.privacy.records.record_use import RecordUse
from fedaudit.spec.privacy import GaussianCentral
from fedaudit.spec.training import FixedCohort, PoissonCohort

_TRUSTED = (
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


@dataclass(frozen=True)
class GaussianCentralMechanism(EpsilonMechanism):
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
        noise_origin=NoiseOrigin(
            registry_model="Federated",
            registry_details=(
                "Data stay with the clients. The server is trusted with every update, and adds the "
                "noise."
            ),
            statement="The server adds the noise, and is trusted with every update.",
            noised="the noised sums of a round",
        ),
        participation_is_visible=False,
        unbounded=None,
        unbounded_release=None,
    )

    privacy: GaussianCentral

    @property
    def guarantee_kind(self) -> GuaranteeKind:
        """Always formal."""
        return "formal"

    @property
    def uncovered_model(self) -> str | None:
        """None: the models of all rounds are what it speaks of."""
        return None

    @property
    def cost_kind(self) -> CostKind:
        """An epsilon with a delta."""
        return "epsilon"

    @property
    def no_group_costs(self) -> str | None:
        """Ledger and report do not tell who took part."""
        return "who takes part in a round is secret, so everybody is charged for all of them"

    @property
    def epsilon_budget(self) -> float | None:
        """No model exceeds it: the run ends before the round that would."""
        return self.privacy.epsilon_budget

    @property
    def delta(self) -> float:
        """As the spec sets it."""
        return self.privacy.delta

    @property
    def adjacency(self) -> Adjacency:
        """Depends on how the cohort is drawn."""
        return self._round()[1]

    def noise_multiplier(self) -> float | str:
        """The noise multiplier of the sum; with an adaptive clip, of the sum and the count
        together."""
        return float(self.privacy.noise_multiplier)

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sequence[int] = ()
    ) -> MechanismParameters:
        """The event of a round; without a clip where the clip is adaptive."""
        moves = self.privacy.adaptive_clip is not None
        return self.planned_inputs(
            plan,
            n=n,
            noise_multiplier=float(self.privacy.noise_multiplier),
            clip=None if moves else self.privacy.initial_clip,
        )

    def spending_plan(
        self,
        *,
        training_clients: int,
        client_names: Sequence[str] = (),
        records: RecordUse | None = None,
    ) -> SpendingPlan | None:
        """One subject, the population, charged for every round against an observer of the
        models."""
        event, adjacency = self._round(training_clients)
        return self._plan(event, adjacency)

    def project_cost(
        self,
        *,
        n: int,
        training_clients: int,
        plan: SpendingPlan | None = None,
        layers: Sequence[int] = (),
    ) -> Projection:
        """The epsilon of all rounds that the budget allows."""
        event, adjacency = self._round(training_clients)
        return self.project_one_event(
            plan or self._plan(event, adjacency),
            noise_multiplier=float(self.privacy.noise_multiplier),
        )

    def sentences(self) -> list[str]:
        """Against an observer of the models; the server is trusted."""
        privacy = self.privacy
        neighbours, reach = self._neighbours()
        clip, noise = self._clip_and_noise()
        found = [
            "Formal. The models of all rounds together satisfy (epsilon, delta)-differential "
            f"privacy, delta = {privacy.delta:g}, between federations that differ by {neighbours}, "
            "against everyone who sees the models but neither the updates nor who took part.",
            "The server is trusted: it sees every update before the noise, and who sent it. "
            "Nothing here protects a client against the server.",
            f"Updates are shortened to {clip}; {reach}. The sum of a round gets Gaussian noise of "
            f"{noise} clips, for every round whoever came, and is divided by a constant. Which "
            "clients train and how many they are is taken as known to everybody.",
        ]
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
        return [_TRUSTED] + [_MOVING_CLIP] * moving + [LOOSE_FIXED_SIZE] * fixed

    def _round(self, training_clients: int = 1) -> tuple[Event, Adjacency]:
        """One round, and the adjacency under which it is accounted for."""
        cohort, noised = self.spec.training.cohort, Gaussian(self.privacy.noise_multiplier)
        match cohort:
            case FixedCohort():
                drawn = min(cohort.clients, training_clients)
                return FixedSizeSampled(training_clients, drawn, noised), "replace-one"
            case PoissonCohort():
                return PoissonSampled(cohort.rate, noised), "add-or-remove-one"
            case _:
                assert_never(cohort)

    def _plan(self, event: Event, adjacency: Adjacency) -> SpendingPlan:
        return plan_of_one_event(
            event,
            subject_kind=self.facts.subject_kind,
            subjects=(EVERYONE,),
            observer="final_model",
            adjacency=adjacency,
            delta=self.privacy.delta,
            accountant=self.privacy.accountant,
            steps=self.spec.training.rounds,
        )

    def _neighbours(self) -> tuple[str, str]:
        """How neighbouring federations differ, and how far that moves a sum."""
        match self.adjacency:
            case "replace-one":
                return (
                    "the whole data of one client that trains (adjacency replace-one)",
                    "replacing a client moves the sum by up to two clips, and the accountant "
                    "counts that",
                )
            case "add-or-remove-one":
                return (
                    "whether one of the clients that train contributes or sends nothing (adjacency "
                    "add-or-remove-one in the zero-out sense: who trains, how many they are and "
                    "the denominator stay as they are)",
                    "a client that sends nothing moves the sum by at most one clip",
                )

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
