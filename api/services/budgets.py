"""Budgets on a federation's data: set, shown, and why one refuses an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from api.http.problems import ProblemError
from api.schemas.federations import BudgetBody
from api.services.lookups import find_federation
from api.shared.security import Call
from fedaudit.privacy.accounting.privacy_events import REPORT, observer_words
from fedaudit.privacy.count_release import BUDGET_DELTA
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import theorem_sum
from fedaudit.privacy.unit_key import unit_key, unit_key_words
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.stored import CostFigure
from models.repositories import Budgets
from models.repositories.budgets.counting import Cost, Refusal, counts_report
from models.repositories.budgets.reading import with_gaps
from models.values import Budget, LeakageTerms


def budgets_of(call: Call, federation_id: str) -> list[BudgetBody]:
    """Every budget that was set or spent from. Raises ProblemError where the caller's
    project has no such federation."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
        return bodies(call.budgets(session), found.id)


def bodies(budgets: Budgets, federation_id: str) -> list[BudgetBody]:
    """The bodies of budgets, with the runs that each does not count."""
    ids, found = budgets.sharing(federation_id).ids, budgets.budgets(federation_id)
    counted = [budgets.composed(federation_id, one) for one in found]
    return [BudgetBody.of(one) for one in with_gaps(budgets.session, counted, federation_ids=ids)]


_FIGURES: dict[CostFigure, str] = {
    "leakage": "a leakage",
    "log_ratio": "a log-ratio by the theorem",
    "epsilon": "an epsilon",
}
_MAX_NAMED = 3


def _refused(refusal: Refusal, federation_id: str, cost: Cost) -> ProblemError:
    """A budget that has no room, or that cannot compose the cost with what it counts."""
    budget, requested, in_all = refusal.budget, refusal.requested, refusal.composed_total
    if refusal.shortage == "other-clients":
        return _other_clients(budget, federation_id, cost.unit_key)
    if requested is not None and in_all is not None:
        if budget.figure == "epsilon":
            remedy = "ask for fewer rounds or more noise, set privacy.epsilon_budget"
            if budget.observer == REPORT:
                remedy = "ask for a smaller fairness.noise.epsilon"
            detail = (
                f"in the worst case the experiment by itself spends an epsilon of {requested:.6g}, "
                f"and composed with all that {_name(budget)} counts it would be {in_all:.6g} of "
                f"{budget.total:.6g}, with {budget.remaining:.6g} left; {remedy}, or "
            )
        else:
            detail = (
                f"in the worst case the experiment costs {_FIGURES[budget.figure]} of "
                f"{requested:.6g}, and {_name(budget)} has {budget.remaining:.6g} left; ask for "
                "fewer rounds or more noise, set privacy.client_budget, or "
            )
        detail += _raise(budget)
        return _problem(budget, federation_id, detail, requested=requested, composed_total=in_all)
    why = {
        "other-adjacency": f"of adjacency {budget.adjacency}, and the experiment's figures are of "
        f"adjacency {cost.adjacency}",
        "other-observer": f"against {observer_words(budget.observer or '')}, whom the "
        "experiment's guarantee does not cover",
        "other-unit": "with figures of another unit in it, and the experiment's figures are for "
        f"a {cost.unit}",
    }
    return _problem(
        budget,
        federation_id,
        f"{_name(budget)} has a total for an epsilon {why.get(refusal.shortage, '')}: the two "
        f"cannot be composed; use a mechanism that fits, or {_take_back(budget, federation_id)}",
    )


def _other_clients(budget: Budget, federation_id: str, whose: str) -> ProblemError:
    """A run whose clients are identified by another key than the clients that a budget counts."""
    counted = unit_key_words(budget.unit_key or budget.for_clients)
    return _problem(
        budget,
        federation_id,
        f"{_name(budget)} has a total for {counted}, and the experiment's figures are about "
        f"{unit_key_words(whose)}: one person's rows may lie with several of these, so the two "
        f"cannot be composed; tell clients apart in the same way, or set totals whose `unit_key` "
        f"names them, {whose!r} being the experiment's",
    )


@dataclass(frozen=True)
class CountedCost:
    """How the cost of an experiment, or of a training elsewhere, is counted."""

    whose: str
    counts_epsilon: bool
    terms: LeakageTerms | None = None
    """Under which a leakage is counted."""
    no_theorem: str | None = None
    """Why a leakage has no sum by the theorem beside it."""


