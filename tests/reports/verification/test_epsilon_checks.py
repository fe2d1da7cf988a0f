"""The epsilons of a ledger's entries, and those of a report, against the ledger's events."""

import json
from copy import deepcopy
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fedaudit.ledger.bundle import Evidence, bundle_chunks, opened_bundle
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.epsilon import epsilon_checks
from fedaudit.reports.sections.material import LedgerTotals, RunEvidence
from fedaudit.reports.verification import entries as entry_epsilons
from fedaudit.reports.verification.entries import EntryEpsilons
from fedaudit.reports.verification.verification import verify
from tests.ledger.single_entry import SingleEntry, digest_of, link
from tests.reports.sections.test_epsilon_report import SPECS, with_plan
from tests.reports.signed_run import ID


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


def same(entry):
    return entry


def of_entries(found, plan, change=same, *, spec=True):
    """The outcome of the entries' epsilons, and what is said."""
    epsilons = EntryEpsilons(found.spec if spec else None, plan.subjects)
    for entry in entries_of(found, plan):
        epsilons.read(change(entry).columns)
    [one] = epsilons.checks()
    assert one.name == "ledger.epsilons"
    return one.outcome, one.detail


def of_report(found, plan, change=same, *, report=None):
    """The outcomes of the report's epsilons by name."""
    totals = LedgerTotals(len(plan.subjects))
    for entry in entries_of(found, plan):
        totals.add(change(entry).columns)
    evidence = RunEvidence(
        evidence=cast(Any, SimpleNamespace(names=plan.subjects)),
        report=report or assemble(found),
        audit=cast(Any, None),  # nothing of it is asked for
        totals=totals,
        spec=found.spec,
    )
    return {one.name: one.outcome for one in epsilon_checks(evidence, found.spec, found.inputs.n)}


def verified(found, plan, path, change=same):
    """What a bundle without a report ends in, every digest and link in it recomputed."""
    encoder, head, rows = EntryEncoder(plan.subjects), genesis(ID), []
    for honest in sorted(entries_of(found, plan), key=lambda one: (one.round, one.observer)):
        entry = change(honest)
        digest = digest_of(encoder, entry)
        head = link(head, digest, entry.clusters)
        rows.append(entry.row(digest=digest, link=head))
    spec = found.spec.model_dump(mode="json")
    parts = Evidence(ID, spec, report=None, keys=[], names=plan.subjects)
    path.write_bytes(b"".join(bundle_chunks(parts, rows)))
    with opened_bundle(path) as evidence:
        return {one.name: one for one in verify(evidence).checks}


def changed_inputs(**changes):
    return lambda entry: replace(entry, inputs=replace(entry.inputs, **changes))


def changed_events(plan, change):
    """Entries whose events of records were changed."""
    kept = json.loads(plan.events_json)
    return changed_inputs(event=json.dumps({name: change(one) for name, one in kept.items()}))


def lowered(entry, *, by=0.9):
    """The last subject of one round pays less."""
    if entry.round != 2:
        return entry
    epsilons = np.array(entry.epsilons)
    epsilons[-1] *= by
    return replace(entry, epsilons=epsilons)


@pytest.mark.parametrize("name", SPECS)
def test_an_honest_ledger_and_its_report_pass(material, tmp_path, name):
    found, plan = with_plan(material, name)
    checks = verified(found, plan, tmp_path / "b.zip")
    assert checks["ledger.epsilons"].outcome == "pass"
    assert not [one for one in checks.values() if one.outcome == "fail"]
    outcomes = of_report(found, plan)
    assert set(outcomes.values()) == {"pass"}
    assert {"ledger.inputs", "report.epsilon", "report.epsilon_max"} <= set(outcomes)


_MADE_UP = ("bounded-pareto", "bounded-mix-gauss")


@pytest.mark.parametrize(
    ("name", "privacy"),
    [
        ("central", {"accountant": "pld"}),
        *(("records", {"baseline": one}) for one in ("uniform", "dropout", "filter")),
        *(
            ("records", {"baseline": baseline, "budgets": {"distribution": one}})
            for baseline, one in product((None, "strong-for-all"), _MADE_UP)
        ),
    ],
    ids=str,
)
def test_other_accountants_baselines_and_budgets_pass(material, name, privacy):
    found, plan = with_plan(material, name, **privacy)
    assert set(of_report(found, plan).values()) == {"pass"}
    if name == "records":
        found = replace(found, compositions={"final_model": 6, "server": 6})
    assert of_entries(found, plan)[0] == "pass"


