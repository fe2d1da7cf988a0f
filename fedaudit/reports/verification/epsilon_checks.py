"""Whether a report's epsilons follow from the events and counts of its ledger.

For clients and for the population the events follow from the spec. For records they follow from
budgets that are not part of the evidence: each event is checked against the spec's public numbers,
and the epsilons are computed from the events.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

import numpy as np

from fedaudit.federations.split import training_clients
from fedaudit.privacy.accounting.epsilon_tables import worst_epsilons
from fedaudit.privacy.mechanisms.record_personalised import TooManyEventsError, record_courses
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_spending import RECORD_ADJACENCY, RECORD_OBSERVERS
from fedaudit.privacy.records.record_use import record_settings
from fedaudit.reports.document.checks import Check, check, same, shown, unchecked, value_at
from fedaudit.reports.verification.recompute import LedgerTotals
from fedaudit.spec.experiment import ExperimentSpec

_DIGITS = 1e-6
"""Relative: another library or machine may round differently, by far less."""
_MAX_CLIENTS = 10**9

Values = dict[str, float]


def epsilon_checks(
    spec: ExperimentSpec,
    report: Mapping[str, Any],
    totals: LedgerTotals,
    parameters: int,
    names: Sequence[str],
) -> Iterator[Check]:
    """The checks of a mechanism with an epsilon and a delta; `names` are those of the ledger's
    subjects."""
    training = value_at(report, "data", "training_clients")
    clients = value_at(report, "data", "clients")
    counted = type(clients) is int and 1 < clients <= _MAX_CLIENTS
    follows = counted and same(training, training_clients(clients, spec.federation))
    yield check(
        "report.training_clients",
        follows,
        good="data.training_clients follows from data.clients and the spec",
        bad=f"data.training_clients is {shown(training)} of {shown(clients)} clients",
    )
    if not follows:
        return
    subject_kind = mechanism_of(spec).facts.subject_kind
    match subject_kind:
        case "record_group":
            try:
                known = _epsilons_from_entries(spec, totals, parameters, names)
            except TooManyEventsError as error:
                yield unchecked("ledger.inputs", str(error))
                return
        case "client" | "population":
            known = _epsilons_from_spec(spec, totals, parameters, names, training)
        case _:
            assert_never(subject_kind)
    yield check(
        "ledger.inputs",
        known is not None,
        good="every entry has the mechanism of the spec",
        bad="the mechanism or the events of some entries are not those of the spec",
    )
    if known is not None:
        yield from _figures(report, known, totals)


def _epsilons_from_spec(
    spec: ExperimentSpec, totals: LedgerTotals, parameters: int, names: Sequence[str], training: int
) -> Values | None:
    """Epsilon against each observer; None where the ledger is of another mechanism."""
    plan = mechanism_of(spec).spending_plan(training_clients=training, client_names=names)
    assert plan is not None
    if not totals.inputs <= {mechanism_of(spec).inputs(n=parameters, plan=plan)}:
        return None
    if not set(totals.compositions) <= set(plan.observers) or plan.subjects != tuple(names):
        return None
    return {
        observer: plan.largest(observer, totals.compositions.get(observer, 0))
        for observer in plan.observers
    }


def _epsilons_from_entries(
    spec: ExperimentSpec, totals: LedgerTotals, parameters: int, names: Sequence[str]
) -> Values | None:
    """Like `_epsilons_from_spec`, from the repeated events that the entries hold."""
    if not totals.inputs:
        return dict.fromkeys(RECORD_OBSERVERS, 0.0)
    if not names or len(totals.inputs) > 1 or not set(totals.compositions) <= set(RECORD_OBSERVERS):
        return None
    [inputs] = totals.inputs
    repeated_events = record_courses(spec, inputs, parameters, names)
    if repeated_events is None:
        return None
    return {
        observer: max(
            float(
                worst_epsilons(
                    some,
                    totals.compositions[observer][subject],
                    adjacency=RECORD_ADJACENCY,
                    observer=observer,
                    delta=record_settings(spec).delta,
                )
            )
            if observer in totals.compositions
            else 0.0
            for subject, some in enumerate(repeated_events)
        )
        for observer in RECORD_OBSERVERS
    }


def _figures(report: Mapping[str, Any], known: Values, totals: LedgerTotals) -> Iterator[Check]:
    said = value_at(report, "privacy", "epsilon")
    try:
        stated = {one["observer"]: float(one["value"]) for one in said}
        agrees = stated.keys() == known.keys() and all(
            np.isclose(stated[observer], value, rtol=_DIGITS, atol=1e-9)
            for observer, value in known.items()
        )
    except (TypeError, KeyError, ValueError, OverflowError):
        stated, agrees = {}, False
    yield check(
        "report.epsilon",
        agrees,
        good="privacy.epsilon is equal to what was recomputed from the ledger's events",
        bad=f"privacy.epsilon is {shown(stated)} in the report and {shown(known)} recomputed",
    )
    largest = value_at(report, "privacy", "epsilon_max")
    yield check(
        "report.epsilon_max",
        bool(stated) and same(largest, max(stated.values())),
        good="privacy.epsilon_max is the largest of privacy.epsilon",
        bad=f"privacy.epsilon_max is {shown(largest)}, of {shown(stated)}",
    )
    [*_, last] = known
    most = int(totals.compositions[last].max(initial=0)) if last in totals.compositions else 0
    took_part = value_at(report, "privacy", "participations_max")
    yield check(
        "report.participations_max",
        same(took_part, most),
        good="privacy.participations_max is equal to what was recomputed",
        bad=f"privacy.participations_max is {shown(took_part)} in the report and {most} recomputed",
    )
