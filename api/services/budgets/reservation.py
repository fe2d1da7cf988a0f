"""Reserve the worst case of an experiment on the budgets of its data, or refuse it."""

from collections.abc import Sequence
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
from fedaudit.privacy.mechanisms.base import PrivacyMechanism
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import theorem_sum
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.privacy.unit_key import unit_key
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.runs.held_out_cost import planned_releases
from models.leakage_terms import LeakageTerms
from models.repositories import Budgets
from models.repositories.budgets.counting import EpsilonCost, Shortage, counts_report
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
    budgets = Budgets(session, project_id, across=across, price=composed_epsilon)
    budgets.hold(federation_id)
    book, cost_kind = planned.spec.privacy.noise, planned.ledger_context.inputs.cost_kind
    bounded = [
        one
        for one in budgets.budgets(federation_id, shown=False)
        if one.total is not None and (cost_kind == "unbounded" or one.book == book)
    ]
    of_report = [one for one in bounded if counts_report(one.observer)]
    totals = [one for one in bounded if not counts_report(one.observer)]
    place = federation_id, experiment_id
    _reserve_report(budgets, place, planned, of_report)
    match cost_kind:
        case "unbounded":
            if totals:
                # Nothing bounds what an update without noise reveals, so no budget can have room
                # for one.
                raise unbounded(budgets.composed(federation_id, totals[0]), federation_id)
        case "epsilon":
            _reserve_epsilon(budgets, place, planned, totals)
        case "leakage":
            _reserve_leakage(budgets, place, planned, totals)
        case other:
            assert_never(other)


def _reserve_report(
    budgets: Budgets, place: tuple[str, str], planned: ExperimentPlan, totals: Sequence[Budget]
) -> None:
    """The epsilon of the fairness counts, against the people held out of training.

    `totals`: the budgets of the experiment's book that have a total against readers of the report.
    """
    federation_id, experiment_id = place
    held_out = planned.ledger_context.held_out
    if held_out is None:
        if totals:
            # Exact or rounded figures: nothing bounds what they reveal.
            budget = budgets.composed(federation_id, totals[0])
            raise without_fairness_noise(budget, federation_id)
        return
    release, releases = held_out.release, planned_releases(planned.spec)
    cost = EpsilonCost(
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
    book, spec = planned.spec.privacy.noise, planned.spec
    refusal = budgets.reserve_epsilon(
        federation_id, experiment_id=experiment_id, book=book, costs=[cost]
    )
    if refusal is not None:
        adjacency, unit = release.adjacency, release.unit
        raise not_composable(refusal, federation_id, adjacency=adjacency, unit=unit, spec=spec)


def _reserve_epsilon(
    budgets: Budgets, place: tuple[str, str], planned: ExperimentPlan, totals: Sequence[Budget]
) -> None:
    federation_id, experiment_id = place
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
    unit, spec = mechanism.facts.unit, planned.spec
    refusal = budgets.reserve_epsilon(
        federation_id,
        experiment_id=experiment_id,
        book=spec.privacy.noise,
        costs=epsilon_costs(mechanism, plan, unit_key=unit_key(spec, unit)),
    )
    if refusal is not None:
        adjacency = plan.adjacency
        raise not_composable(refusal, federation_id, adjacency=adjacency, unit=unit, spec=spec)


def _reserve_leakage(
    budgets: Budgets, place: tuple[str, str], planned: ExperimentPlan, totals: Sequence[Budget]
) -> None:
    """Leakage under its radius and clip; and, where there is one, the theorem's own sum."""
    federation_id, experiment_id = place
    inputs, projection = planned.ledger_context.inputs, planned.projection
    leakage, log_ratio = projection.leakage_worst_case, projection.log_ratio_worst_case
    of_one_release = theorem_sum(inputs, 1)
    if leakage is None:
        raise ValueError(f"{inputs.mechanism} counts leakage, and none was projected")
    terms = LeakageTerms.of(radius=inputs.radius, clip=inputs.clip)
    for budget in totals:
        match budget.figure:
            case "epsilon":
                composed = budgets.composed(federation_id, budget)
                raise unlike(composed, federation_id, "leakage", totals=totals)
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
    whose = unit_key(planned.spec, mechanism_of(planned.spec).facts.unit)
    reserve_sum = partial(
        budgets.reserve,
        federation_id,
        experiment_id=experiment_id,
        book=planned.spec.privacy.noise,
        unit_key=whose,
    )
    _check_room(reserve_sum(amount=leakage, terms=terms), federation_id, leakage, whose)
    if log_ratio is None or isinstance(of_one_release, str):
        return
    short = reserve_sum(amount=log_ratio, terms=None, of_one_release=of_one_release)
    _check_room(short, federation_id, log_ratio, whose)


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