def test_a_run_that_never_began_spent_nothing(material):
    found, plan = with_plan(material, "records")
    found = replace(found, compositions={"final_model": 0, "server": 0})
    assert set(of_report(found, plan).values()) == {"pass"}
    assert not list(EntryEpsilons(None, ["a"]).checks())


@pytest.mark.parametrize("name", SPECS)
def test_a_lowered_epsilon_is_named_though_the_chain_is_whole(material, tmp_path, name):
    found, plan = with_plan(material, name)
    checks = verified(found, plan, tmp_path / "b.zip", lowered)
    assert {one for one in checks if checks[one].outcome == "fail"} == {"ledger.epsilons"}
    said = checks["ledger.epsilons"].detail
    subject = next(one for one in entries_of(found, plan) if one.round == 2).subjects[-1]
    for observer in plan.observers:
        where = f"round 2, release 0 against '{observer}', subject {plan.subjects[subject]!r}: "
        assert where in said


@pytest.mark.parametrize(
    ("by", "outcome"),
    [(1 - 1e-8, "fail"), (1 + 1e-11, "pass"), (2, "fail"), (float("nan"), "fail"), (0, "fail")],
)
def test_an_epsilon_counts_to_its_tenth_digit(material, by, outcome):
    found = with_plan(material, "local")
    assert of_entries(*found, lambda entry: lowered(entry, by=by))[0] == outcome


def test_a_round_that_was_repeated_is_composed_too(material):
    found, plan = with_plan(material, "records")
    found = replace(found, compositions={"final_model": 9, "server": 8})
    assert of_entries(found, plan)[0] == "pass"
    again = of_entries(found, plan, lambda one: lowered(replace(one, round=one.round - 6)))
    assert again[0] == "fail"
    assert "round 2, " in again[1]


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    ("path", "check"),
    [
        (("privacy", "epsilon", 0, "value"), "report.epsilon"),
        (("privacy", "epsilon_max"), "report.epsilon_max"),
        (("privacy", "participations_max"), "report.participations_max"),
        (("data", "training_clients"), "report.training_clients"),
    ],
)
def test_a_smaller_figure_is_found(material, name, path, check):
    found, plan = with_plan(material, name)
    part = report = deepcopy(assemble(found))
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = part[path[-1]] // 2 if isinstance(part[path[-1]], int) else 0.01
    assert of_report(found, plan, report=report)[check] == "fail"


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    "change",
    [
        {"delta": 0.4},
        {"delta": None},
        {"accountant": "gdp"},
        {"adjacency": "zero-out-one"},
        {"mechanism": "laplace-l2"},
        {"event": "{}"},
        {"event": "null"},
        {"event": "["},
        {"event": "[" * 100_000},
        {"event": '{"event":' * 20_000},
        {"event": '{"kind":"gaussian","noise_multiplier":1000}'},
        {"event": '{"kind":"gaussian","noise_multiplier":1e-300}'},
        {"event": '{"kind":"gaussian","noise_multiplier":1' + "0" * 400 + "}"},
        {"event": '{"kind":"fixed-size-sampled","population":1' + "0" * 30 + "}"},
    ],
    ids=lambda change: str(change)[:50],
)
def test_another_mechanism_is_found_by_entries_and_report(material, name, change):
    found, plan = with_plan(material, name)
    outcome, said = of_entries(found, plan, changed_inputs(**change))
    assert outcome == "fail"
    assert "round 1, release 0" in said
    assert of_report(found, plan, changed_inputs(**change))["ledger.inputs"] == "fail"


