"""The report's noise multiplier against its spec."""

from pathlib import Path
from typing import Any

import pytest

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.guarantee import noise_checks
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verification.verification import Verification, verify
from fedaudit.spec.privacy import LeakageTarget
from tests.reports import signed_run as small_run
from tests.reports.sections.test_epsilon_report import SPECS, with_plan
from tests.reports.signed_run import KEY, SignedRun, signed_run

NAME = "report.noise_multiplier"


def judged(run: SignedRun, folder: Path) -> Verification:
    with opened_bundle(run.write(folder / "b.zip")) as evidence:
        return verify(evidence, trusted=[KEY.public])


def test_a_changed_multiplier_is_found_though_the_report_was_signed_again(tmp_path: Path) -> None:
    run = signed_run()
    assert judged(run, tmp_path).verdict == "valid"
    privacy = {**run.report["privacy"], "noise_multiplier": 30.0}
    run.report = sign_report({**run.report, "privacy": privacy}, KEY)
    found = judged(run, tmp_path)
    assert found.verdict == "altered"
    assert [one.name for one in found.checks if one.outcome == "fail"] == [NAME]


@pytest.mark.parametrize(("asked", "failed"), [(4.0, []), (3.9, ["report.target_met"])])
def test_a_target_that_the_noise_does_not_meet_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: float, failed: list[str]
) -> None:
    # Six rounds of n / nu = 2 / 3.
    privacy = small_run.SPEC.privacy.model_copy(update={"target": LeakageTarget(leakage=asked)})
    monkeypatch.setattr(small_run, "SPEC", small_run.SPEC.model_copy(update={"privacy": privacy}))
    found = judged(signed_run(), tmp_path)
    assert "report.target_met" in [one.name for one in found.checks]
    assert [one.name for one in found.checks if one.outcome == "fail"] == failed


def outcome(found: Any, report: dict[str, Any]) -> str:
    [one] = noise_checks(found.spec, report)
    assert one.name == NAME
    return one.outcome


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("factor", [0.99, 1.001, 10])
def test_set_and_calibrated_noise_are_checked(material: Any, name: str, factor: float) -> None:
    found, _ = with_plan(material, name)
    report = assemble(found)
    assert outcome(found, report) == "pass"
    report["privacy"]["noise_multiplier"] *= factor
    assert outcome(found, report) == "fail"


@pytest.mark.parametrize("value", [None, True, "3", [], {}, 10**400, float("inf"), float("nan")])
def test_a_multiplier_of_any_form_ends_in_an_outcome(material: Any, value: Any) -> None:
    found = material()
    report = assemble(found)
    report["privacy"]["noise_multiplier"] = value
    assert outcome(found, report) == "fail"


def test_where_the_noise_follows_from_the_data_none_may_be_stated(material: Any) -> None:
    found, _ = with_plan(material, "records", baseline="uniform")
    report = assemble(found)
    assert report["privacy"]["noise_multiplier"] is None
    assert outcome(found, report) == "pass"
    report["privacy"]["noise_multiplier"] = 2.0
    assert outcome(found, report) == "fail"
