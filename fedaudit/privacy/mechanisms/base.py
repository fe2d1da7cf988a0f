"""The interface of every privacy mechanism, apart from how it draws its noise.

There is one class per mechanism, in a separate file but for `none`, found by the spec's literal
(`fedaudit.privacy.mechanisms.registry`). Facts that are true of every run of a mechanism are in its
`MechanismFacts`, for callers that have only its name, such as a stored report or a form. Anything
that depends on the parameters is answered by an instance, which is bound to a spec.

No torch: the service uses this module without it. The half with torch is
`fedaudit.training.mechanisms`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, assert_never

from fedaudit.number_text import at_most
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    CostKind,
    GuaranteeKind,
    MechanismParameters,
    Observer,
    observer_words,
    unbounded_inputs,
)
from fedaudit.privacy.guarantees.guarantee import (
    SIMULATED,
    UPDATES_AS_THEY_WERE,
    Guarantee,
    GuaranteeLabel,
    no_guarantee,
    scored_clients_train,
)
from fedaudit.privacy.planning.cost_projection import (
    LEAKAGE_FIGURES,
    NO_LEAKAGE,
    NO_MECHANISM,
    Projection,
    TargetedFigure,
    unbounded_projection,
)
from fedaudit.privacy.planning.plan import (
    ObserverEpsilon,
    PlanAccountant,
    SpendingPlan,
    SubjectKind,
)
from fedaudit.privacy.records.record_plans import RecordPlan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.models import DEFAULT_SERVER, ArtifactStart
from fedaudit.spec.privacy import GaussianCentral, GaussianLocal, NoMechanism, RecordPersonalised
from fedaudit.spec.training import Ditto, FineTuning, Hypotheses, LocalOnly, QFfl

PrivacyUnit = Literal["client", "record"]
"""Whose data a guarantee protects."""
AppliedBy = Literal["clients", "server", "local-steps"]
"""Where the mechanism is applied: `clients` protect their own uploads, or send them unchanged; a
trusted `server` protects the sum of what it receives; `local-steps` are private record by
record."""

NoiseLaw = Literal["gaussian", "laplace", "none"]
"""The law of the noise that is drawn. What a report says of the numbers, and what `replay` tests
them by, is chosen by it and by nothing else: `none` draws no noise in any run."""

Sizes = Sequence[int]
"""The parameters of each layer, for a mechanism with noise layer by layer."""
Epsilons = Sequence[ObserverEpsilon]

_HELD_OUT = (
    "The {units} held out for validation are not covered: their losses choose the best round and "
    "when to stop, and their fairness counts are used without noise."
)
_FIGURES = ("epsilon_max", "leakage_max", "leakage_median", "log_ratio_max")
_ADDED_ONLY = (
    "it counts what this run adds to the artifact that it started from, whose own cost is not known"
)
_UNITS: dict[PrivacyUnit, str] = {"client": "clients", "record": "rows"}
_EARLY_END = (
    "Validation losses may end training early, and they follow from the models. What is proven is "
    "then the epsilon of all rounds that were planned{figure}. The epsilon of the rounds that were "
    "played is the accountant's count of them and takes their number as given."
)
_HELD_OUT_WITH_NOISE = (
    "Those held out for validation are not covered by this epsilon but by that of fairness_privacy."
)


@dataclass(frozen=True, kw_only=True)
class NoiseOrigin:
    """Which party adds the noise, in the words of the report formats."""

    registry_model: Literal["Local", "Federated"]
    """The deployment model, by the schema of the Differential Privacy Deployments Registry."""
    registry_details: str
    statement: str
    """One sentence on which party adds noise and which is trusted."""
    noised: str
    """What has noise, as a report calls it."""


EACH_CLIENT = NoiseOrigin(
    registry_model="Local",
    registry_details="Each client adds noise to its update before it leaves.",
    statement="Each client adds noise before anything leaves it.",
    noised="an upload",
)


@dataclass(frozen=True, kw_only=True)
class MechanismFacts:
    """Facts that are true of every run of a mechanism."""

    name: str
    """The spec's literal."""
    label: str
    """A short name, for lists."""
    description: str
    """A description, for users choosing a mechanism."""
    applied_by: AppliedBy
    """Where it is applied, which decides how a run is computed and which subjects are charged."""
    noise_law: NoiseLaw
    unit: PrivacyUnit
    subject_kind: SubjectKind
    """The kind of subjects of its ledger."""
    observers: tuple[Observer, ...]
    """The observers against whom its ledger counts, in the order of its entries."""
    cost_kinds: tuple[CostKind, ...]
    """How its cost may be counted; which way applies may depend on the spec."""
    noise_origin: NoiseOrigin
    unbounded: str | None = None
    """Why nothing bounds what a release reveals; None where noise always bounds it."""
    unbounded_release: str | None = None
    """How uploads then leave a client, as the end of a sentence; None where `unbounded` is."""


