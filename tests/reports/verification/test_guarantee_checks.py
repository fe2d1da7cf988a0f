"""What a report states of its guarantee follows from the spec."""

import pytest

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verification.verification import verify
from tests.reports.signed_run import KEY, signed_run


@pytest.mark.parametrize(
    ("name", "value"),
    [("in_force", True), ("label", "formal"), ("conditions", {"leakage_max": "in its place"})],
)
def test_a_better_guarantee_is_found_though_the_report_was_signed_again(tmp_path, name, value):
    run = signed_run()
    assert run.report["guarantee"][name] != value
    guarantee = {**run.report["guarantee"], name: value}
    run.report = sign_report({**run.report, "guarantee": guarantee}, KEY)
    with opened_bundle(run.write(tmp_path / "b.zip")) as evidence:
        found = verify(evidence, trusted=[KEY.public])
    assert found.verdict == "altered"
    failed = [one.name for one in found.checks if one.outcome == "fail"]
    assert set(failed) - {"report.answer"} == {f"report.guarantee.{name}"}


def test_another_answer_is_found_though_the_report_was_signed_again(tmp_path):
    run = signed_run()
    answer = {"outcome": "release", "reasons": [{"code": "gates-passed", "text": "all passed"}]}
    assert run.report["answer"]["outcome"] == "do-not-release"
    run.report = sign_report({**run.report, "answer": answer}, KEY)
    with opened_bundle(run.write(tmp_path / "b.zip")) as evidence:
        found = verify(evidence, trusted=[KEY.public])
    assert found.verdict == "altered"
    assert [one.name for one in found.checks if one.outcome == "fail"] == ["report.answer"]


def test_a_report_of_another_form_may_not_contradict_its_ledger(tmp_path):
    """A new signature does not let a figure hide behind a missing field."""
    run = signed_run()
    left = {name: part for name, part in run.report.items() if name != "advice"}
    privacy = {**left["privacy"], "leakage_max": left["privacy"]["leakage_max"] / 2}
    outcomes = []
    for report in (left, {**left, "privacy": privacy}):
        run.report = sign_report(report, KEY)
        with opened_bundle(run.write(tmp_path / "b.zip")) as evidence:
            outcomes.append(verify(evidence, trusted=[KEY.public]))
    honest, false = outcomes
    assert [one.outcome for one in honest.checks if one.name == "report.form"] == ["unchecked"]
    assert not [one.name for one in honest.checks if one.outcome == "fail"]
    assert false.verdict == "altered"
