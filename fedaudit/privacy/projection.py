"""What an experiment would cost, before it runs."""

from dataclasses import dataclass, field

import numpy as np

from fedaudit.privacy.metric import largest_participation, leakage
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import LaplaceL2

NO_MECHANISM = "there is no mechanism, so nothing bounds what a release reveals"
NO_EPSILON = (
    "metric privacy is counted as leakage; it has no (epsilon, delta) guarantee to add it to"
)


@dataclass(frozen=True)
class Projection:
    """The cost if every round runs. A None has its reason under the same name in `reasons`."""

    leakage_worst_case: float | None
    """Leakage of a client drawn in every round, as far as its budget lets it take part."""
    leakage_expected: float | None
    """Mean leakage of a training client."""
    epsilon: list[dict[str, object]] = field(default_factory=list)
    """Per observer, delta and adjacency; empty for metric privacy."""
    budget_ends_in_round: int | None = None
    """The earliest round in which `client_budget` could refuse a client."""
    reasons: dict[str, str] = field(default_factory=dict)


def project_cost(spec: ExperimentSpec, *, n: int, training_clients: int) -> Projection:
    """The cost of the spec for `n` parameters and `training_clients` clients to draw from."""
    privacy, rounds = spec.privacy, spec.training.rounds
    if not isinstance(privacy, LaplaceL2):
        names = ("leakage_worst_case", "leakage_expected", "epsilon", "budget_ends_in_round")
        return Projection(None, None, reasons=dict.fromkeys(names, NO_MECHANISM))
    nu, budget = privacy.noise_multiplier, privacy.client_budget
    reasons = {"epsilon": NO_EPSILON}
    most, ends = rounds, None
    if budget is None:
        reasons["budget_ends_in_round"] = "privacy.client_budget is not set"
    else:
        allowed = largest_participation(budget, n, nu)
        most = min(rounds, allowed)
        if allowed < rounds:
            ends = allowed + 1
        else:
            reasons["budget_ends_in_round"] = (
                f"a client drawn in all {rounds} rounds stays within privacy.client_budget"
            )
    cohort = min(spec.training.cohort.clients, training_clients)
    mean = _mean_participations(rounds, cohort, training_clients, most=most)
    return Projection(
        leakage_worst_case=leakage(most, n=n, noise_multiplier=nu),
        leakage_expected=mean * n / nu,
        budget_ends_in_round=ends,
        reasons=reasons,
    )


def _mean_participations(rounds: int, cohort: int, clients: int, *, most: int) -> float:
    """Mean releases of a client that is drawn with chance cohort / clients in every round.

    That is rounds * cohort / clients, and with a budget the mean of min(X, most), X binomial: the
    sum of P(X >= j) over j = 1 .. most.
    """
    if most >= rounds:
        return rounds * cohort / clients
    if cohort == clients:
        return float(most)
    draws = np.arange(most)
    steps = np.log(rounds - draws) - np.log1p(draws) + np.log(cohort) - np.log(clients - cohort)
    logs = rounds * np.log1p(-cohort / clients) + np.concatenate(([0.0], np.cumsum(steps)))
    below = np.cumsum(np.exp(logs))[:-1]  # P(X <= j) for j = 0 .. most - 1
    return float(np.sum(1.0 - np.minimum(below, 1.0)))
