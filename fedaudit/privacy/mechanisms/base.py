"""What every privacy mechanism answers, apart from how it draws its noise.

One class a mechanism, each in a file of its own, found by the spec's literal
(`fedaudit.privacy.mechanisms.registry`). What holds of every run of a mechanism is in its
`MechanismFacts`, for those who have nothing but its name, such as a stored report or a form. What
depends on the parameters is asked of an instance, which is bound to a spec.

No torch: the service answers these questions without it. The half with torch is
`fedaudit.training.mechanisms`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedaudit.privacy.accounting.mechanism_parameters import (
    CostKind,
    GuaranteeKind,
    MechanismParameters,
)
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.guarantees.guarantee import Guarantee
from fedaudit.privacy.planning.cost_projection import Projection
from fedaudit.privacy.planning.plan import ObserverEpsilon, SpendingPlan, SubjectKind
from fedaudit.privacy.records.record_use import RecordUse
from fedaudit.spec.experiment import ExperimentSpec

PrivacyUnit = Literal["client", "record"]
"""Whose data a guarantee protects."""
AppliedBy = Literal["clients", "server", "local-steps"]
"""`clients` protect their own uploads, or send them as they are; a trusted `server` protects the
sum of what it receives; `local-steps` are private record by record."""


@dataclass(frozen=True, kw_only=True)
class NoiseOrigin:
    """Who adds the noise, in the words of the report formats."""

    registry_model: Literal["Local", "Federated"]
    """The deployment model, by the schema of the Differential Privacy Deployments Registry."""
    registry_details: str
    statement: str
    """One sentence on who adds noise and who is trusted."""


@dataclass(frozen=True, kw_only=True)
class MechanismFacts:
    """What holds of every run of a mechanism."""

    name: str
    """The spec's literal."""
    label: str
    """The mechanism in few words, for lists."""
    description: str
    """What it does, for somebody who chooses one."""
    applied_by: AppliedBy
    """Who applies it, which decides how a run is computed and who is charged."""
    unit: PrivacyUnit
    subject_kind: SubjectKind
    """What the subjects of its ledger are."""
    observers: tuple[Observer, ...]
    """Against whom its ledger counts, in the order of its entries."""
    cost_kinds: tuple[CostKind, ...]
    """How its cost may be counted; which of them holds may depend on the spec."""
    noise_origin: NoiseOrigin
    participation_is_visible: bool
    """Whether the server sees which clients took part, uncovered by the guarantee."""
    no_group_costs: str | None
    """Why there are no costs of groups of clients; None where there are."""
    unbounded: str | None
    """Why nothing bounds what a release reveals; None where noise always does."""


@dataclass(frozen=True)
class PrivacyMechanism(ABC):
    """A mechanism bound to a spec. Subclasses hold the mechanism's own part of it as `privacy`."""

    facts: ClassVar[MechanismFacts]

    spec: ExperimentSpec

    @property
    @abstractmethod
    def guarantee_kind(self) -> GuaranteeKind:
        """How far the figures are proven."""

    @property
    @abstractmethod
    def cost_kind(self) -> CostKind:
        """How the cost is counted."""

    @property
    @abstractmethod
    def epsilon_budget(self) -> float | None:
        """The epsilon that no subject may pass; None where none was set, or there is no epsilon."""

    @abstractmethod
    def noise_multiplier(self) -> float | str:
        """The noise multiplier, from public numbers alone, or why there is none to publish.

        Raises InvalidInputError where no noise keeps the spec's budgets.
        """

    @abstractmethod
    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sequence[int] = ()
    ) -> MechanismParameters:
        """What the ledger records, for a model of `n` parameters.

        `plan`: the spending plan, of a cost that is an epsilon; `layers`: parameters of each layer,
        for noise layer by layer. Leaving one out where it is needed is a ValueError, and so are
        layers that do not add up to `n`.
        """

    @abstractmethod
    def spending_plan(
        self,
        *,
        training_clients: int,
        client_names: Sequence[str] = (),
        records: RecordUse | None = None,
    ) -> SpendingPlan | None:
        """What each composition costs; None where the cost is no epsilon.

        `client_names`: all clients of the federation; `records`: how its records are used, where
        they have budgets of their own. Raises ValueError where these are needed and missing, and
        InvalidInputError where no record can be used.
        """

    @abstractmethod
    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None
    ) -> Projection:
        """The cost if every round runs; `plan` where the data are at hand."""

    @abstractmethod
    def guarantee(
        self,
        *,
        n: int,
        epsilons: Sequence[ObserverEpsilon] = (),
        planned: Sequence[ObserverEpsilon] = (),
        layers: Sequence[int] = (),
    ) -> Guarantee:
        """The guarantee in plain language.

        `epsilons`: what a run spent; `planned`: what all its rounds would have spent, where it
        ended early by what its models showed; `layers` as in `inputs`.
        """

    @abstractmethod
    def limits(self) -> list[str]:
        """What a report of this mechanism does not show, beyond what holds of its kind of cost."""

    def compositions_within_budget(self, plan: SpendingPlan, observer: Observer) -> int | None:
        """The most compositions that the epsilon budget allows anyone; None without a budget."""
        if self.epsilon_budget is None:
            return None
        return plan.steps_within(observer, self.epsilon_budget)
