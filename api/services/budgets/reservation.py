"""Reserve the worst case of an experiment on the budgets of its data, or refuse it."""

from typing import Any, assert_never

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from fedaudit.ledger.composition import composed_epsilon
from fedaudit.privacy.accounting.observers import observer_words
from fedaudit.privacy.mechanisms.base import PrivacyMechanism, PrivacyUnit
from fedaudit.privacy.planning.cost_projection import Projection
from fedaudit.privacy.planning.plan import SpendingPlan
from models.repositories import (
    BudgetGapRepository,
    EpsilonBudgetRepository,
    FederationRepository,
)
from models.repositories.budgets import of_figure
from models.values import Budget, BudgetFigure, EpsilonCost, EpsilonRefusal

_LEAKAGE: BudgetFigure = "leakage"
_EPSILON: BudgetFigure = "epsilon"


def reserve(
    session: Session,
    project_id: str,
    federation_id: str,
    *,
    experiment_id: str,
    mechanism: PrivacyMechanism,
    projection: Projection,
    plan: SpendingPlan | None,
) -> None:
    """Reserve the worst case, in the caller's transaction.

    Raises ProblemError, to be followed by a roll-back, where a budget of the experiment's book has
    no room for it or cannot count it.
    """
    federations = FederationRepository(session, project_id)
    federations.lock(federation_id)
    book = mechanism.spec.privacy.noise
    budgets = [one for one in federations.budgets(federation_id) if one.total is not None]
    limited = {
        figure: [_composed(session, project_id, federation_id, one) for one in found]
        for figure in (_LEAKAGE, _EPSILON)
        if (found := of_figure(budgets, book, figure))
    }
    if plan is not None:
        if _LEAKAGE in limited:
            raise _unlike(limited[_LEAKAGE][0], federation_id, _EPSILON)
        epsilons = EpsilonBudgetRepository(session, project_id)
        refusal = epsilons.reserve(
            federation_id,
            experiment_id=experiment_id,
            book=book,
            costs=epsilon_costs(mechanism, plan),
            price=composed_epsilon,
        )
        if refusal is not None:
            raise _refused(refusal, federation_id, plan, unit=mechanism.facts.unit)
        return
    amount = projection.leakage_worst_case
    for figure, found in limited.items():
        if amount is None:
            # Nothing bounds what an update without noise reveals, so no budget can have room for
            # one.
            raise _unbounded(found[0], federation_id)
        match figure:
            case "leakage":
                pass
            case "epsilon":
                raise _unlike(found[0], federation_id, _LEAKAGE)
            case _:
                assert_never(figure)
    if amount is not None and not federations.reserve(
        federation_id, experiment_id=experiment_id, book=book, amount=amount
    ):
        raise _exhausted(limited[_LEAKAGE][0], federation_id, amount)


def composed_budgets(session: Session, project_id: str, federation_id: str) -> list[Budget]:
    """Every budget of a federation, with its reserved and spent amounts, and the runs it does not
    count."""
    budgets = FederationRepository(session, project_id).budgets(federation_id)
    composed = [_composed(session, project_id, federation_id, budget) for budget in budgets]
    return BudgetGapRepository(session, project_id).uncounted(federation_id, composed)


def epsilon_costs(mechanism: PrivacyMechanism, plan: SpendingPlan) -> list[EpsilonCost]:
    """The worst case of a run, against each observer."""
    costs = []
    for observer in plan.observers:
        allowed = mechanism.compositions_within_budget(plan, observer)
        steps = plan.steps if allowed is None else allowed
        costs.append(
            EpsilonCost(
                observer=observer,
                adjacency=plan.adjacency,
                unit=mechanism.facts.unit,
                delta=plan.delta,
                epsilon=plan.largest(observer, steps),
                curve=plan.curve(observer, steps),
                step=plan.curve(observer, 1),
                compositions=steps,
            )
        )
    return costs


def _composed(session: Session, project_id: str, federation_id: str, budget: Budget) -> Budget:
    match budget.figure:
        case "leakage":
            return budget
        case "epsilon":
            epsilons = EpsilonBudgetRepository(session, project_id)
            return epsilons.composed(federation_id, budget, composed_epsilon)
        case _:
            assert_never(budget.figure)


def _refused(
    refusal: EpsilonRefusal, federation_id: str, plan: SpendingPlan, *, unit: PrivacyUnit
) -> ProblemError:
    budget = refusal.budget
    if refusal.requested is not None and refusal.composed_total is not None:
        return _no_room(budget, federation_id, refusal.requested, refusal.composed_total)
    why = {
        "other-adjacency": f"of adjacency {budget.adjacency}, and the experiment's figures are of "
        f"adjacency {plan.adjacency}",
        "other-observer": f"against {observer_words(budget.observer or '')}, whom the "
        "experiment's guarantee does not cover",
        "other-unit": "with figures of another unit in it, and the experiment's figures are for "
        f"a {unit}",
    }
    return _problem(
        budget,
        federation_id,
        f"{_name(budget)} has a total for an epsilon {why.get(refusal.shortage, '')}: the two "
        "cannot be composed; use a mechanism that fits, or remove the budget's total",
    )


def _no_room(
    budget: Budget, federation_id: str, requested: float, composed_total: float
) -> ProblemError:
    return _problem(
        budget,
        federation_id,
        f"in the worst case the experiment by itself spends an epsilon of {requested:.6g}, and "
        f"composed with all that {_name(budget)} counts it would be {composed_total:.6g} of "
        f"{budget.total:.6g}, with {budget.remaining:.6g} left; ask for fewer rounds or more "
        "noise, set privacy.epsilon_budget, or raise the budget",
        requested=requested,
        composed_total=composed_total,
    )


def _exhausted(budget: Budget, federation_id: str, requested: float) -> ProblemError:
    return _problem(
        budget,
        federation_id,
        f"in the worst case the experiment costs a leakage of {requested:.6g}, and "
        f"{_name(budget)} has {budget.remaining:.6g} left; ask for fewer rounds or more noise, "
        "set privacy.client_budget, or raise the budget",
        requested=requested,
        composed_total=budget.reserved + budget.spent + requested,
    )


def _unbounded(budget: Budget, federation_id: str) -> ProblemError:
    return _problem(
        budget,
        federation_id,
        f"{_name(budget)} has a total, and without noise nothing bounds what the experiment "
        "reveals; give privacy.mechanism a mechanism, or remove the budget's total",
    )


def _unlike(budget: Budget, federation_id: str, figure: str) -> ProblemError:
    return _problem(
        budget,
        federation_id,
        f"{_name(budget)} has a total for {budget.figure}, and the experiment's cost is counted as "
        f"{figure}, which is another figure and cannot be added to it; use a mechanism that fits, "
        "or remove the budget's total",
    )


def _name(budget: Budget) -> str:
    return f"the {budget.book} book of this federation"


def _problem(
    budget: Budget,
    federation_id: str,
    detail: str,
    *,
    requested: float | None = None,
    composed_total: float | None = None,
) -> ProblemError:
    """`requested`: what this run would spend by itself; `composed_total`: together with all others.

    Both None where the budget cannot count the run, which `detail` explains.
    """
    members: dict[str, Any] = {
        name: getattr(budget, name)
        for name in ("book", "figure", "delta", "adjacency", "observer", "remaining", "total")
    }
    return ProblemError(
        409,
        "budget-exhausted",
        detail,
        federation_id=federation_id,
        requested=requested,
        composed_total=composed_total,
        **members,
    )
