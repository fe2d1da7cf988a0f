"""Reserve the worst case of an experiment on the budgets of its data, or refuse it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from sqlalchemy.orm import Session

from api.services.budgets.budget_refusals import (
    exhausted,
    not_composable,
    other_clients,
    other_terms,
    unbounded,
    unlike,
    without_fairness_noise,
    without_theorem,
)
from fedaudit.privacy.accounting.rdp import composed_epsilon
from fedaudit.privacy.count_release import CountRelease
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import theorem_sum
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.privacy.unit_key import unit_key
from fedaudit.runs.experiment_plan import ExperimentPlan, planned_releases
from models.epsilon_costs import EpsilonCost, Shortage
from models.leakage_terms import LeakageTerms
from models.repositories import BudgetGapRepository, EpsilonBudgetRepository, FederationRepository
from models.repositories.epsilon_budgets import counts_report
from models.values import Budget, BudgetsAcross


def reserve(
    session: Session,
    project_id: str,
    federation_id: str,
    *,
    experiment_id: str,
    planned: ExperimentPlan,
    across: BudgetsAcross,
) -> None:
    """Reserve the worst case, in the caller's transaction.

    `across`: whose spending on the content counts.
    Raises ProblemError, to be followed by a roll-back, where a budget of the experiment's book has
    no room for it or cannot count it. A run without a mechanism has no noise that could be of
    either mode, so it is in both books.
    """
    federations = FederationRepository(session, project_id, across=across)
    epsilons = EpsilonBudgetRepository(session, project_id, across=across)
    federations.hold(federation_id)
    book, cost_kind = planned.spec.privacy.noise, planned.ledger_context.inputs.cost_kind
    bounded = [
        one
        for one in federations.budgets(federation_id, shown=False)
        if one.total is not None and (cost_kind == "unbounded" or one.book == book)
    ]
    reserve_report(
        epsilons,
        federation_id,
        experiment_id=experiment_id,
        planned=planned,
        totals=[one for one in bounded if counts_report(one.observer)],
    )
    totals = [one for one in bounded if not counts_report(one.observer)]
    match cost_kind:
        case "unbounded":
            if totals:
                # Nothing bounds what an update without noise reveals, so no budget can have room
                # for one.
                raise unbounded(_composed(epsilons, federation_id, totals[0]), federation_id)
        case "epsilon":
            _reserve_epsilon(epsilons, federation_id, experiment_id, planned, totals)
        case "leakage":
            composed = partial(_composed, epsilons, federation_id)
            _reserve_leakage(
                federations, federation_id, experiment_id, planned, totals, composed=composed
            )
        case other:
            assert_never(other)


def _reserve_epsilon(
    epsilons: EpsilonBudgetRepository,
    federation_id: str,
    experiment_id: str,
    planned: ExperimentPlan,
    totals: Sequence[Budget],
) -> None:
    plan, mechanism = planned.ledger_context.plan, mechanism_of(planned.spec)
    if plan is None:
        raise ValueError(f"{mechanism.facts.name} counts an epsilon and has no spending plan")
    for budget in totals:
        match budget.figure:
            case "leakage" | "log_ratio":
                raise unlike(budget, federation_id, "an epsilon", totals=totals)
            case "epsilon":
                pass
            case _:
                assert_never(budget.figure)
    refusal = epsilons.reserve(
        federation_id,
        experiment_id=experiment_id,
        book=planned.spec.privacy.noise,
        costs=epsilon_costs(mechanism, plan, unit_key=unit_key(planned.spec, mechanism.facts.unit)),
        price=composed_epsilon,
    )
    if refusal is not None:
        raise not_composable(
            refusal,
            federation_id,
            adjacency=plan.adjacency,
            unit=mechanism.facts.unit,
            spec=planned.spec,
        )


def _reserve_leakage(
    federations: FederationRepository,
    federation_id: str,
    experiment_id: str,
    planned: ExperimentPlan,
    totals: Sequence[Budget],
    *,
    composed: Callable[[Budget], Budget],
) -> None:
    """Leakage under its radius and clip; and, where there is one, the theorem's own sum."""
    inputs, projection = planned.ledger_context.inputs, planned.projection
    leakage, log_ratio = projection.leakage_worst_case, projection.log_ratio_worst_case
    of_one_release = theorem_sum(inputs, 1)
    if leakage is None:
        raise ValueError(f"{inputs.mechanism} counts leakage, and none was projected")
    terms = LeakageTerms.of(radius=inputs.radius, clip=inputs.clip)
    whose = unit_key(planned.spec, mechanism_of(planned.spec).facts.unit)
    mine = {"book": planned.spec.privacy.noise, "unit_key": whose}
    for budget in totals:
        match budget.figure:
            case "epsilon":
                raise unlike(composed(budget), federation_id, "leakage", totals=totals)
            case "log_ratio":
                if isinstance(of_one_release, str):
                    raise without_theorem(budget, federation_id, of_one_release)
            case "leakage":
                pass
            case _:
                assert_never(budget.figure)
    of_leakage = [one for one in totals if one.figure == "leakage"]
    if of_leakage and not any(one.terms == terms for one in of_leakage):
        raise other_terms(of_leakage, federation_id, terms)
    _check_room(
        federations.shortage(federation_id, amount=leakage, terms=terms, **mine),
        federation_id,
        leakage,
        whose,
    )
    federations.reserve(
        federation_id, experiment_id=experiment_id, amount=leakage, terms=terms, **mine
    )
    if log_ratio is None or isinstance(of_one_release, str):
        return
    _check_room(
        federations.shortage(federation_id, amount=log_ratio, terms=None, **mine),
        federation_id,
        log_ratio,
        whose,
    )
    federations.reserve_log_ratio(
        federation_id,
        experiment_id=experiment_id,
        amount=log_ratio,
        of_one_release=of_one_release,
        **mine,
    )


