"""The mechanism `none`: updates leave the clients unchanged."""

from dataclasses import dataclass
from typing import ClassVar, assert_never

from fedaudit.privacy.accounting.mechanism_parameters import (
    GuaranteeKind,
    MechanismParameters,
    unbounded_inputs,
)
from fedaudit.privacy.guarantees.guarantee import (
    NO_GUARANTEE,
    UPDATES_AS_THEY_WERE,
    Guarantee,
    no_guarantee,
)
from fedaudit.privacy.mechanisms.base import (
    Epsilons,
    MechanismFacts,
    NoiseOrigin,
    PrivacyMechanism,
    Sizes,
)
from fedaudit.privacy.planning.cost_projection import NO_MECHANISM, Projection, unbounded_projection
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.spec.privacy import NoMechanism
from fedaudit.spec.training import Ditto, FineTuning, Hypotheses, LocalOnly, QFfl

_STATEMENT = (
    "No mechanism: updates leave the clients as they are. Nothing bounds what the "
    "server, or whoever sees the model, learns about a client's data."
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
    "the server can work out the loss. Nothing bounds what the server, or whoever sees the model, "
    "learns about a client's data."
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
            registry_details="Data stay with the clients. Nobody adds noise.",
            statement="Nobody adds noise.",
            noised="nothing",
        ),
        participation_is_visible=False,
        unbounded=NO_MECHANISM,
        unbounded_release="without noise",
    )

    privacy: NoMechanism

    @property
    def guarantee_kind(self) -> GuaranteeKind:
        """No guarantee."""
        return "none"

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
        """There is no noise."""
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
        """The statement that there is no guarantee."""
        return no_guarantee(
            self.facts.name, unit=self.facts.unit, statement=self._statement, reason=NO_GUARANTEE
        )

    def limits(self) -> list[str]:
        """That updates are unchanged, or that there are none."""
        sends = self.spec.training.method.releases
        return [UPDATES_AS_THEY_WERE] if sends else [_NO_UPDATES]

    @property
    def _statement(self) -> str:
        """What leaves the clients, by method."""
        method = self.spec.training.method
        match method:
            case Hypotheses() | FineTuning() | Ditto():
                return _STATEMENT
            case QFfl():
                return _WEIGHTED_STATEMENT
            case LocalOnly():
                with_noise = self.spec.fairness.noise is not None
                return _LOCAL_HELD_OUT_WITH_NOISE if with_noise else _LOCAL_STATEMENT
            case _:
                assert_never(method)