@dataclass(frozen=True)
class PrivacyMechanism(ABC):
    """A mechanism bound to a spec. Subclasses hold their own part of it as `privacy`."""

    facts: ClassVar[MechanismFacts]

    spec: ExperimentSpec

    @property
    @abstractmethod
    def guarantee_kind(self) -> GuaranteeKind:
        """How far the figures are proven."""

    @property
    @abstractmethod
    def uncovered_model(self) -> str | None:
        """Why no theorem covers the trained model against anyone who sees it, and what to change in
        the spec; None where one does."""

    @property
    def cost_kind(self) -> CostKind:
        """How the cost is counted: in the one way of its facts, unless it has several."""
        [kind] = self.facts.cost_kinds
        return kind

    @property
    def no_client_costs(self) -> str | None:
        """Why clients do not have their own costs; None where they have."""
        return None

    @property
    def epsilon_budget(self) -> float | None:
        """The epsilon that no subject may exceed; None where none was set, or there is no
        epsilon."""
        return None

    @property
    def noise_is_secret(self) -> bool:
        """Whether noise comes from the system's entropy, so that no one can draw it again."""
        return self.spec.privacy.noise == "release"

    @abstractmethod
    def noise_multiplier(self) -> float | str:
        """The noise multiplier, from public numbers alone, or the reason why none can be published.

        Raises InvalidInputError where no amount of noise keeps the spec's budgets.
        """

    @abstractmethod
    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> MechanismParameters:
        """The parameters that the ledger records, for a model of `n` parameters.

        `plan`: the spending plan, for a cost that is an epsilon; `layers`: parameters of each
        layer, for noise layer by layer. Raises ValueError where one of them is needed and missing,
        and for layers that do not add up to `n`.
        """

    def spending_plan(
        self, *, training_clients: int, names: Sequence[str] = (), records: RecordPlan | None = None
    ) -> SpendingPlan | None:
        """What each composition costs; None where the cost is not an epsilon.

        `names`: of all clients of the federation; `records`: how its records are used, where
        they have their own budgets. Raises ValueError where these are needed and missing, and
        InvalidInputError where no record can be used.
        """
        return None

    def participation_cap(self, *, n: int, plan: SpendingPlan | None = None) -> int | None:
        """How often a subject of the ledger may be charged before the run's budget is spent; None
        without a budget.

        `n`: parameters of the model; `plan`: that of the run. Raises ValueError where the budget is
        an epsilon and there is no plan.
        """
        return None

    @abstractmethod
    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """The cost if every round runs; `plan` if the data are available.

        `layers`: the parameters of each layer, for a mechanism with noise layer by layer, which
        raises ValueError without them.
        """

    def targeted_figure(self, *, n: int, training_clients: int) -> TargetedFigure | None:
        """The figure that a target bounds, of all planned rounds and a client drawn in every one:
        by the noise multiplier, whatever the spec's is and whatever its budgets refuse.

        None where the noise is not chosen by a multiplier.
        """
        return None

    @abstractmethod
    def guarantee(
        self, *, n: int, epsilons: Epsilons = (), planned: Epsilons = (), layers: Sizes = ()
    ) -> Guarantee:
        """The guarantee in plain language.

        `epsilons`: what a run spent; `planned`: what all its rounds would have spent, where its
        models ended it early; `layers` as in `inputs`.
        """

    def stated(
        self,
        sentences: Sequence[str],
        *,
        adjacency: str | None,
        delta: float | None = None,
        why_not: str = "",
        label: GuaranteeLabel | None = None,
        conditions: Mapping[str, str] | None = None,
    ) -> Guarantee:
        """The guarantee in these sentences, with what follows from the noise, the server's
        optimiser and the start.

        Where a run started from an artifact, it is said of what the run adds. Its figures then
        bound nothing of the model as a whole, so that each gets a condition, which a gate has to
        allow. `why_not`: why there is no delta, or no adjacency either; then no one is protected.
        """
        start, server = self.spec.model.start, self.spec.training.server
        sentences, conditions = [*sentences], dict(conditions or {})
        if not self.noise_is_secret:
            sentences.append(SIMULATED)
        if server != DEFAULT_SERVER:
            sentences.append(
                f"The server moves the model by {server.words}, which goes by what was released "
                "alone and costs nothing more."
            )
        if isinstance(start, ArtifactStart):
            conditions = {
                name: "; ".join(filter(None, (conditions.get(name), _ADDED_ONLY)))
                for name in _FIGURES
            }
            sentences.append(
                f"All of this covers what this run adds to the artifact {start.artifact} that it "
                "started from, and takes that as given: nothing is said of whom it was trained on, "
                "nor with what protection."
            )
        known = {"adjacency": adjacency, "delta": delta}
        return Guarantee(
            kind=self.guarantee_kind,
            label=label or self.guarantee_kind,
            in_force=self.noise_is_secret,
            conditions=conditions,
            mechanism=self.facts.name,
            unit=self.facts.unit,
            adjacency=adjacency,
            delta=delta,
            observers=() if adjacency is None else self.facts.observers,
            statement=" ".join(sentences),
            reasons={name: why_not for name, value in known.items() if value is None},
        )

    def limits(self) -> list[str]:
        """What a report of this mechanism does not show, beyond the limits of its kind of cost."""
        return []

    def noised_numbers(self, n: int) -> int:
        """How many numbers `noise_origin.noised` has, of a model of `n` parameters."""
        return n

    def stack_traits(self) -> tuple[object, ...]:
        """What runs of this mechanism must have in common to be trained side by side."""
        return ()

    def compositions_within_budget(self, plan: SpendingPlan, observer: Observer) -> int | None:
        """The largest number of compositions that the epsilon budget allows any subject; None
        without one."""
        if self.epsilon_budget is None:
            return None
        return plan.steps_within(observer, self.epsilon_budget)


