"""Checks of a stored report beside its ledger: form, words, answer, noise, held-out charges."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.cli.run import LocalRun, run_locally
from fedaudit.ledger.columns import EntryColumns
from fedaudit.privacy.count_release import count_release
from fedaudit.reports.page.html import render
from fedaudit.reports.report import Report, assemble, has_present_form
from fedaudit.reports.sections.guarantee import noise_checks
from fedaudit.reports.sections.held_out_privacy import ReportCharges
from fedaudit.reports.sections.outcome_words import words_checks
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.spec.parse import parse_admitted, parse_spec
from fedaudit.spec.privacy import LeakageTarget
from tests.reports import signed_run as small_run
from tests.reports.conftest import SPEC as REPORTED
from tests.reports.sections.test_epsilon_report import SPECS, with_plan
from tests.reports.signed_run import KEY, signed_run
from tests.reports.verification.test_verification import failed, judged
from tests.runs.test_blocks import NOISE
from tests.training.specs import groups_spec


def test_a_report_may_have_more_than_is_read_and_never_less(material) -> None:
    """A version that drops a section goes on reading the reports that have it."""
    report = assemble(material())
    later = {**report, "retired": {"figure": 1.0}}
    assert has_present_form(report)
    assert has_present_form(later)
    assert render(later) == render(report)
    assert not any(
        has_present_form({name: report[name] for name in report if name != missing})
        for missing, field in Report.model_fields.items()
        if field.is_required()
    )
    earlier = {name: part for name, part in report.items() if name != "answer"}
    assert has_present_form(earlier)
    assert render(earlier) == render(report)


def test_an_outcome_or_group_by_another_name_is_found(material) -> None:
    labels = {"labels": {"group": {"g1": "majority"}}}
    report = assemble(material({"federation": {**REPORTED["federation"], **labels}}))
    section = report["fairness"][0]
    assert [one.outcome for one in words_checks(report)] == ["pass"]
    for changed in (
        {name: one for name, one in section.items() if name != "favourable"},
        {**section, "favourable": "denied"},
        {**section, "favourable": None},
        {**section, "groups": [{**section["groups"][0], "label": "minority"}]},
        {**section, "groups": [{**one, "label": None} for one in section["groups"]]},
        {**section, "groups": [{"label": "majority"}]},
        {**section, "groups": None},
    ):
        found = words_checks({**report, "fairness": [changed]})
        assert [one.outcome for one in found] == ["fail"], changed


ANSWER = {"outcome": "release", "reasons": [{"code": "gates-passed", "text": "all passed"}]}


@pytest.mark.parametrize(
    "change",
    [
        *({"gate_outcome": outcome} for outcome in ("fail", "insufficient_evidence", None)),
        {"answer": ANSWER},
    ],
    ids=str,
)
def test_another_outcome_is_found_though_the_report_was_signed_again(tmp_path, change):
    run = signed_run()
    assert run.report["answer"]["outcome"] == "do-not-release"
    run.report = sign_report({**run.report, **change}, KEY)
    found = judged(run.write(tmp_path / "b.zip"), KEY)
    assert found.verdict == "altered"
    [name] = change
    assert f"report.{name}" in failed(found)
    assert name == "gate_outcome" or list(failed(found)) == ["report.answer"]


def test_a_report_of_another_form_may_not_contradict_its_ledger(tmp_path):
    """A new signature does not let a figure hide behind a missing field."""
    run = signed_run()
    left = {name: part for name, part in run.report.items() if name != "advice"}
    privacy = {**left["privacy"], "leakage_max": left["privacy"]["leakage_max"] / 2}
    outcomes = []
    for report in (left, {**left, "privacy": privacy}):
        run.report = sign_report(report, KEY)
        outcomes.append(judged(run.write(tmp_path / "b.zip"), KEY))
    honest, false = outcomes
    assert [one.outcome for one in honest.checks if one.name == "report.form"] == ["unchecked"]
    assert not failed(honest)
    assert false.verdict == "altered"


NAME = "report.noise_multiplier"


@pytest.mark.parametrize(("asked", "faults"), [(4.0, []), (3.9, ["report.target_met"])])
def test_a_target_that_the_noise_does_not_meet_is_found(tmp_path, monkeypatch, asked, faults):
    # Six rounds of n / nu = 2 / 3.
    privacy = small_run.SPEC.privacy.model_copy(update={"target": LeakageTarget(leakage=asked)})
    monkeypatch.setattr(small_run, "SPEC", small_run.SPEC.model_copy(update={"privacy": privacy}))
    found = judged(signed_run().write(tmp_path / "b.zip"), KEY)
    assert "report.target_met" in [one.name for one in found.checks]
    assert list(failed(found)) == faults


@pytest.mark.parametrize("name", [None, *SPECS])
def test_set_and_calibrated_noise_are_checked(material: Any, name: str | None) -> None:
    found = material() if name is None else with_plan(material, name)[0]
    report = assemble(found)
    stated = report["privacy"]["noise_multiplier"]
    forms = (None, True, "3", [], {}, 10**400, float("inf"), float("nan"))
    for value in (stated, stated * 0.99, stated * 1.001, stated * 10, *forms):
        report["privacy"]["noise_multiplier"] = value
        [one] = noise_checks(found.spec, report)
        assert (one.name, one.outcome == "pass") == (NAME, value is stated), value


def test_where_the_noise_follows_from_the_data_none_may_be_stated(material: Any) -> None:
    found, _ = with_plan(material, "records", baseline="uniform")
    report = assemble(found)
    assert report["privacy"]["noise_multiplier"] is None
    assert [one.outcome for one in noise_checks(found.spec, report)] == ["pass"]
    report["privacy"]["noise_multiplier"] = 2.0
    assert [one.outcome for one in noise_checks(found.spec, report)] == ["fail"]


PLAIN = groups_spec(
    training__rounds=8, training__stopping={"validate_every": 3}, fairness__noise=NOISE
)
SPEC = {**PLAIN, "fairness": {**PLAIN["fairness"], "noise": {**NOISE, "rounds": True}}}
"""Of a stored run."""


@pytest.fixture(scope="module")
def done() -> LocalRun:
    return run_locally(parse_spec(PLAIN), sources_dir=None, device="cpu", progress=lambda _: None)


def test_a_whole_run_charges_its_report(done: LocalRun) -> None:
    charges = ReportCharges(parse_admitted(PLAIN))
    for entry in done.ledger.entries:
        charges.read(entry)
    assert [one.outcome for one in charges.checks(done.report)] == ["pass", "pass"]


@pytest.mark.parametrize(
    ("lost", "charged", "outcome"),
    [
        ([], [3, 6, 8], "pass"),  # it ended before its report
        ([], [3, 6, 8, 9], "pass"),
        ([], [3, 6, 9], "fail"),
        ([7, 8], [3, 6, 9], "pass"),
        # Training ended with a round that was played as one of many, or was known to be the last.
        ([8], [3, 6, 9], "pass"),
        ([8], [3, 6, 7, 9], "pass"),
        ([8], [3, 9], "fail"),
        ([8], [3, 6, 7, 8, 9], "fail"),
    ],
)
def test_where_rounds_are_lost_others_may_be_the_last(done, lost, charged, outcome):
    entries = done.ledger.entries
    held_out = [entry for entry in entries if entry.charge_report]
    charges = ReportCharges(parse_admitted(SPEC))
    for entry in entries:
        if not entry.charge_report:
            lost_or_not = replace(entry, interrupted=[entry.keys[0].round in lost])
            charges.read(lost_or_not)
    for entry in _as_often(held_out, charged):
        charges.read(entry)
    assert [one.outcome for one in charges.checks(None)] == [outcome]


def test_a_round_of_any_number_ends_in_a_verdict(done: LocalRun) -> None:
    """Nothing is counted up to it."""
    charges = ReportCharges(parse_admitted(SPEC))
    first, *_ = done.ledger.entries
    for entry in (*done.ledger.entries, replace(first, keys=[first.keys[0]._replace(round=2**63)])):
        charges.read(entry)
    assert next(iter(charges.checks(None))).outcome == "fail"


def _as_often(held_out: list[EntryColumns], rounds: Sequence[int]) -> list[EntryColumns]:
    """The charge of a run, as often as a stored one was charged, for these rounds."""
    release = count_release(parse_spec(PLAIN))
    assert release is not None
    [one] = held_out
    return [
        replace(
            one,
            keys=[one.keys[0]._replace(round=round_)],
            releases=np.array([place], dtype=np.int32),
            epsilons=np.array([release.epsilon(place)]),
        )
        for place, round_ in enumerate(rounds, 1)
    ]