def uncountable(totals: Sequence[Budget], cost: CountedCost) -> tuple[Budget, str] | None:
    """The first total that cannot count the cost, and why; None where all can. Such a total has to
    refuse it, or a change of mechanism, radius or clip would be the way around it."""
    counted = "an epsilon" if cost.counts_epsilon else "leakage"
    for budget in totals:
        has = f"has a total of {budget.total:.6g} for {_FIGURES[budget.figure]}, and {cost.whose}"
        if (budget.figure == "epsilon") != cost.counts_epsilon:
            other = "another figure, which cannot be charged there or added to it"
            if _refuse_each_other(totals):
                other += (
                    "; with totals for an epsilon and for metric privacy the book refuses every "
                    "run until those of one of the two are taken back"
                )
            return budget, f"{has}'s cost is counted as {counted}: {other}"
        if budget.figure == "log_ratio" and cost.no_theorem is not None:
            return budget, f"{has} has none: {cost.no_theorem}"
    # Once a book has a total for some radius and clip, others are refused.
    known = [one for one in totals if one.figure == "leakage"]
    if cost.terms is None or not known or any(one.terms == cost.terms for one in known):
        return None
    stated = [str(one.terms) for one in known if one.terms is not None][:_MAX_NAMED]
    under = f"with {', or with '.join(stated)}"
    if not stated:
        under = "whose radius and clip were not recorded, which counts no run (set the total anew)"
    return known[0], (
        f"has a total for a leakage {under}, and {cost.whose}'s is one with {cost.terms}: n/nu "
        "holds between uploads within the radius, so leakages of another radius or clip cannot be "
        "added"
    )


def _refuse_each_other(totals: Sequence[Budget]) -> bool:
    return len({one.figure == "epsilon" for one in totals}) == 2


def _refuse_uncountable(
    budgets: Budgets, federation_id: str, totals: Sequence[Budget], cost: CountedCost
) -> None:
    """Raises ProblemError where a total of the experiment's book cannot count its cost."""
    if (found := uncountable(totals, cost)) is None:
        return
    budget, why = budgets.composed(federation_id, found[0]), found[1]
    remedy = _take_back(budget, federation_id)
    if not _refuse_each_other(totals):
        remedy = f"use a mechanism, radius and clip that fit, or {remedy}"
    raise _problem(budget, federation_id, f"{_name(budget)} {why}; {remedy}")


def _name(budget: Budget) -> str:
    return f"the {budget.book} book of this federation"


def _take_back(budget: Budget, federation_id: str) -> str:
    """How a total is removed, and by whom."""
    who = "" if _may_raise(budget) else "have the project that owns this content "
    options = {
        "noise": budget.book,
        "delta": budget.delta,
        "adjacency": budget.adjacency,
        "observer": budget.observer,
        "radius": None if budget.terms is None else budget.terms.radius,
        "clip": None if budget.terms is None else budget.terms.clip,
        "unit-key": budget.for_clients or None,
    }
    stated = "".join(f" --{name} {value}" for name, value in options.items() if value is not None)
    return (
        f"{who}take this total back (`fedaudit budget {federation_id} --set "
        f"{budget.figure}=none{stated}`, or `total: null` in PUT .../budget); what was spent stays "
        "charged, and the history has who did so"
    )


def _may_raise(budget: Budget) -> bool:
    """Whether the caller's own total is what bounds it."""
    own, owners = budget.own_total, budget.owner_total
    return budget.is_owner or owners is None or (own is not None and own < owners)


def _raise(budget: Budget) -> str:
    """Who could give more room."""
    if _may_raise(budget):
        return "raise the budget"
    return "have the budget raised by the project that owns this content"


def _problem(
    budget: Budget,
    federation_id: str,
    detail: str,
    *,
    requested: float | None = None,
    composed_total: float | None = None,
) -> ProblemError:
    """`requested`: what this run would spend by itself; `composed_total`: together with all others.
    Both None where the budget cannot count the run, which `detail` explains."""
    members: dict[str, Any] = {
        name: getattr(budget, name)
        for name in ("book", "figure", "delta", "adjacency", "observer", "remaining", "total")
    }
    if budget.terms is not None:
        members |= {"radius": budget.terms.radius, "clip": budget.terms.clip}
    return ProblemError(
        409,
        "budget-exhausted",
        detail,
        federation_id=federation_id,
        requested=requested,
        composed_total=composed_total,
        **members,
    )


def reserve(
    budgets: Budgets, federation_id: str, *, experiment_id: str, planned: ExperimentPlan
) -> None:
    """Reserve the worst case, in the caller's transaction. Raises ProblemError, to be followed by a
    roll-back, where a budget of the experiment's book has no room for it or cannot count it. A run
    without a mechanism has no noise that could be of either mode, so it is in both books."""
    budgets.hold(federation_id)
    book, cost_kind = planned.spec.privacy.noise, planned.ledger_context.inputs.cost_kind
    bounded = [
        one
        for one in budgets.budgets(federation_id, shown=False)
        if one.total is not None and (cost_kind == "unbounded" or one.book == book)
    ]
    of_report = [one for one in bounded if counts_report(one.observer)]
    totals = [one for one in bounded if not counts_report(one.observer)]
    costs = _report_costs(budgets, federation_id, planned, of_report)
    _reserve(budgets, federation_id, experiment_id, planned, costs)
    match cost_kind:
        case "unbounded":
            if totals:
                # Nothing bounds what an update without noise reveals, so no budget can have room
                # for one.
                budget = budgets.composed(federation_id, totals[0])
                raise _problem(
                    budget,
                    federation_id,
                    f"{_name(budget)} has a total, and the experiment is without noise, whatever "
                    "privacy.noise says, or with none that is counted, so nothing bounds what it "
                    "reveals, and it is in both books; give "
                    "privacy.mechanism a mechanism whose cost is counted, or "
                    f"{_take_back(budget, federation_id)}",
                )
            return
        case "epsilon":
            counted, costs = _epsilon_costs(planned)
        case "leakage":
            counted, costs = _sum_costs(planned)
        case other:
            assert_never(other)
    _refuse_uncountable(budgets, federation_id, totals, counted)
    _reserve(budgets, federation_id, experiment_id, planned, costs)


