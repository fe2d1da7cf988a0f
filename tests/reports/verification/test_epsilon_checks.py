"""Reported epsilons against the ledger's events and counts."""

import json
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.ledger_totals import LedgerTotals, RunEvidence
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.epsilon import epsilon_checks
from tests.ledger.single_entry import SingleEntry
from tests.reports.sections.test_epsilon_report import SPECS, with_plan

ROUNDS = {"central": 41, "local": 4, "records": 6}


def entries_of(found, plan):
    """A ledger that fits the material: every round an entry for each observer."""
    inputs = mechanism_of(found.spec).inputs(n=found.inputs.n, plan=plan)
    everybody = np.arange(len(plan.subjects), dtype=np.int32)
    for observer in plan.observers:
        counts = np.broadcast_to(found.compositions[observer], everybody.shape)
        for number in range(1, int(counts.max()) + 1):
            who = everybody[counts >= number]
            releases = np.full(len(who), number, dtype=np.int32)
            yield SingleEntry(
                round=number,
                release=0,
                subject_kind=plan.subject_kind,
                observer=observer,
                inputs=inputs,
                subjects=who,
                outcomes=np.zeros(len(who), dtype=np.uint8),
                radii=np.full(len(who), np.nan),
                releases=releases,
                clusters=np.full(len(who), -1, dtype=np.int16),
                epsilons=plan.epsilons(observer, subjects=who, compositions=releases),
            )


def checked(found, plan, *, report=None, change=lambda entry: entry, names=None):
    """Outcomes by name."""
    names = plan.subjects if names is None else names
    totals = LedgerTotals(len(names))
    for entry in entries_of(found, plan):
        totals.add(change(entry).columns)
    report = report or assemble(found)
    evidence = RunEvidence(
        evidence=cast(Any, SimpleNamespace(names=names)),
        report=report,
        audit=cast(Any, None),  # nothing of it is asked for
        totals=totals,
        spec=found.spec,
    )
    checks = epsilon_checks(evidence, found.spec, found.inputs.n)
    return {one.name: one.outcome for one in checks}


@pytest.mark.parametrize("name", SPECS)
def test_an_honest_report_passes(material, name):
    outcomes = checked(*with_plan(material, name))
    assert set(outcomes.values()) == {"pass"}
    assert {"ledger.inputs", "report.epsilon", "report.epsilon_max"} <= set(outcomes)


@pytest.mark.parametrize("baseline", ["uniform", "filter"])
def test_baselines_of_records_are_checked_by_their_events(material, baseline):
    assert set(checked(*with_plan(material, "records", baseline=baseline)).values()) == {"pass"}


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    ("path", "name_of_check"),
    [
        (("privacy", "epsilon", 0, "value"), "report.epsilon"),
        (("privacy", "epsilon_max"), "report.epsilon_max"),
        (("privacy", "participations_max"), "report.participations_max"),
        (("data", "training_clients"), "report.training_clients"),
    ],
)
def test_a_smaller_figure_is_found(material, name, path, name_of_check):
    found, plan = with_plan(material, name)
    report = deepcopy(assemble(found))
    part = report
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = part[path[-1]] // 2 if isinstance(part[path[-1]], int) else 0.01
    assert checked(found, plan, report=report)[name_of_check] == "fail"


def changed_inputs(**changes):
    return lambda entry: replace(entry, inputs=replace(entry.inputs, **changes))


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 0.4},
        {"guarantee": "heuristic"},
        {"accountant": "gdp"},
        {"adjacency": "zero-out-one"},
        {"event": "{}"},
        {"event": "null"},
        {"event": "["},
        {"event": '{"kind":"gaussian","noise_multiplier":1000}'},
    ],
    ids=str,
)
def test_another_mechanism_in_the_ledger_is_found(material, name, changes):
    outcomes = checked(*with_plan(material, name), change=changed_inputs(**changes))
    assert outcomes["ledger.inputs"] == "fail"


@pytest.mark.parametrize(
    ("change", "check", "outcome"),
    [
        ({"event": {"client_rate": 0.01}}, "ledger.inputs", "fail"),
        ({"event": {"steps": 1}}, "ledger.inputs", "fail"),
        ({"event": {"noise_multiplier": 1e6}}, "ledger.inputs", "fail"),
        ({"event": {"noise_multiplier": 10**400}}, "ledger.inputs", "fail"),
        ({"event": {"record_rate": 2.0}}, "ledger.inputs", "fail"),
        # A personalised record leaves when its budget is spent.
        ({"lasts": 1}, "ledger.inputs", "fail"),
        ({"lasts": 10**30}, "ledger.inputs", "fail"),
        # A smaller rate is possible, and does not give the epsilon that was reported.
        ({"event": {"record_rate": 0.001}}, "report.epsilon", "fail"),
    ],
    ids=str,
)
def test_events_of_records_are_those_of_spec_and_report(material, change, check, outcome):
    found, plan = with_plan(material, "records")
    kept = json.loads(plan.events_json)
    for repeated_events in kept.values():
        first = repeated_events[0]
        event = {**first["event"], **change.get("event", {})}
        repeated_events[0] = {**first, **change, "event": event}
    outcomes = checked(found, plan, change=changed_inputs(event=json.dumps(kept)))
    assert outcomes[check] == outcome


def test_too_many_events_of_records_are_left_unchecked(material):
    found, plan = with_plan(material, "records")
    kept = {name: events * 5001 for name, events in json.loads(plan.events_json).items()}
    outcomes = checked(found, plan, change=changed_inputs(event=json.dumps(kept)))
    assert outcomes["ledger.inputs"] == "unchecked"
    assert "report.epsilon" not in outcomes


@pytest.mark.parametrize("value", [None, 3, "x", [], [{}], [{"observer": [], "value": 1}],
                                   [{"observer": "server", "value": 10**400}]])  # fmt: skip
def test_an_epsilon_of_any_form_ends_in_an_outcome(material, value):
    found, plan = with_plan(material, "local")
    report = deepcopy(assemble(found))
    report["privacy"]["epsilon"] = value
    assert checked(found, plan, report=report)["report.epsilon"] == "fail"


@pytest.mark.parametrize("clients", [None, 1, 10**40, True, "60"])
def test_clients_of_any_form_end_in_an_outcome(material, clients):
    found, plan = with_plan(material, "central")
    report = deepcopy(assemble(found))
    report["data"]["clients"] = clients
    assert checked(found, plan, report=report) == {"report.training_clients": "fail"}


def test_a_run_that_never_began_spent_nothing(material):
    found, plan = with_plan(material, "records")
    found = replace(found, compositions={"final_model": 0, "server": 0})
    assert set(checked(found, plan).values()) == {"pass"}
