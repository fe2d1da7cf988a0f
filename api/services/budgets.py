"""Budgets on a federation's data: set, shown, and why one refuses an experiment."""

from collections.abc import Sequence
from typing import Any

from api.http.problems import ProblemError
from api.schemas.base import of_row
from api.schemas.federations import BudgetBody
from api.services.lookups import find_federation
from api.shared.security import Call
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.privacy.unit_key import unit_key_words
from fedaudit.runs.experiment_plan import ExperimentPlan, planned_costs
from fedaudit.stored import CostFigure
from models.repositories import Budgets
from models.repositories.budgets.counting import Refusal, counts_report
from models.repositories.budgets.reading import with_gaps
from models.values import Budget, BudgetsAcross, Gap


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
    return [_body(one) for one in with_gaps(budgets.session, counted, federation_ids=ids)]


_SCOPES: dict[BudgetsAcross, str] = {
    "service": "what every project of this service spends on this content, whichever registered "
    "it; the totals of the project that owns it hold for all, and another project's for itself "
    "alone",
    "project": "what this project spends on this content, which was made up: another project of "
    "the service has separate budgets, and neither counts what the other spends",
}


def _body(budget: Budget) -> BudgetBody:
    uncounted = [
        {"mechanism": one.mechanism, "runs": one.runs, "why": gap_words(budget, one.why)}
        for one in budget.uncounted
    ]
    terms = budget.terms
    return of_row(
        BudgetBody,
        budget,
        uncounted=uncounted,
        radius=None if terms is None else terms.radius,
        clip=None if terms is None else terms.clip,
        reason="no total is set" if budget.total is None else None,
        total_names_clients=bool(budget.for_clients) and budget.total is not None,
        scope=_SCOPES[budget.across],
        others={"reserved": budget.others_reserved, "spent": budget.others_spent},
    )


_OTHER_FIGURE: dict[CostFigure, str] = {
    "epsilon": "its cost is counted as leakage, another figure that cannot be added",
    "leakage": "its cost is counted as an epsilon, another figure that cannot be added",
    "log_ratio": "the theorem has no sum for it: that needs laplace-l2 with a fixed radius and a "
    "clip",
}
"""Why a cost is not counted as the budget's figure."""


def gap_words(budget: Budget, gap: Gap) -> str:
    """Why the budget does not count a run."""
    than = "those of the total, which were not recorded: set the total anew"
    if budget.terms is not None:
        than = str(budget.terms)
    clients = budget.unit_key or budget.for_clients
    words: dict[Gap, str] = {
        "unbounded": "nothing bounds what it reveals, without noise that is counted",
        "other-figure": _OTHER_FIGURE[budget.figure],
        "simulated": "its noise was simulated from its seed, so what it published is protected by "
        "nothing, and it is in the simulation book",
        "profile": "profiles of the data were published, exact and without noise",
        "other-terms": "n/nu of different radii cannot be added, and its leakage is of another "
        f"radius or clip than {than}",
        "other-adjacency": f"its figures are of another adjacency than {budget.adjacency}",
        "other-observer": f"it guarantees nothing against {observer_words(budget.observer or '')}",
        "other-clients": "its figures are about clients that another key distinguishes than "
        f"{unit_key_words(clients) if clients else 'these'}, and one person may have rows with "
        "clients of both",
        "unowned": "another project declared it before the owner of the data set a total",
        "unproven": "its epsilon is heuristic, and no theorem bounds what it reveals; one without "
        "privacy.baseline, and with privacy.inversion `exact`, is proven"
        if budget.figure == "epsilon"
        else "with several hypotheses the theorem's sum holds between datasets that choose alike "
        "alone, and choices show; that of one hypothesis holds between all",
        "other-unit": f"its figures are of another unit than a {budget.unit}, and the two cannot "
        "be composed",
    }
    return words[gap]


_FIGURES: dict[CostFigure, str] = {
    "leakage": "a leakage",
    "log_ratio": "a log-ratio by the theorem",
    "epsilon": "an epsilon",
}
BY_RDP = "composed by `rdp`, which gives more than `pld` does"
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
        by = f" ({BY_RDP})" if budget.figure == "epsilon" else ""
        detail = (
            f"in the worst case the experiment by itself costs {_FIGURES[budget.figure]} of "
            f"{refusal.requested:.6g}, and {in_all:.6g} with all that {_name(budget)} counts{by}, "
            f"of {budget.total:.6g} with {budget.remaining:.6g} left; "
        )
        if counts_report(budget.observer):
            detail += "ask for a smaller fairness.noise.epsilon"
        else:
            detail += f"ask for fewer rounds or more noise, set {_LIMITS[budget.figure]}"
        owner = "have the budget raised by the project that owns this content"
        detail += f", or {'raise the budget' if _may_raise(budget) else owner}"
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
    # What this run would spend by itself, and together with all others; null where the budget
    # cannot count it, which the detail explains.
    members: dict[str, Any] = {"requested": refusal.requested, "composed_total": in_all}
    names = ("book", "figure", "delta", "adjacency", "observer", "remaining", "total")
    members |= {name: getattr(budget, name) for name in names}
    if budget.terms is not None:
        members |= {"radius": budget.terms.radius, "clip": budget.terms.clip}
    return ProblemError("budget-exhausted", detail, federation_id=federation_id, **members)


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


def reserve(
    budgets: Budgets, federation_id: str, *, experiment_id: str, planned: ExperimentPlan
) -> None:
    """Reserve the worst case, in the caller's transaction. Raises ProblemError, to be followed by a
    roll-back, where a budget of the experiment's book has no room for it or cannot count it. A run
    without a mechanism has no noise that could be of either mode, so it is in both books."""
    budgets.hold(id=federation_id)
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


def refuse_exact_figures(
    budgets: Budgets,
    federation_id: str,
    what: str = "an audit",
    *,
    book: str | None = None,
    remedy: str = "use another",
) -> None:
    """Raises ProblemError where a total bounds what reports reveal: `what` has no noise on its
    figures, so that nothing bounds what they reveal. `book`: the only one that it is in."""
    for one in budgets.budgets(federation_id, shown=False):
        holds = one.total is not None and book in (None, one.book)
        if holds and counts_report(one.observer):
            raise ProblemError(
                "budget-exhausted",
                f"{_name(one)} has a total against {observer_words(one.observer or '')}, and "
                f"nothing bounds what {what}, whose figures have no noise, reveals of the people "
                f"in the file; {remedy}, or have the total taken back by a project that set it",
            )
