"""What an experiment would cost, before it runs."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.epsilon_tables import renyi_epsilons
from fedaudit.privacy.events import Observer
from fedaudit.privacy.metric import largest_participation, leakage
from fedaudit.privacy.record_plans import run_within
from fedaudit.privacy.record_spending import RECORD_ADJACENCY, RECORD_OBSERVERS
from fedaudit.privacy.record_use import record_settings
from fedaudit.privacy.spending_plan import SpendingPlan, spending_plan
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.spec.training import FixedCohort

NO_MECHANISM = "there is no mechanism, so nothing bounds what a release reveals"
NO_EPSILON = (
    "metric privacy is counted as leakage; it has no (epsilon, delta) guarantee to add it to"
)
NO_LEAKAGE = (
    "the mechanism is counted as an epsilon with a delta; leakage, of metric privacy, is another "
    "figure"
)
NO_NOISE = "the baseline `privacy-free` trains without noise, so nothing bounds what it reveals"

_LEAKAGE = ("leakage_worst_case", "leakage_expected")
_ALL = (*_LEAKAGE, "epsilon", "budget_ends_in_round")


@dataclass(frozen=True)
class Projection:
    """The cost if every round runs. A None has its reason under the same name in `reasons`."""

    leakage_worst_case: float | None
    """Leakage of a client drawn in every round, as far as its budget lets it take part."""
    leakage_expected: float | None
    """Mean leakage of a training client."""
    epsilon: list[dict[str, object]] = field(default_factory=list)
    """Per observer, delta and adjacency: the worst case of the whole run, as `value`; with
    `expected`, the mean over clients, where that is less. Empty for metric privacy."""
    budget_ends_in_round: int | None = None
    """The earliest round in which a budget could refuse a client, or that a run would not play."""
    reasons: dict[str, str] = field(default_factory=dict)


def project_cost(
    spec: ExperimentSpec, *, n: int, training_clients: int, plan: SpendingPlan | None = None
) -> Projection:
    """The cost of the spec for `n` parameters and `training_clients` clients to draw from.

    `plan`: the spending plan, where the data are at hand. Without it `record-personalised` is
    projected by its public numbers alone, and its baselines as far as these go.
    """
    match spec.privacy:
        case NoMechanism():
            return Projection(None, None, reasons=dict.fromkeys(_ALL, NO_MECHANISM))
        case LaplaceL2() as privacy:
            return _metric(spec, privacy, n=n, training_clients=training_clients)
        case GaussianCentral() | GaussianLocal() as gaussian:
            found = plan or spending_plan(spec, training_clients=training_clients)
            assert found is not None
            return _of_plan(spec, gaussian, found, training_clients=training_clients)
        case RecordPersonalised() as records:
            return _of_records(spec, records, plan)


def _metric(
    spec: ExperimentSpec, privacy: LaplaceL2, *, n: int, training_clients: int
) -> Projection:
    nu, budget, rounds = privacy.noise_multiplier, privacy.client_budget, spec.training.rounds
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
    cohort = _fixed_cohort(spec, training_clients)
    mean = _mean_participations(rounds, cohort, training_clients, most=most)
    return Projection(
        leakage_worst_case=leakage(most, n=n, noise_multiplier=nu),
        leakage_expected=mean * n / nu,
        budget_ends_in_round=ends,
        reasons=reasons,
    )


def _of_plan(
    spec: ExperimentSpec,
    privacy: GaussianCentral | GaussianLocal,
    plan: SpendingPlan,
    *,
    training_clients: int,
) -> Projection:
    rounds, budget = spec.training.rounds, privacy.epsilon_budget
    [observer] = plan.observers
    line = plan.line(observer)
    reasons = dict.fromkeys(_LEAKAGE, NO_LEAKAGE)
    most, ends = rounds, None
    if budget is None:
        reasons["budget_ends_in_round"] = "privacy.epsilon_budget is not set"
    else:
        most = line.steps_within(budget)
        if most < rounds:
            ends = most + 1
        else:
            reasons["budget_ends_in_round"] = (
                f"all {rounds} rounds stay within privacy.epsilon_budget"
            )
    entry = _entry(plan, observer, float(line.epsilons[most]))
    if isinstance(privacy, GaussianLocal):
        cohort = _fixed_cohort(spec, training_clients)
        shares = _participations(rounds, cohort, training_clients, most=most)
        entry["expected"] = float(line.epsilons[: most + 1] @ shares)
    return Projection(None, None, epsilon=[entry], budget_ends_in_round=ends, reasons=reasons)


def _of_records(
    spec: ExperimentSpec, privacy: RecordPersonalised, plan: SpendingPlan | None
) -> Projection:
    reasons = dict.fromkeys(_LEAKAGE, NO_LEAKAGE)
    reasons["budget_ends_in_round"] = (
        "budgets are the records' own, and a record leaves before the round that would pass its"
        if privacy.baseline == "filter"
        else "budgets are the records' own, and none of them ends the run"
    )
    if privacy.baseline == "privacy-free":
        return Projection(None, None, reasons=dict.fromkeys(_ALL, NO_NOISE))
    if plan is not None:
        rounds = spec.training.rounds
        entries = [_entry(plan, one, plan.largest(one, rounds)) for one in plan.observers]
        return Projection(None, None, epsilon=entries, reasons=reasons)
    if privacy.baseline in (None, "filter"):
        return Projection(None, None, epsilon=_at_rate_one(spec), reasons=reasons)
    reasons["epsilon"] = (
        f"the noise of the baseline {privacy.baseline} follows from the data, which are not loaded "
        "yet"
    )
    return Projection(None, None, reasons=reasons)


def _at_rate_one(spec: ExperimentSpec) -> list[dict[str, object]]:
    """What a record in every batch spends, for every observer; no record spends more."""
    settings = record_settings(spec)
    run = run_within(settings.epsilon_max, settings)
    return [
        {
            "observer": observer,
            "delta": settings.delta,
            "adjacency": RECORD_ADJACENCY,
            "value": float(
                renyi_epsilons(
                    run.event(1.0),
                    settings.rounds,
                    adjacency=RECORD_ADJACENCY,
                    observer=observer,
                    delta=settings.delta,
                )
            ),
        }
        for observer in RECORD_OBSERVERS
    ]


def _entry(plan: SpendingPlan, observer: Observer, value: float) -> dict[str, Any]:
    return {
        "observer": observer,
        "delta": plan.delta,
        "adjacency": plan.adjacency,
        "value": value,
    }


def _fixed_cohort(spec: ExperimentSpec, training_clients: int) -> int:
    """Clients drawn in a round; the spec's rules leave these mechanisms no other cohort."""
    cohort = spec.training.cohort
    assert isinstance(cohort, FixedCohort)
    return min(cohort.clients, training_clients)


def _mean_participations(rounds: int, cohort: int, clients: int, *, most: int) -> float:
    """Mean releases of a client that is drawn with chance cohort / clients in every round.

    That is rounds * cohort / clients, and with a budget the mean of min(X, most), X binomial.
    """
    if most >= rounds:
        return rounds * cohort / clients
    shares = _participations(rounds, cohort, clients, most=most)
    return float(np.arange(most + 1) @ shares)


def _participations(rounds: int, cohort: int, clients: int, *, most: int) -> NDArray[np.float64]:
    """The chances of min(X, most) = 0 .. most, X binomial: float64 [most + 1].

    X counts the draws of a client that is drawn with chance cohort / clients in every round.
    """
    shares = np.zeros(most + 1)
    if cohort == clients:
        shares[most] = 1.0
        return shares
    draws = np.arange(most)
    steps = np.log(rounds - draws) - np.log1p(draws) + np.log(cohort) - np.log(clients - cohort)
    logs = rounds * np.log1p(-cohort / clients) + np.concatenate(([0.0], np.cumsum(steps)))
    shares[:most] = np.exp(logs[:most])
    shares[most] = max(0.0, 1.0 - float(shares[:most].sum()))
    return shares
