"""Budgets on a federation's data: set, shown, and why one refuses an experiment."""

from collections.abc import Sequence
from typing import Any

from api.http.problems import ProblemError
from api.schemas.federations import BudgetBody, gap_words
from api.services.lookups import find_federation
from api.shared.security import Call
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.runs.experiment_plan import ExperimentPlan, planned_costs
from fedaudit.stored import CostFigure
from models.repositories import Budgets
from models.repositories.budgets.counting import Refusal, counts_report
from models.repositories.budgets.reading import with_gaps
from models.values import Budget, Gap


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
_LIMITS: dict[CostFigure, str] = {
    "leakage": "privacy.client_budget",
    "log_ratio": "privacy.client_budget",
    "epsilon": "privacy.epsilon_budget",
}
"""The fields of a spec that bound a figure by ending a run, or a client's part in it."""


def uncounted_words(budget: Budget, why: Gap, what: str) -> str:
    """Why a total does not count `what`."""
    total = f"{budget.total:.6g} for {_FIGURES[budget.figure]}"
    against = f" against {observer_words(budget.observer)}" if budget.observer else ""
    return f"has a total of {total}{against}, which does not count {what}: {gap_words(budget, why)}"


def _refused(
    refusal: Refusal, federation_id: str, *, totals: Sequence[Budget], unit_key: str
) -> ProblemError:
    """A budget that has no room for the experiment, or does not count it."""
    budget, why, in_all = refusal.budget, refusal.shortage, refusal.composed_total
    if why == "no-room":
        detail = (
            f"in the worst case the experiment by itself costs {_FIGURES[budget.figure]} of "
            f"{refusal.requested:.6g}, and {in_all:.6g} with all that {_name(budget)} counts, of "
            f"{budget.total:.6g} with {budget.remaining:.6g} left; "
        )
        if counts_report(budget.observer):
            detail += "ask for a smaller fairness.noise.epsilon"
        else:
            detail += f"ask for fewer rounds or more noise, set {_LIMITS[budget.figure]}"
        detail += f", or {_raise(budget)}"
    else:
        if counts_report(budget.observer):
            remedy = "set fairness.noise to noise that fits, or "
        elif why == "unbounded":
            remedy = "give privacy.mechanism one whose cost is counted: a run without is in both "
            remedy += "books, whatever privacy.noise says; or "
        elif why == "other-clients":
            remedy = "distinguish clients by the same key, or set totals whose `unit_key` is "
            remedy += f"{unit_key!r}, or "
        elif len({one.figure == "epsilon" for one in totals}) > 1:
            remedy = "with totals for an epsilon and for metric privacy the book refuses every run "
            remedy += "until those of one of the two are taken back; "
        else:
            remedy = "use a mechanism, radius and clip that fit, or "
        detail = f"{_name(budget)} {uncounted_words(budget, why, 'the experiment')}; {remedy}"
        detail += _take_back(budget, federation_id)
    members = {"requested": refusal.requested, "composed_total": in_all}
    return _problem(budget, federation_id, detail, **members)


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
    totals = [
        one
        for one in budgets.budgets(federation_id, shown=False)
        if one.total is not None and (cost_kind == "unbounded" or one.book == book)
    ]
    planned_for = planned_costs(planned.spec, planned.ledger_context)
    # Of the people held out of training, whom the report is about, and of those who train.
    for of_report in (True, False):
        costs = [one for one in planned_for if counts_report(one.observer) == of_report]
        mine = [one for one in totals if counts_report(one.observer) == of_report]
        refusal = None
        if costs:
            refusal = budgets.reserve(
                federation_id, experiment_id=experiment_id, book=book, costs=costs
            )
        elif mine:
            refusal = Refusal(budgets.composed(federation_id, mine[0]), "unbounded")
        if refusal is not None:
            whose = costs[0].unit_key if costs else ""
            raise _refused(refusal, federation_id, totals=mine, unit_key=whose)


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