def _check_room(
    found: tuple[Budget, Shortage] | None, federation_id: str, requested: float, whose: str
) -> None:
    """Raises ProblemError where a total cannot bear what is requested, or counts other clients."""
    if found is None:
        return
    budget, shortage = found
    if shortage == "other-clients":
        raise other_clients(budget, federation_id, whose)
    raise exhausted(budget, federation_id, requested)


def composed_budgets(
    session: Session, project_id: str, federation_id: str, *, across: BudgetsAcross
) -> list[Budget]:
    """Every budget of a federation, with its reserved and spent amounts, and the runs it does not
    count."""
    counted = counted_budgets(session, project_id, federation_id, across=across)
    gaps = BudgetGapRepository(session, project_id, across=across)
    return gaps.uncounted(federation_id, counted)


def counted_budgets(
    session: Session, project_id: str, federation_id: str, *, across: BudgetsAcross
) -> list[Budget]:
    """Every budget of a federation, with its reserved and spent amounts alone."""
    epsilons = EpsilonBudgetRepository(session, project_id, across=across)
    budgets = epsilons.budgets(federation_id)
    return [_composed(epsilons, federation_id, budget) for budget in budgets]


def epsilon_costs(
    mechanism: PrivacyMechanism, plan: SpendingPlan, *, unit_key: str
) -> list[EpsilonCost]:
    """The worst case of a run, against each observer; `unit_key` says whose it is."""
    costs = []
    for observer in plan.observers:
        allowed = mechanism.compositions_within_budget(plan, observer)
        steps = plan.steps if allowed is None else allowed
        costs.append(
            EpsilonCost(
                observer=observer,
                adjacency=plan.adjacency,
                unit=mechanism.facts.unit,
                unit_key=unit_key,
                delta=plan.delta,
                epsilon=plan.largest(observer, steps),
                curve=plan.curve(observer, steps),
                step=plan.curve(observer, 1),
                compositions=steps,
            )
        )
    return costs


def _composed(epsilons: EpsilonBudgetRepository, federation_id: str, budget: Budget) -> Budget:
    match budget.figure:
        case "leakage" | "log_ratio":
            return budget
        case "epsilon":
            return epsilons.composed(federation_id, budget, composed_epsilon)
        case _:
            assert_never(budget.figure)


def reserve_report(
    epsilons: EpsilonBudgetRepository,
    federation_id: str,
    *,
    experiment_id: str,
    planned: ExperimentPlan,
    totals: Sequence[Budget],
) -> None:
    """Reserve the epsilon of the fairness counts, in the caller's transaction.

    `totals`: the budgets of the experiment's book that have a total against readers of the report.
    Raises ProblemError where one of them has no room, or cannot count the experiment.
    """
    held_out = planned.ledger_context.held_out
    if held_out is None:
        if totals:
            # Exact or rounded figures: nothing bounds what they reveal.
            composed = epsilons.composed(federation_id, totals[0], composed_epsilon)
            raise without_fairness_noise(composed, federation_id)
        return
    release = held_out.release
    refusal = epsilons.reserve(
        federation_id,
        experiment_id=experiment_id,
        book=planned.spec.privacy.noise,
        costs=[_cost(release, planned)],
        price=composed_epsilon,
    )
    if refusal is not None:
        raise not_composable(
            refusal,
            federation_id,
            adjacency=release.adjacency,
            unit=release.unit,
            spec=planned.spec,
        )


def _cost(release: CountRelease, planned: ExperimentPlan) -> EpsilonCost:
    releases = planned_releases(planned.spec)
    return EpsilonCost(
        observer=release.observer,
        adjacency=release.adjacency,
        unit=release.unit,
        unit_key=unit_key(planned.spec, release.unit),
        delta=release.booked_delta,
        epsilon=release.epsilon(releases),
        curve=releases * release.curve,
        step=release.curve,
        compositions=releases,
    )
