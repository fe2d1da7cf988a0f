"""The epsilons that ledger entries give their subjects, against events and counts."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedaudit.ledger.bundle import Evidence, bundle_chunks, opened_bundle
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.reports.verification import entries as entry_epsilons
from fedaudit.reports.verification.entries import EntryEpsilons
from fedaudit.reports.verification.verification import verify
from tests.ledger.single_entry import digest_of, link
from tests.reports.sections.test_epsilon_report import SPECS, with_plan
from tests.reports.signed_run import ID
from tests.reports.verification.test_epsilon_checks import changed_inputs, entries_of


def stored_spec(found):
    return found.spec.model_dump(mode="json")


def checked(found, plan, change=lambda entry: entry, *, spec=None):
    """The outcome, and what is said."""
    epsilons = EntryEpsilons(spec or found.spec, plan.subjects)
    for entry in entries_of(found, plan):
        epsilons.read(change(entry).columns)
    [one] = epsilons.checks()
    assert one.name == "ledger.epsilons"
    return one.outcome, one.detail


def verified(found, plan, path, change=lambda entry: entry):
    """What a bundle without a report ends in, every digest and link in it recomputed."""
    encoder, head, rows = EntryEncoder(plan.subjects), genesis(ID), []
    for honest in sorted(entries_of(found, plan), key=lambda one: (one.round, one.observer)):
        entry = change(honest)
        digest = digest_of(encoder, entry)
        head = link(head, digest, entry.clusters)
        rows.append(entry.row(digest=digest, link=head))
    parts = Evidence(
        experiment_id=ID,
        spec=stored_spec(found),
        names=plan.subjects,
        report=None,
        checkpoints=[],
        keys=[],
    )
    path.write_bytes(b"".join(bundle_chunks(parts, rows)))
    with opened_bundle(path) as evidence:
        return {one.name: one for one in verify(evidence).checks}


@pytest.mark.parametrize("name", SPECS)
def test_an_honest_ledger_passes(material, tmp_path, name):
    checks = verified(*with_plan(material, name), tmp_path / "b.zip")
    assert checks["ledger.epsilons"].outcome == "pass"
    assert not [one for one in checks.values() if one.outcome == "fail"]


def test_an_honest_ledger_by_loss_distributions_passes(material):
    assert checked(*with_plan(material, "central", accountant="pld"))[0] == "pass"


@pytest.mark.parametrize("baseline", [None, "uniform", "strong-for-all", "dropout", "filter"])
@pytest.mark.parametrize("distribution", ["three-levels", "bounded-pareto", "bounded-mix-gauss"])
def test_honest_baselines_pass(material, baseline, distribution):
    found, plan = with_plan(
        material, "records", baseline=baseline, budgets={"distribution": distribution}
    )
    found = replace(found, compositions={"final_model": 6, "server": 6})
    assert checked(found, plan)[0] == "pass"


def test_a_ledger_without_epsilons_has_no_such_check():
    assert not list(EntryEpsilons(None, ["a"]).checks())


def lowered(entry, *, by=0.9):
    """The last subject of one round pays less."""
    if entry.round != 2:
        return entry
    epsilons = np.array(entry.epsilons)
    epsilons[-1] *= by
    return replace(entry, epsilons=epsilons)


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


@pytest.mark.parametrize(("by", "outcome"), [(1 - 1e-8, "fail"), (1 + 1e-11, "pass"), (2, "fail"),
                                             (float("nan"), "fail"), (0, "fail")])  # fmt: skip
def test_digits(material, by, outcome):
    found, plan = with_plan(material, "local")
    assert checked(found, plan, lambda entry: lowered(entry, by=by))[0] == outcome


def test_a_round_that_was_repeated_is_composed_too(material):
    found, plan = with_plan(material, "records")
    found = replace(found, compositions={"final_model": 9, "server": 8})
    assert checked(found, plan)[0] == "pass"
    outcome, said = checked(
        found, plan, lambda entry: lowered(replace(entry, round=entry.round - 6))
    )
    assert outcome == "fail"
    assert "round 2, " in said


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
        {"event": "[]"},
        {"event": "["},
        {"event": "[" * 100_000},
        {"event": '{"event":' * 20_000},
        {"event": '{"kind":"gaussian","noise_multiplier":1e-300}'},
        {"event": '{"kind":"gaussian","noise_multiplier":1' + "0" * 400 + "}"},
        {"event": '{"kind":"fixed-size-sampled","population":1' + "0" * 30 + "}"},
    ],
    ids=lambda change: str(change)[:50],
)
def test_another_mechanism_is_found(material, name, change):
    outcome, said = checked(*with_plan(material, name), changed_inputs(**change))
    assert outcome == "fail"
    assert "round 1, release 0" in said


def test_inputs_that_change_from_entry_to_entry_are_found(material):
    def change(entry):
        return replace(entry, inputs=replace(entry.inputs, delta=1e-5 / entry.round))

    assert checked(*with_plan(material, "central"), change)[0] == "fail"


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize(
    ("columns", "outcomes"),
    [
        ({"releases": 2**31 - 1}, ("fail", "unchecked")),
        ({"releases": -1}, ("fail",)),
        ({"releases": -(2**31)}, ("fail",)),
        ({"observer": "nobody"}, ("fail",)),
        ({"subject_kind": "nobody"}, ("fail",)),
    ],
    ids=str,
)
def test_columns_of_any_size_end_in_an_outcome(material, name, columns, outcomes):
    def change(entry):
        values = {
            key: np.full(len(entry.subjects), value, np.int32) if key == "releases" else value
            for key, value in columns.items()
        }
        return replace(entry, **values)

    assert checked(*with_plan(material, name), change)[0] in outcomes


@pytest.mark.parametrize("field", ["steps", "record_rate", "noise_multiplier", "client_rate"])
@pytest.mark.parametrize("value", [10**400, 1e300, 1e-300, -1, "1", None, []], ids=str)
def test_events_of_records_of_any_form_end_in_an_outcome(material, field, value):
    found, plan = with_plan(material, "records", baseline="uniform")
    kept = json.loads(plan.events_json)
    for repeated_events in kept.values():
        repeated_events[0]["event"][field] = value
    assert checked(found, plan, changed_inputs(event=json.dumps(kept)))[0] == "fail"


def test_too_many_courses_are_left_unchecked(material, monkeypatch):
    found, plan = with_plan(material, "records")
    kept = {name: events * 2000 for name, events in json.loads(plan.events_json).items()}
    outcome, said = checked(found, plan, changed_inputs(event=json.dumps(kept)))
    assert (outcome, said) == ("unchecked", "the entries' event is too long to be recomposed")
    monkeypatch.setattr(entry_epsilons, "_MAX_PLACES", 1000)
    assert checked(found, plan)[0] == "unchecked"


def test_without_a_spec_nothing_follows(material):
    found, plan = with_plan(material, "local")
    epsilons = EntryEpsilons(None, plan.subjects)
    for entry in entries_of(found, plan):
        epsilons.read(entry.columns)
    assert [one.outcome for one in epsilons.checks()] == ["unchecked"]
