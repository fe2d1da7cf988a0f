"""The mechanism `gaussian-local`: each client adds Gaussian noise to its own clipped update.

Two updates of one client lie within two clips; every upload is the Gaussian mechanism by itself,
and a client's uploads are composed. The server sees who sends, so no sampling amplifies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedaudit.privacy.accounting.mechanism_parameters import (
    CostKind,
    GuaranteeKind,
    MechanismParameters,
)
from fedaudit.privacy.accounting.privacy_events import Adjacency, Gaussian
from fedaudit.privacy.guarantees.guarantee import number
from fedaudit.privacy.mechanisms.base import MechanismFacts, NoiseOrigin
from fedaudit.privacy.mechanisms.with_epsilon import EpsilonMechanism
from fedaudit.privacy.planning.cost_projection import Projection, fixed_cohort, participations
from fedaudit.privacy.planning.plan import SpendingPlan, plan_of_one_event
from fedaudit.privacy.records.record_use import RecordUse
from fedaudit.spec.privacy import GaussianLocal


@dataclass(frozen=True)
class GaussianLocalMechanism(EpsilonMechanism):
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
        noise_origin=NoiseOrigin(
            registry_model="Local",
            registry_details="Each client adds noise to its update before it leaves.",
            statement="Each client adds noise before anything leaves it.",
            noised="an upload",
        ),
        participation_is_visible=True,
        unbounded=None,
        unbounded_release=None,
    )

    privacy: GaussianLocal

    @property
    def guarantee_kind(self) -> GuaranteeKind:
        """Always formal."""
        return "formal"

    @property
    def uncovered_model(self) -> str | None:
        """None: the model follows from the uploads, which have their noise."""
        return None

    @property
    def cost_kind(self) -> CostKind:
        """An epsilon with a delta."""
        return "epsilon"

    @property
    def no_group_costs(self) -> str | None:
        """None: each client has a cost of its own."""
        return None

    @property
    def epsilon_budget(self) -> float | None:
        """No client exceeds it: a client takes no further part before it would."""
        return self.privacy.epsilon_budget

    @property
    def delta(self) -> float:
        """As the spec sets it."""
        return self.privacy.delta

    @property
    def adjacency(self) -> Adjacency:
        """Any two datasets that a client may hold are neighbours."""
        return "replace-one"

    def noise_multiplier(self) -> float | str:
        """The noise multiplier of one upload."""
        return float(self.privacy.noise_multiplier)

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sequence[int] = ()
    ) -> MechanismParameters:
        """The event of an upload, and the clip."""
        return self.planned_inputs(
            plan,
            n=n,
            noise_multiplier=float(self.privacy.noise_multiplier),
            clip=self.privacy.clip,
        )

    def spending_plan(
        self,
        *,
        training_clients: int,
        client_names: Sequence[str] = (),
        records: RecordUse | None = None,
    ) -> SpendingPlan | None:
        """Every client, for each of its own uploads, against the server."""
        return self._plan(client_names)

    def project_cost(
        self,
        *,
        n: int,
        training_clients: int,
        plan: SpendingPlan | None = None,
        layers: Sequence[int] = (),
    ) -> Projection:
        """The epsilon of a client drawn in every round; `expected` is the mean over clients."""
        found = plan or self._plan(())
        projection = self.project_one_event(
            found, noise_multiplier=float(self.privacy.noise_multiplier)
        )
        rounds, ends = self.spec.training.rounds, projection.budget_ends_in_round
        most = rounds if ends is None else ends - 1
        cohort = fixed_cohort(self.spec, training_clients)
        shares = participations(rounds, cohort, training_clients, most=most)
        [entry], line = projection.epsilon, found.line("server")
        entry["expected"] = float(line.epsilons[: most + 1] @ shares)
        return projection

    def sentences(self) -> list[str]:
        """Against the server and every later observer."""
        privacy = self.privacy
        return [
            "Formal. All that a client sends satisfies (epsilon, delta)-differential privacy, "
            f"delta = {privacy.delta:g}, between any two datasets that the client may hold "
            "(adjacency replace-one), against the server and everyone after it.",
            f"A client shortens its update to a clip of {number(privacy.clip)}, so that two "
            "updates lie within two clips, and adds Gaussian noise of "
            f"{number(privacy.noise_multiplier)} clips before anything leaves it. Its uploads are "
            "composed; being drawn at random gains it nothing, since the server sees who sends.",
            "Which clients took part, were refused over their budget, or had an update withheld "
            "for not being finite is visible to the server and not covered.",
        ]

    def limits(self) -> list[str]:
        """Only the limits of every epsilon."""
        return []

    def _plan(self, client_names: Sequence[str]) -> SpendingPlan:
        return plan_of_one_event(
            Gaussian(self.privacy.noise_multiplier),
            subject_kind=self.facts.subject_kind,
            subjects=tuple(client_names),
            observer="server",
            adjacency=self.adjacency,
            delta=self.privacy.delta,
            accountant=self.privacy.accountant,
            steps=self.spec.training.rounds,
        )