@dataclass(frozen=True)
class EpsilonMechanism(PrivacyMechanism):
    """A mechanism whose cost is an epsilon with a delta.

    All of it holds for a number of rounds fixed before the run. Where validation losses end a run
    early, its end follows from the models; the proven figure is then the epsilon of all planned
    rounds, and the accountant's figure for the rounds that were run is lower (an odometer's: Rogers
    et al. 2016).
    """

    privacy: GaussianCentral | GaussianLocal | RecordPersonalised

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """How the neighbouring datasets of the guarantee differ."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """The guarantee of this mechanism, without the sentences that all of them share."""

    def guarantee(
        self, *, n: int, epsilons: Epsilons = (), planned: Epsilons = (), layers: Sizes = ()
    ) -> Guarantee:
        """The mechanism's sentences, what was spent, and what is not covered."""
        sentences = self.sentences()
        if epsilons:
            sentences.append(f"Spent, by the one who spent most: epsilon = {_stated(epsilons)}.")
        # Without patience a loss can still end the run, by not being finite.
        if self.spec.training.stopping.patience is not None or planned:
            figure = f": epsilon = {_stated(planned)}" if planned else ""
            sentences.append(_EARLY_END.format(figure=figure))
        if (own := scored_clients_train(self.spec)) is not None:
            sentences.append(own)
        elif self.spec.fairness.noise is None:
            units = _UNITS[self.spec.federation.validation_unit]
            sentences.append(_HELD_OUT.format(units=units))
        else:
            sentences.append(_HELD_OUT_WITH_NOISE)
        return self.stated(sentences, adjacency=self.adjacency, delta=self.privacy.delta)

    def participation_cap(self, *, n: int, plan: SpendingPlan | None = None) -> int | None:
        """The charges that the epsilon budget has room for, against every observer."""
        if self.epsilon_budget is None:
            return None
        if plan is None:
            raise ValueError(f"the epsilon budget of {self.facts.name} needs its spending plan")
        return min(plan.steps_within(observer, self.epsilon_budget) for observer in plan.observers)

    def projection(
        self, epsilons: Mapping[Observer, float] | str, *, ends: int | str
    ) -> Projection:
        """A cost of so much against each observer; `ends`: the first round that a budget refuses.
        A text says why there is none."""
        terms = {"delta": self.privacy.delta, "adjacency": self.adjacency}
        return Projection.of(
            **dict.fromkeys(LEAKAGE_FIGURES, NO_LEAKAGE),
            epsilon=epsilons
            if isinstance(epsilons, str)
            else [{"observer": one, **terms, "value": value} for one, value in epsilons.items()],
            budget_ends_in_round=ends,
            noise_multiplier=self.noise_multiplier(),
        )

    @property
    @abstractmethod
    def accountant(self) -> PlanAccountant:
        """What computes the epsilons."""

    @property
    @abstractmethod
    def shared_noise(self) -> tuple[float | None, float | None]:
        """The noise multiplier, and the clip, of all rounds and clients; None where they do not
        share one."""

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> MechanismParameters:
        """The parameters, with the events of the plan."""
        if plan is None:
            raise ValueError(f"the ledger of {self.facts.name} records its spending plan")
        return replace(self.public_inputs(n=n), event=plan.events_json)

    def public_inputs(self, *, n: int) -> MechanismParameters:
        """The parameters that the ledger records besides the events."""
        noise_multiplier, clip = self.shared_noise
        return replace(
            unbounded_inputs(self.facts.name, n=n, noise=self.spec.privacy.noise),
            noise_multiplier=noise_multiplier,
            clip=clip,
            guarantee=self.guarantee_kind,
            delta=float(self.privacy.delta),
            adjacency=self.adjacency,
            accountant=self.accountant,
        )


