"""What mechanisms whose cost is an epsilon with a delta have in common.

All of it holds for a number of rounds fixed before the run. Where validation losses end a run
early, its end follows from the models; the proven figure is then the epsilon of all planned rounds,
and the accountant's figure for the rounds that were run is lower (an odometer's: Rogers et al.
2016).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.privacy.accounting.mechanism_parameters import MechanismParameters
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.guarantees.guarantee import SIMULATED, Guarantee, at_most
from fedaudit.privacy.guarantees.warm_start import of_this_run_only
from fedaudit.privacy.mechanisms.base import PrivacyMechanism, PrivacyUnit
from fedaudit.privacy.planning.cost_projection import (
    LEAKAGE_FIGURES,
    NO_LEAKAGE,
    Projection,
    epsilon_entry,
)
from fedaudit.privacy.planning.plan import ObserverEpsilon, SpendingPlan

_HELD_OUT: dict[PrivacyUnit, str] = {
    "client": (
        "The clients held out for validation are not covered: their losses choose the best round "
        "and when to stop, and their fairness counts are used without noise."
    ),
    "record": (
        "The rows held out for validation are not covered: their losses choose the best round and "
        "when to stop, and their fairness counts are used without noise."
    ),
}
_HELD_OUT_WITH_NOISE = (
    "Those held out for validation are not covered by this epsilon but by that of fairness_privacy."
)


@dataclass(frozen=True)
class EpsilonMechanism(PrivacyMechanism):
    """A mechanism whose cost is an epsilon with a delta."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """The delta at which epsilon is reported."""

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """How the neighbouring datasets of the guarantee differ."""

    @abstractmethod
    def sentences(self) -> list[str]:
        """The guarantee of this mechanism, without the sentences that all of them share."""

    def guarantee(
        self,
        *,
        n: int,
        epsilons: Sequence[ObserverEpsilon] = (),
        planned: Sequence[ObserverEpsilon] = (),
        layers: Sequence[int] = (),
    ) -> Guarantee:
        """The mechanism's sentences, what was spent, and what is not covered."""
        sentences = [*self.sentences(), *_figures(epsilons)]
        # Without patience a loss can still end the run, by not being finite.
        if self.spec.training.stopping.patience is not None or planned:
            sentences.append(_early_end(planned))
        if self.spec.fairness.noise is None:
            sentences.append(_HELD_OUT[self.spec.federation.validation_unit])
        else:
            sentences.append(_HELD_OUT_WITH_NOISE)
        if not self.noise_is_secret:
            sentences.append(SIMULATED)
        found = Guarantee(
            kind=self.guarantee_kind,
            label=self.guarantee_kind,
            in_force=self.noise_is_secret,
            conditions={},
            mechanism=self.facts.name,
            unit=self.facts.unit,
            adjacency=self.adjacency,
            delta=self.delta,
            observers=self.facts.observers,
            statement=" ".join(sentences),
        )
        return of_this_run_only(found, self.spec.model.start)

    def participation_cap(self, *, n: int, plan: SpendingPlan | None = None) -> int | None:
        """The charges that the epsilon budget has room for, against every observer."""
        if self.epsilon_budget is None:
            return None
        if plan is None:
            raise ValueError(f"the epsilon budget of {self.facts.name} needs its spending plan")
        return min(plan.steps_within(observer, self.epsilon_budget) for observer in plan.observers)

    def planned_inputs(
        self,
        plan: SpendingPlan | None,
        *,
        n: int,
        noise_multiplier: float | None,
        clip: float | None,
    ) -> MechanismParameters:
        """The parameters that the ledger records of a plan; `noise_multiplier` and `clip` where all
        rounds and clients share them. Raises ValueError without a plan."""
        if plan is None:
            raise ValueError(f"the ledger of {self.facts.name} records its spending plan")
        return MechanismParameters(
            mechanism=self.facts.name,
            n=n,
            noise_multiplier=noise_multiplier,
            radius=None,
            radius_floor=None,
            clip=clip,
            noise=self.spec.privacy.noise,
            guarantee=self.guarantee_kind,
            event=plan.events_json,
            delta=float(plan.delta),
            adjacency=plan.adjacency,
            accountant=plan.accountant,
        )

    def project_one_event(self, plan: SpendingPlan, *, noise_multiplier: float) -> Projection:
        """The projection of a plan with one curve for all subjects, as far as the epsilon budget
        reaches."""
        rounds, [observer] = self.spec.training.rounds, plan.observers
        reasons = dict.fromkeys(LEAKAGE_FIGURES, NO_LEAKAGE)
        allowed = self.compositions_within_budget(plan, observer)
        most, ends = rounds, None
        if allowed is None:
            reasons["budget_ends_in_round"] = "privacy.epsilon_budget is not set"
        elif allowed < rounds:
            most, ends = allowed, allowed + 1
        else:
            reasons["budget_ends_in_round"] = (
                f"all {rounds} rounds stay within privacy.epsilon_budget"
            )
        entry = epsilon_entry(
            observer,
            delta=plan.delta,
            adjacency=plan.adjacency,
            value=float(plan.line(observer).epsilons[most]),
        )
        return Projection(
            None,
            None,
            epsilon=[entry],
            budget_ends_in_round=ends,
            noise_multiplier=noise_multiplier,
            reasons=reasons,
        )


def _figures(epsilons: Sequence[ObserverEpsilon]) -> list[str]:
    if not epsilons:
        return []
    return [f"Spent, by whoever spent most: epsilon = {_stated(epsilons)}."]


def _early_end(planned: Sequence[ObserverEpsilon]) -> str:
    """The proven figure where losses may end the run."""
    figure = f": epsilon = {_stated(planned)}" if planned else ""
    return (
        "Validation losses may end training early, and they follow from the models. What is proven "
        f"is then the epsilon of all rounds that were planned{figure}. The epsilon of the rounds "
        "that were played is the accountant's count of them and takes their number as given."
    )


def _stated(epsilons: Sequence[ObserverEpsilon]) -> str:
    return ", ".join(
        f"{at_most(one.value)} against {observer_words(one.observer)}" for one in epsilons
    )
