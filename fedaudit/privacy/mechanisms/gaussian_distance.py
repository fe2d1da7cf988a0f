"""The mechanism `gaussian-distance`: a server's noise, divided by how far apart clients are.

Sainz-Pardo Diaz, Athanasiou, Jung, Palamidessi and Lopez Garcia, "Metric-privacy-inspired noise
calibration in federated learning", Knowledge-Based Systems 343 (2026), section 6, who do not
enforce it as a formal guarantee. None follows: the distance is one of secret models, so that the
scale of the noise reveals something of them, and it grows with the client that differs most, whose
presence then lessens the noise that would hide it. So nothing is counted, as without a mechanism.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from fedaudit.number_text import number
from fedaudit.privacy.accounting.privacy_events import (
    GuaranteeKind,
    MechanismParameters,
    unbounded_inputs,
)
from fedaudit.privacy.guarantees.guarantee import (
    SIMULATED,
    Guarantee,
    of_the_run,
    scored_clients_train,
)
from fedaudit.privacy.mechanisms.base import Epsilons, MechanismFacts, PrivacyMechanism, Sizes
from fedaudit.privacy.mechanisms.gaussian import BY_SERVER, TRUSTED
from fedaudit.privacy.planning.cost_projection import Projection, unbounded_projection
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.spec.privacy import GaussianDistance

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
        participation_is_visible=False,
        unbounded=_WHY,
        unbounded_release="in a sum with noise that no theorem bounds",
    )

    privacy: GaussianDistance

    @property
    def guarantee_kind(self) -> GuaranteeKind:
        """Never formal."""
        return "heuristic"

    @property
    def uncovered_model(self) -> str | None:
        """Every model is."""
        return f"{_WHY}; use the mechanism gaussian-central"

    @property
    def no_client_costs(self) -> str | None:
        """No client has a cost."""
        return _WHY

    def noise_multiplier(self) -> float | str:
        """Of the sum at a distance of 1."""
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
        found = unbounded_projection(_WHY)
        reasons = {name: why for name, why in found.reasons.items() if name != "noise_multiplier"}
        return replace(found, noise_multiplier=self.privacy.noise_multiplier, reasons=reasons)

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
        if not self.noise_is_secret:
            sentences.append(SIMULATED)
        found = Guarantee(
            kind=self.guarantee_kind,
            label="heuristic",
            in_force=self.noise_is_secret,
            conditions={},
            mechanism=self.facts.name,
            unit=self.facts.unit,
            adjacency=None,
            delta=None,
            observers=(),
            statement=" ".join(sentences),
            reasons=dict.fromkeys(("adjacency", "delta"), _WHY),
        )
        return of_the_run(found, self.spec)

    def limits(self) -> list[str]:
        """That the server is trusted."""
        return [TRUSTED]