def refuse_exact_figures(budgets: Budgets, federation_id: str) -> None:
    """Raises ProblemError where a total bounds what reports reveal: an audit's figures have no
    noise of either book, so that nothing bounds what they reveal."""
    for one in budgets.budgets(federation_id, shown=False):
        if one.total is not None and counts_report(one.observer):
            raise ProblemError(
                409,
                "budget-exhausted",
                f"{_name(one)} has a total against {observer_words(one.observer or '')}, and "
                "nothing bounds what an audit, whose figures have no noise, reveals of the people "
                "in the file; audit another file, or have the total taken back by a project that "
                "set it",
            )


def _reserve(
    budgets: Budgets,
    federation_id: str,
    experiment_id: str,
    planned: ExperimentPlan,
    costs: Sequence[Cost],
) -> None:
    book = planned.spec.privacy.noise
    refusal = budgets.reserve(federation_id, experiment_id=experiment_id, book=book, costs=costs)
    if refusal is not None:
        raise _refused(refusal, federation_id, costs[0])


def _report_costs(
    budgets: Budgets, federation_id: str, planned: ExperimentPlan, totals: Sequence[Budget]
) -> list[Cost]:
    """The epsilon of the fairness counts, against the people held out of training. `totals`: the
    budgets of the experiment's book that have a total against readers of the report."""
    held_out = planned.ledger_context.held_out
    if held_out is None:
        if totals:
            # Exact or rounded figures: nothing bounds what they reveal.
            budget = budgets.composed(federation_id, totals[0])
            raise _problem(
                budget,
                federation_id,
                f"{_name(budget)} has a total against {observer_words(budget.observer or '')}, and "
                "without fairness.noise nothing bounds what the experiment's report reveals of the "
                f"people held out; set fairness.noise, or {_take_back(budget, federation_id)}",
            )
        return []
    release = held_out.release
    return [
        Cost(
            figure="epsilon",
            observer=release.observer,
            adjacency=release.adjacency,
            unit=release.unit,
            unit_key=unit_key(planned.spec, release.unit),
            delta=release.delta or BUDGET_DELTA,
            amount=release.epsilon(1),
            curve=release.curve,
            step=release.curve,
            planned=1,
        )
    ]


def _epsilon_costs(planned: ExperimentPlan) -> tuple[CountedCost, list[Cost]]:
    """The worst case of a run, against each observer."""
    plan, mechanism = planned.ledger_context.plan, mechanism_of(planned.spec)
    assert plan is not None, "what counts an epsilon has a plan"
    unit, costs = mechanism.facts.unit, []
    for observer in plan.observers:
        allowed = mechanism.compositions_within_budget(plan, observer)
        steps = plan.steps if allowed is None else allowed
        costs.append(
            Cost(
                figure="epsilon",
                observer=observer,
                adjacency=plan.adjacency,
                unit=unit,
                unit_key=unit_key(planned.spec, unit),
                delta=plan.delta,
                amount=plan.largest(observer, steps),
                curve=plan.curve(observer, steps),
                step=plan.curve(observer, 1),
                planned=plan.events_within(observer, steps),
            )
        )
    return CountedCost("the experiment", counts_epsilon=True), costs


def _sum_costs(planned: ExperimentPlan) -> tuple[CountedCost, list[Cost]]:
    """Leakage under its radius and clip; and, where there is one, the theorem's own sum."""
    inputs, projection = planned.ledger_context.inputs, planned.projection
    leakage, log_ratio = projection.leakage_worst_case, projection.log_ratio_worst_case
    of_one_release, no_theorem = theorem_sum(inputs, 1), None
    assert leakage is not None, "what counts leakage projects it"
    terms = LeakageTerms.of(radius=inputs.radius, clip=inputs.clip)
    whose = unit_key(planned.spec, mechanism_of(planned.spec).facts.unit)
    costs = [Cost(figure="leakage", adjacency=terms.key, unit_key=whose, amount=leakage)]
    if isinstance(of_one_release, str):
        no_theorem = f"{of_one_release}; give privacy.radius a number and privacy.clip a bound"
    elif log_ratio is not None:
        step = np.array([of_one_release])
        costs.append(Cost(figure="log_ratio", unit_key=whose, amount=log_ratio, step=step))
    counted = CountedCost(
        "the experiment", counts_epsilon=False, terms=terms, no_theorem=no_theorem
    )
    return counted, costs
