"""Epsilon with a delta, against each observer, and by records of different budgets."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Annotated, Any, assert_never

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from fedaudit.fairness.disclosure import Disclosure, size_rule
from fedaudit.federations.split import training_clients
from fedaudit.ledger.ledger_context import rebuild_ledger_context
from fedaudit.privacy.accounting.privacy_events import MechanismParameters, Observer
from fedaudit.privacy.mechanisms.record_personalised import TooManyEventsError, record_courses
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.plan import ObserverEpsilon, SpendingPlan
from fedaudit.privacy.records.record_use import RecordGroup, RecordSpending, enclosing
from fedaudit.reports.checks import MALFORMED, Check, agrees, same, shown, value_at
from fedaudit.reports.sections.material import LedgerTotals, ReportMaterial, RunEvidence
from fedaudit.reports.sections.part import Part, or_why, with_reasons
from fedaudit.reports.sections.utility import chosen_by_losses
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.training import StoppedBy


class EpsilonSection(Part):
    """The largest epsilon that anyone spent, against one observer."""

    observer: str
    delta: float
    adjacency: str
    accountant: str
    value: Annotated[float, Field(ge=0)]


class RecordGroupSection(Part):
    """Records whose budgets are in one range, against anyone who sees the final model."""

    budget_low: float
    """Exclusive lower end of the range, unless it equals the upper end."""
    budget_high: float
    records: int | None
    epsilon_max: float | None
    budget_used_share: float | None
    """The largest share of its own budget that a record spent; above 1 the budget was exceeded."""
    reasons: dict[str, str]


class RecordsSection(Part):
    """What records of different budgets spent."""

    left_out: int | None
    """Records that were never sampled."""
    overspent: int | None
    """Records that exceeded their own budgets."""
    groups: list[RecordGroupSection]
    reasons: dict[str, str] = Field(default_factory=dict)


def records_section(material: ReportMaterial, records: RecordSpending) -> RecordsSection:
    """What records of different budgets spent against an observer of the final model. Raises
    KeyError where the material lacks the compositions against that observer."""
    rounds = int(np.asarray(material.compositions["final_model"]).max(initial=0))
    secret = material.spec.privacy.budget_column is not None
    found = records.of_groups(rounds)
    # Records that were left out are a group too: otherwise the total minus the others reveals them.
    # So are those that `fairness.exclude` leaves out: the rows less all records that train less the
    # scored rows, which are the denominator of the accuracy, are theirs.
    cells = np.array(
        [records.left_out, *(one["records"] for one in found), material.federation.not_counted]
    )
    disclosure = size_rule(material.spec.fairness).decide(cells, of="records")
    disclosure = replace(disclosure, rows=cells[:-1], shown=disclosure.shown[:-1], large=None)
    shown = disclosure.shown
    few = f"suppressed: {disclosure.too_few}, or another group's number would follow"
    # Those who overspent are records of some groups, so beside a hidden group their number could
    # reveal its size.
    over = records.overspent(rounds)
    small = map(disclosure.rule.is_small, (over, int(disclosure.rows[1:].sum()) - over))
    counts = {
        "left_out": records.left_out if shown[0] or not cells[0] else None,
        "overspent": None if over and (disclosure.suppresses or any(small)) else over,
    }
    return RecordsSection(
        groups=[
            _group(group, spent, disclosure, visible=visible, secret=secret)
            for group, spent, visible in zip(records.groups, found, shown[1:].tolist(), strict=True)
        ],
        **with_reasons(or_why(counts, few)),
    )


def _group(
    group: RecordGroup,
    figures: dict[str, Any],
    disclosure: Disclosure,
    *,
    visible: bool,
    secret: bool,
) -> RecordGroupSection:
    stated = not secret or disclosure.rule.is_large(figures["records"])
    low, high = (group.low, group.high) if stated else enclosing(group.low, group.high)
    few = f"suppressed: {disclosure.too_few}"
    if not visible:
        figures = figures | {"records": f"{few}, or another group's would follow"}
    if not stated:
        revealing = f"{few}, whose budgets it would reveal"
        figures = figures | {"epsilon_max": revealing, "budget_used_share": revealing}
    return RecordGroupSection(budget_low=low, budget_high=high, **with_reasons(figures))


def spent(material: ReportMaterial) -> tuple[ObserverEpsilon, ...]:
    """Epsilon against each observer; empty where there is no plan. Raises KeyError where the
    material lacks the compositions of an observer."""
    plan = material.plan
    return () if plan is None else plan.spent(material.compositions)


def planned(material: ReportMaterial) -> tuple[ObserverEpsilon, ...]:
    """Epsilon if all planned rounds had been run, where validation ended the run early. No subject
    is charged more often than a budget allows. Empty where the run did not end early."""
    ended = {name: getattr(material.result, name) for name in ("rounds", "stopped_by")}
    return planned_epsilons(material.spec, material.plan, material.compositions, **ended)


def planned_epsilons(
    spec: ExperimentSpec,
    plan: SpendingPlan | None,
    compositions: Mapping[Observer, ArrayLike],
    *,
    rounds: int,
    stopped_by: StoppedBy | None,
) -> tuple[ObserverEpsilon, ...]:
    """The same for a run of a spec that has played so many rounds. `compositions`: those that its
    ledger has counted."""
    if plan is None or not chosen_by_losses(stopped_by):
        return ()
    mechanism, left = mechanism_of(spec), max(0, spec.training.rounds - rounds)
    most = {}
    for observer, played in compositions.items():
        counts = np.asarray(played, dtype=np.int64)
        most[observer] = counts + left
        allowed = mechanism.compositions_within_budget(plan, observer)
        if allowed is not None:
            most[observer] = np.maximum(counts, np.minimum(most[observer], allowed))
    return plan.spent(most)


DIGITS = 1e-6
"""Relative: another library or machine may round differently, by far less."""
MAX_CLIENTS = 10**9
Values = dict[str, float]


def epsilon_checks(found: RunEvidence, spec: ExperimentSpec, parameters: int) -> Iterator[Check]:
    """The checks of a mechanism with an epsilon and a delta."""
    report, totals, names = found.report, found.totals, found.evidence.names
    training = value_at(report, "data", "training_clients")
    clients = value_at(report, "data", "clients")
    counted = type(clients) is int and 1 < clients <= MAX_CLIENTS
    follows = counted and same(training, training_clients(clients, spec.federation))
    yield Check.of(
        "report.training_clients",
        follows,
        good="data.training_clients follows from data.clients and the spec",
        bad=f"data.training_clients is {shown(training)} of {shown(clients)} clients",
    )
    if not follows:
        return
    facts, played = mechanism_of(spec).facts, totals.compositions
    known: Values | None = None
    try:
        plan = ledger_plan(
            spec, totals.inputs, names, parameters=parameters, training_clients=training
        )
    except TooManyEventsError as error:
        yield Check.unchecked("ledger.inputs", str(error))
        return
    if facts.subject_kind == "record_group" and not totals.inputs:
        known = dict.fromkeys(facts.observers, 0.0)
    elif plan is not None and set(played) <= set(plan.observers):
        known = {one: plan.largest(one, played.get(one, 0)) for one in plan.observers}
    yield Check.of(
        "ledger.inputs",
        known is not None,
        good="every entry has the mechanism of the spec",
        bad="the mechanism or the events of some entries are not those of the spec",
    )
    if known is not None:
        yield from _figures(report, known, totals)


def ledger_plan(
    spec: ExperimentSpec,
    inputs: Set[MechanismParameters],
    names: Sequence[str],
    *,
    parameters: int,
    training_clients: int,
) -> SpendingPlan | None:
    """The plan of the events that a ledger's entries hold; None where they are not those of the
    spec. Of records it is without tables, since rounds may be many.

    Raises TooManyEventsError.
    """
    mechanism = mechanism_of(spec)
    subject_kind = mechanism.facts.subject_kind
    match subject_kind:
        case "record_group":
            if len(inputs) != 1 or not names:
                return None
            [own] = inputs
            if record_courses(spec, own, parameters, names) is None:
                return None
            return rebuild_ledger_context(own, names, rounds=0).plan
        case "client" | "population":
            plan = mechanism.spending_plan(training_clients=training_clients, names=names)
            if plan is None or plan.subjects != tuple(names):
                return None
            return plan if inputs <= {mechanism.inputs(n=parameters, plan=plan)} else None
        case _:
            assert_never(subject_kind)


def _figures(report: Mapping[str, Any], known: Values, totals: LedgerTotals) -> Iterator[Check]:
    said = value_at(report, "privacy", "epsilon")
    try:
        stated = {one["observer"]: float(one["value"]) for one in said}
        equal = stated.keys() == known.keys() and all(
            np.isclose(stated[observer], value, rtol=DIGITS, atol=1e-9)
            for observer, value in known.items()
        )
    except MALFORMED:
        stated, equal = {}, False
    yield Check.of(
        "report.epsilon",
        equal,
        good="privacy.epsilon is equal to what was recomputed from the ledger's events",
        bad=f"privacy.epsilon is {shown(stated)} in the report and {shown(known)} recomputed",
    )
    largest = value_at(report, "privacy", "epsilon_max")
    yield Check.of(
        "report.epsilon_max",
        bool(stated) and same(largest, max(stated.values())),
        good="privacy.epsilon_max is the largest of privacy.epsilon",
        bad=f"privacy.epsilon_max is {shown(largest)}, of {shown(stated)}",
    )
    [*_, last] = known
    most = int(totals.compositions[last].max(initial=0)) if last in totals.compositions else 0
    yield agrees(report, "privacy.participations_max", most)