def _stated(epsilons: Epsilons) -> str:
    return ", ".join(
        f"{at_most(one.value)} against {observer_words(one.observer)}" for one in epsilons
    )


_STATEMENT = (
    "No mechanism: updates leave the clients as they are. Nothing bounds what the "
    "server, or anyone who sees the model, learns about a client's data."
)
_LOCAL = (
    "No mechanism, and nothing for one to protect: no update leaves a client, and there is no "
    "common model. That is a fact of how training goes, and no guarantee"
)
_LOCAL_STATEMENT = (
    f"{_LOCAL} of what is published: losses, accuracy and fairness counts are of models that "
    "held-out clients made for themselves, and nothing here bounds what these figures disclose of "
    "them."
)
_LOCAL_HELD_OUT_WITH_NOISE = (
    f"{_LOCAL}; what is published of held-out clients is covered by fairness_privacy."
)
_WEIGHTED_STATEMENT = (
    "No mechanism: updates leave the clients weighted by their losses, with a number from which "
    "the server can work out the loss. Nothing bounds what the server, or anyone who sees the "
    "model, learns about a client's data."
)
_NO_UPDATES = (
    "There is no privacy mechanism, and training sent no update that one could protect; the ledger "
    "has no entry of it."
)
_NOTHING_SENT = "training sends nothing from any client, so there is no release to count"


@dataclass(frozen=True)
class NoPrivacyMechanism(PrivacyMechanism):
    """Nothing is protected, and nothing is counted."""

    facts: ClassVar[MechanismFacts] = MechanismFacts(
        name="none",
        label="no noise",
        description="Updates leave as they are: nothing is protected.",
        applied_by="clients",
        noise_law="none",
        unit="client",
        subject_kind="client",
        observers=("server",),
        cost_kinds=("unbounded",),
        noise_origin=NoiseOrigin(
            registry_model="Federated",
            registry_details="Data stay with the clients. No noise is added.",
            statement="No noise is added.",
            noised="nothing",
        ),
        unbounded=NO_MECHANISM,
        unbounded_release="without noise",
    )

    privacy: NoMechanism

    guarantee_kind: ClassVar[GuaranteeKind] = "none"

    @property
    def uncovered_model(self) -> str | None:
        """There is no noise, or no common model."""
        if not self.spec.training.method.releases:
            return (
                "there is no common model, as each client's own stays with it; choose another "
                "training.method"
            )
        return (
            "there is no privacy mechanism, so nothing bounds what the model discloses; choose one "
            "in privacy.mechanism"
        )

    def noise_multiplier(self) -> float | str:
        return NO_MECHANISM

    def inputs(
        self, *, n: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> MechanismParameters:
        """The name of the mechanism and the number of parameters."""
        return unbounded_inputs(self.facts.name, n=n, noise=self.privacy.noise)

    def project_cost(
        self, *, n: int, training_clients: int, plan: SpendingPlan | None = None, layers: Sizes = ()
    ) -> Projection:
        """No figure, and the reason."""
        sends = self.spec.training.method.releases
        return unbounded_projection(NO_MECHANISM if sends else _NOTHING_SENT)

    def guarantee(
        self, *, n: int, epsilons: Epsilons = (), planned: Epsilons = (), layers: Sizes = ()
    ) -> Guarantee:
        """The statement that there is no guarantee, by what leaves the clients."""
        method = self.spec.training.method
        match method:
            case Hypotheses() | FineTuning() | Ditto():
                statement = _STATEMENT
            case QFfl():
                statement = _WEIGHTED_STATEMENT
            case LocalOnly():
                with_noise = self.spec.fairness.noise is not None
                statement = _LOCAL_HELD_OUT_WITH_NOISE if with_noise else _LOCAL_STATEMENT
            case _:
                assert_never(method)
        return no_guarantee(self.facts.name, unit=self.facts.unit, statement=statement)

    def limits(self) -> list[str]:
        """That updates are unchanged, or that there are none."""
        sends = self.spec.training.method.releases
        return [UPDATES_AS_THEY_WERE] if sends else [_NO_UPDATES]