def test_a_guarantee_of_another_kind_and_inputs_that_change_are_found(material):
    found, plan = with_plan(material, "central")
    heuristic = changed_inputs(guarantee="heuristic")
    assert of_report(found, plan, heuristic)["ledger.inputs"] == "fail"

    def change(entry):
        return replace(entry, inputs=replace(entry.inputs, delta=1e-5 / entry.round))

    assert of_entries(found, plan, change)[0] == "fail"


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    ("column", "value", "outcomes"),
    [
        ("releases", 2**31 - 1, ("fail", "unchecked")),
        ("releases", -1, ("fail",)),
        ("releases", -(2**31), ("fail",)),
        ("observer", "nobody", ("fail",)),
        ("subject_kind", "nobody", ("fail",)),
    ],
)
def test_columns_of_any_size_end_in_an_outcome(material, name, column, value, outcomes):
    def change(entry):
        of_all = np.full(len(entry.subjects), value, np.int32) if column == "releases" else value
        return replace(entry, **{column: of_all})

    assert of_entries(*with_plan(material, name), change)[0] in outcomes


@pytest.mark.parametrize("field", ["steps", "record_rate", "noise_multiplier", "client_rate"])
@pytest.mark.parametrize("value", [10**400, 1e300, 1e-300, -1, "1", None, []], ids=str)
def test_events_of_records_of_any_form_end_in_an_outcome(material, field, value):
    found, plan = with_plan(material, "records", baseline="uniform")

    def change(events):
        first, *rest = events
        return [{**first, "event": {**first["event"], field: value}}, *rest]

    assert of_entries(found, plan, changed_events(plan, change))[0] == "fail"


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"event": {"client_rate": 0.01}}, "ledger.inputs"),
        ({"event": {"steps": 1}}, "ledger.inputs"),
        ({"event": {"noise_multiplier": 1e6}}, "ledger.inputs"),
        ({"event": {"noise_multiplier": 10**400}}, "ledger.inputs"),
        ({"event": {"record_rate": 2.0}}, "ledger.inputs"),
        # A personalised record leaves when its budget is spent.
        ({"lasts": 1}, "ledger.inputs"),
        ({"lasts": 10**30}, "ledger.inputs"),
        # A smaller rate is possible, and does not give the epsilon that was reported.
        ({"event": {"record_rate": 0.001}}, "report.epsilon"),
    ],
    ids=str,
)
def test_events_of_records_are_those_of_spec_and_report(material, changes, check):
    found, plan = with_plan(material, "records")

    def change(events):
        first, *rest = events
        event = {**first["event"], **changes.get("event", {})}
        return [{**first, **changes, "event": event}, *rest]

    assert of_report(found, plan, changed_events(plan, change))[check] == "fail"


def test_earlier_ledgers_do_not_say_that_records_leave(material):
    found, plan = with_plan(material, "records")
    older = changed_events(plan, lambda events: [{**one, "lasts": None} for one in events])
    assert of_report(found, plan, older)["ledger.inputs"] == "pass"


def test_too_many_events_are_left_unchecked(material, monkeypatch):
    found, plan = with_plan(material, "records")
    outcome, said = of_entries(found, plan, changed_events(plan, lambda events: events * 2000))
    assert (outcome, said) == ("unchecked", "the entries' event is too long to be recomposed")
    outcomes = of_report(found, plan, changed_events(plan, lambda events: events * 5001))
    assert outcomes["ledger.inputs"] == "unchecked"
    assert "report.epsilon" not in outcomes
    monkeypatch.setattr(entry_epsilons, "_MAX_PLACES", 1000)
    assert of_entries(found, plan)[0] == "unchecked"


def test_without_a_spec_nothing_follows(material):
    assert of_entries(*with_plan(material, "local"), spec=False)[0] == "unchecked"


_ANY_EPSILON: list[Any] = [None, 3, "x", [], [{}], [{"observer": [], "value": 1}]]
_ANY_EPSILON += [[{"observer": "server", "value": 10**400}]]


@pytest.mark.parametrize(
    ("section", "field", "value", "check"),
    [
        *(("privacy", "epsilon", value, "report.epsilon") for value in _ANY_EPSILON),
        *(
            ("data", "clients", value, "report.training_clients")
            for value in (None, 1, 10**40, True, "60")
        ),
    ],
)
def test_a_reported_value_of_any_form_ends_in_an_outcome(material, section, field, value, check):
    found, plan = with_plan(material, "local")
    report = deepcopy(assemble(found))
    report[section][field] = value
    assert of_report(found, plan, report=report)[check] == "fail"
