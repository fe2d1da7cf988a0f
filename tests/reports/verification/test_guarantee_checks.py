"""What a report states of its guarantee follows from the spec."""

import pytest

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.sections.integrity import sign_report
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
    assert failed == [f"report.guarantee.{name}"]
