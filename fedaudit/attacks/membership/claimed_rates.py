"""What the claim of a run allows anyone who guesses membership, whatever the attack.

(epsilon, delta)-differential privacy between two datasets bounds every test of one against the
other: P(found | member) <= e^epsilon P(taken for one | non-member) + delta, and the same of the
complements (Kairouz, Oh and Viswanath 2015, theorem 2.1).

How many neighbours lie between a run that trained on a row and one that did not follows from how
rows are held out. Of a fixed number of clients some are drawn: a client that is held out has
another in its place, which is one step of replace-one, and two of zero-out (one client comes and
one goes). A record that is held out by a coin of its own is one step of zero-out. Over m steps the
claim is (m epsilon, delta (e^(m epsilon) - 1) / (e^epsilon - 1)) (Dwork and Roth 2014, 2.3).
"""

import math
from dataclasses import dataclass
from typing import assert_never

from fedaudit.attacks.attack import AttackedRun
from fedaudit.privacy.accounting.privacy_events import Adjacency, adjacency_words, observer_words
from fedaudit.privacy.mechanisms.base import PrivacyUnit
from fedaudit.privacy.mechanisms.registry import mechanism_of, why_unbounded
from fedaudit.privacy.planning.plan import ObserverEpsilon
from fedaudit.reports.sections.epsilon import planned_epsilons
from fedaudit.spec.models import ArtifactStart
from fedaudit.training.base.stopping import reported_end

_WARM = (
    "the claim covers what this run added to the parameters that it started from, and members may "
    "be recognised by those"
)
_METRIC = (
    "the claim is one of metric privacy: it bounds densities within a distance, for datasets that "
    "are near each other, and does not translate into rates of false and true positives"
)
_UNIT_DIFFERS = (
    "the claim is of single records, and here all rows of a client are in the training data or "
    "outside of it together; hold out records (`federation.validation_unit: record`) to compare"
)
_LARGEST_EXPONENT = 700.0
"""Beyond it the exponential overflows, and the bound says nothing anyway."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a run claims, of the unit that is attacked and against whoever sees the model."""

    claimed: ObserverEpsilon
    unit: PrivacyUnit
    steps: int

    @property
    def epsilon(self) -> float:
        """Over all steps."""
        return self.steps * self.claimed.value

    @property
    def delta(self) -> float:
        """Over all steps."""
        epsilon = self.claimed.value
        # Of the geometric sum 1 + e^epsilon + ...
        factors = [math.exp(min(step * epsilon, _LARGEST_EXPONENT)) for step in range(self.steps)]
        return min(1.0, self.claimed.delta * sum(factors))

    def tpr_max(self, fpr: float) -> float:
        """The largest share of members that may be found where so many others are taken for
        them."""
        factor = math.exp(min(self.epsilon, _LARGEST_EXPONENT))
        by_members = factor * fpr + self.delta
        by_others = 1 - (1 - self.delta - fpr) / factor
        return max(0.0, min(1.0, by_members, by_others))

    def __str__(self) -> str:
        one = self.claimed
        return (
            f"epsilon {one.value:.4g} at delta {one.delta:g} for every {self.unit}, under "
            f"{adjacency_words(one.adjacency)}, against {observer_words(one.observer)}"
        )


def claim_of(attacked: AttackedRun) -> Claim | str:
    """The claim of a run that bounds this attack, or why there is none."""
    run, result = attacked.run, attacked.result
    mechanism, inputs = mechanism_of(run.spec), run.ledger.inputs
    match inputs.cost_kind:
        case "unbounded":
            return f"there is no claim: {why_unbounded(inputs)}"
        case "leakage":
            return _METRIC
        case "epsilon":
            pass
        case _:
            assert_never(inputs.cost_kind)
    if isinstance(run.spec.model.start, ArtifactStart):
        return _WARM
    if mechanism.uncovered_model is not None:
        return f"no claim covers the model: {mechanism.uncovered_model}"
    plan = run.ledger.ledger_context.plan
    if plan is None:
        raise ValueError("a run with an epsilon has a spending plan")
    found = planned_epsilons(
        run.spec,
        plan,
        run.ledger.compositions,
        rounds=result.rounds,
        stopped_by=reported_end(result.stopped_by),
    ) or plan.spent(run.ledger.compositions)
    claimed, unit = _against_the_model(found), mechanism.facts.unit
    steps = _steps(unit, claimed.adjacency, holds_out_rows=run.spec.federation.holds_out_rows)
    return _UNIT_DIFFERS if steps is None else Claim(claimed=claimed, unit=unit, steps=steps)


def _against_the_model(found: tuple[ObserverEpsilon, ...]) -> ObserverEpsilon:
    """Against those who see the models; where only the server is spoken of, it sees them too."""
    return next((one for one in found if one.observer == "final_model"), found[0])


def _steps(unit: PrivacyUnit, adjacency: Adjacency, *, holds_out_rows: bool) -> int | None:
    """How many neighbours lie between a run with a row and one without; None where the unit is
    smaller than what goes in and out together."""
    match unit:
        case "record":
            return 1 if holds_out_rows else None
        case "client":
            pass
        case _:
            assert_never(unit)
    match adjacency:
        case "replace-one":
            return 1
        case "add-or-remove-one":
            return 2
        case _:
            assert_never(adjacency)
