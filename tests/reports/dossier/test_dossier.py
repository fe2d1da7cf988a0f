"""The dossier: what it answers, what it leaves open, what it is bound to, and its folder."""

import io
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from markupsafe import escape
from pypdf import PdfReader

from fedaudit.ledger.bundle import Evidence, NotABundleError
from fedaudit.ledger.statements import SignOff
from fedaudit.number_text import bound_text
from fedaudit.reports.dossier.dossier import AS_OF, SCHEMA, dossier, dossier_files, dossier_page
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.page.pdf import pdf_of
from fedaudit.reports.readings.readings import READINGS
from fedaudit.reports.report import assemble, gated, judged_later, report_hash
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verdict import verdict
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verification.verification import verify_folder
from fedaudit.spec.canonical import canonical_hash, canonical_json
from fedaudit.spec.gates import Gate
from tests.reports.page.report_shapes import shapes
from tests.reports.page.weasyprint_here import needs_pango
from tests.reports.reading_documents import by_distance, documents
from tests.reports.signed_run import ID, KEY, later_statement, signed_run

ALARM = {
    **{"kind": "membership", "status": "done", "method": "relative"},
    **{"auc": 0.9, "membership_tpr_at_1pct": 0.4},
    "alarm": {"claim": "Little.", "evidence": "Much."},
}


def later_alarm(report: dict[str, Any]) -> dict[str, Any]:
    hashes = {"ledger_hash": report["integrity"]["ledger_hash"], "report_hash": report_hash(report)}
    return later_statement(ALARM, **hashes)


def evidence(report: dict[str, Any], **more: Any) -> Evidence:
    return Evidence(ID, report["spec"], report, [KEY.public], **more)


def figure(report: dict[str, Any], label: str) -> dict[str, Any]:
    [found] = [one for one in dossier(evidence(report))["figures"] if one["label"] == label]
    return found


def written(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize("since", [AS_OF, *(one.as_of for one in READINGS.values())])
def test_no_text_was_compared_with_its_source_longer_ago_than_twelve_months(since: date) -> None:
    """Where this fails: compare the template with its source of today, then change its `as_of`."""
    assert since <= datetime.now(UTC).date() <= since + timedelta(days=365)


def test_every_control_is_answered_or_named_as_open(material) -> None:
    for name, report in documents(material).items():
        found = dossier(evidence(report))
        jsonschema.validate(json.loads(json.dumps(found)), SCHEMA)
        numbers = [one["control"] for one in found["controls"]]
        assert numbers[:3] == ["3.3.07", "3.3.09", "3.1.16"]
        assert len([one for one in numbers if one.startswith("5.")]) == 21
        answers = [said for one in found["controls"] for said in one["answers"]]
        opened = [one for one in answers if one["status"] == "open"]
        assert found["open"] == len(found["open_questions"]) == len(opened) >= 7, name
        assert found["answer"] == answer_of(report).model_dump(mode="json")
        named = {one["name"]: one for one in found["evidence"]}
        rows = [*answers, *found["figures"]]
        assert {part for one in rows for part in one["evidence"]} <= named.keys()
        for one in named.values():
            if one["pointer"]:
                assert one["sha256"] == canonical_hash(report[one["pointer"][1:]])
        page = dossier_page(found)
        assert f"{found['open']} questions are open" in page
        assert all(one["sha256"] in page for one in named.values() if not one["pointer"])
        assert all(escape(one["statement"]) in page for one in answers if one["question"])
        if found["answer"]["outcome"] != "release":
            said = " ".join(found["against"])
            for reason in found["answer"]["reasons"]:
                text = reason["text"][1:].replace("equalized_odds", "equalized odds")
                assert text[:20] in said


def test_the_criteria_are_those_of_the_report(material) -> None:
    report = documents(material)["adaptive"]
    found = dossier(evidence(report))["criteria"]
    assert set(found) == {
        *("output_package", "thresholds", "suppression_rules", "perturbation_rules"),
        *("model_requirements", "risk_appetite", "versions"),
    }
    assert found["output_package"]["report_sha256"] == report_hash(report)
    assert [one["bound"] for one in found["thresholds"]] == [
        one["bound"] for one in report["gates"]
    ]
    assert found["suppression_rules"]["minimum_group_size"] == 30
    assert found["perturbation_rules"]["settings"] == report["spec"]["privacy"]
    assert not found["perturbation_rules"]["in_force"]


def test_figures_say_no_more_than_was_proven(material) -> None:
    made = documents(material)
    costs = {name: figure(one, "How strong") for name, one in made.items()}
    assert "may be right" in costs["gaussian"]["reading"]
    planned = bound_text(made["gaussian"]["privacy"]["epsilon_planned"])
    assert costs["gaussian"]["stated"].startswith(f"Epsilon at most {planned} against")
    assert "nothing is bounded" in costs["adaptive"]["reading"]
    assert "unbounded" in costs["nothing"]["stated"]
    weak = {**made["gaussian"], "guarantee": {**made["gaussian"]["guarantee"], "delta": 0.02}}
    assert "not far below 1" in figure(weak, "Delta")["reading"]
    server = {name: figure(one, "The server")["stated"] for name, one in made.items()}
    assert (server["gaussian"], server["adaptive"], server["nothing"]) == ("no", "no", "no")
    proven = {**made["adaptive"]["guarantee"], "in_force": True}
    heuristic = {**made["adaptive"], "guarantee": proven}
    assert figure(heuristic, "The server")["stated"] == "not proven"
    assert "no all-clear" in figure(heuristic, "None")["stated"]


def test_a_weak_bound_that_passed_is_named_beneath_the_answer(material) -> None:
    report = documents(material)["gaussian"]
    figures = {**report["privacy"], "epsilon_max": 9.5, "epsilon_planned": None}
    gate = {"figure": "epsilon_max", "attribute": None, "op": "le", "bound": 10, "value": 9.5}
    figures["epsilon"] = [{**figures["epsilon"][0], "value": 9.5}]
    useful = {**report["utility"], "improved": True, "degenerate": False}
    weak = {**report, "privacy": figures, "utility": useful, "fairness": []}
    weak |= {"spec": {**report["spec"], "gates": [gate]}, "gate_outcome": "pass"}
    weak["gates"] = [{**gate, "outcome": "pass", "reason": "9.5 is at most 10"}]
    found = dossier(evidence(weak))
    assert found["answer"]["outcome"] == "release"
    assert "weak: a guess is right at most 99.993% of" in found["answer"]["reasons"][0]["text"]
    assert "The guarantee is weak" in found["caution"]
    assert "The bound is weak" in found["against"][0]
    assert figure(weak, "Recipients of the model")["stated"] == "yes, but weakly"
    page = dossier_page(found)
    assert page.index("May be released") < page.index(escape(found["caution"])) < 30_000
    [shared] = [one for one in found["controls"] if one["control"] == "5.1.04"]
    assert "No attack was run" in shared["answers"][0]["statement"]
    simulated = documents(material)["adaptive"]
    [kept] = [one for one in dossier(evidence(simulated))["controls"] if one["control"] == "5.1.04"]
    assert "Do not share" in kept["answers"][0]["statement"]


def test_an_alarm_after_the_report_decides() -> None:
    report = signed_run().report
    assert report is not None
    found = dossier(evidence(report, later_attacks=[later_alarm(report)]))
    assert found["answer"]["outcome"] == "do-not-release"
    assert found["answer"]["reasons"][0]["code"] == "attack-raised-alarm"
    [attack] = [one for one in found["figures"] if one["part"] == "attacks"]
    assert "ALARM" in attack["stated"]
    assert "an attack contradicts it" in found["figures"][0]["stated"]
    assert {"later_attacks"} <= {one["name"] for one in found["evidence"]}


@pytest.mark.parametrize("why", [None, "other attacks came before"])
def test_canaries_are_an_all_clear_only_where_their_bound_says_so(why: str | None) -> None:
    bound = {"name": "lira", "epsilon_lower_bound": 0.1, "power": 0.95, "all_clear": why}
    attack = {"kind": "canaries", "status": "done", "count": 90, "alarm": None, "bounds": [bound]}
    found = dossier(evidence({**(signed_run().report or {}), "attacks": [attack]}))
    [stated] = [one["stated"] for one in found["figures"] if one["part"] == "attacks"]
    assert ("no all-clear" in stated) == (why is not None and why in stated)


def test_a_folder_is_verified_and_each_altered_file_is_named(tmp_path: Path) -> None:
    report = {**(signed_run().report or {}), "model": {"sha256": "0" * 64}}
    report["integrity"] = {**report["integrity"], "signature": None}
    report = sign_report(report, KEY)
    found = evidence(report, later_attacks=[later_alarm(report)])
    files = dossier_files(found, printed=None)
    whole = verify_folder(written(tmp_path / "whole", files), trusted=[KEY.public])
    assert whole.verdict == "valid", [one for one in whole.checks if one.outcome != "pass"]
    assert verify_folder(tmp_path / "whole").verdict == "consistent, signer untrusted"
    document = json.loads(files["dossier.json"])
    altered = {
        "report.json": canonical_json({**report, "privacy": {**report["privacy"], "refusals": 0}}),
        "dossier.json": canonical_json({**document, "notice": "Approved."}),
        "dossier.html": files["dossier.html"].replace(b"questions are open", b"questions open"),
        "later-attacks.json": canonical_json([]),
    }
    faults = {"report.json": "dossier.privacy", "dossier.json": "dossier.words"}
    faults |= {"dossier.html": "dossier.page", "later-attacks.json": "dossier.later_attacks"}
    for name, content in altered.items():
        changed = {**files, name: content}
        wrong = verify_folder(written(tmp_path / name, changed), trusted=[KEY.public])
        words = name in ("dossier.json", "dossier.html")
        assert wrong.verdict == ("consistent, signer untrusted" if words else "altered")
        assert faults[name] in [one.name for one in wrong.checks if one.outcome != "pass"]
    released = canonical_json({**document, "answer": {"outcome": "release", "reasons": []}})
    swapped = verify_folder(written(tmp_path / "swapped", {**files, "dossier.json": released}))
    assert "dossier.follows" in [one.name for one in swapped.checks if one.outcome == "fail"]
    (tmp_path / "whole" / "model.safetensors").write_bytes(b"another model")
    failed = [one.name for one in verify_folder(tmp_path / "whole").checks if one.outcome == "fail"]
    assert failed == ["dossier.model_file"]
    # Nothing of that name is left unread: neither a file too large for memory nor a folder.
    with (tmp_path / "whole" / "model.safetensors").open("wb") as large:
        large.truncate(2**28 + 1)
    assert verify_folder(tmp_path / "whole").verdict == "altered"
    (tmp_path / "whole" / "model.safetensors").unlink()
    (tmp_path / "whole" / "model.safetensors").mkdir()
    assert verify_folder(tmp_path / "whole").verdict == "altered"
    with pytest.raises(NotABundleError, match=r"has no dossier\.json"):
        verify_folder(tmp_path)


QUIET = {**ALARM, "auc": 0.5, "membership_tpr_at_1pct": 0.01, "alarm": None}
MISSED = {**{"figure": "leakage_max", "op": "le", "value": 1}, "allow_heuristic": True}


def evaluated_then(*judged: Any) -> list[dict[str, Any]]:
    """As by a version that let no gate fail by simulated noise, and had other words."""
    then = {"outcome": "insufficient_evidence", "reason": "In words of then."}
    return [{**one, **then} for one in evaluate(*judged)]


@pytest.fixture
def of_then(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """A report that such a version judged, and the statement on an attack that found nothing."""
    run = signed_run().report
    assert run is not None
    report = {**run, "spec": {**run["spec"], "gates": [MISSED]}}
    with monkeypatch.context() as earlier:
        earlier.setattr("fedaudit.reports.report.evaluate", evaluated_then)
        report |= gated([Gate.model_validate(MISSED)], report)
    report |= verdict.judged(report)
    report["integrity"] = {**report["integrity"], "signature": None}
    report = sign_report(report, KEY)
    hashes = {"ledger_hash": report["integrity"]["ledger_hash"], "report_hash": report_hash(report)}
    return report, later_statement(QUIET, **hashes)


def test_an_attack_that_finds_nothing_leaves_gates_as_an_earlier_version_judged(of_then) -> None:
    report, _ = of_then
    assert evaluate([Gate.model_validate(MISSED)], report)[0]["outcome"] == "fail"
    found = judged_later(report, [QUIET])
    assert (found["gates"], found["gate_outcome"]) == (report["gates"], "insufficient_evidence")
    alarmed = judged_later(report, [QUIET, ALARM])
    assert alarmed["gate_outcome"] == "insufficient_evidence"
    assert "find out which of the two is wrong" in alarmed["gates"][0]["reason"]


@pytest.mark.parametrize("anew", [False, True], ids=["as signed", "judged anew since then"])
def test_what_an_earlier_version_made_of_later_attacks_is_not_altered(of_then, tmp_path, anew):
    report, attacked = of_then
    concerns = tuple(verdict.concerns_of(judged_later(report, [QUIET], anew=anew)))
    assert ("gates-failed" in concerns) is anew
    of = {"experiment_id": ID, "number": 1, "report_hash": report_hash(report), "role": None}
    words = dict.fromkeys(("note", "person", "key_id", "key_name", "signed_off_at"), "Known.")
    signed = SignOff(**of, **words, decision="approved", concerns=concerns, by_submitter=None)
    sign_offs = [signed.sign_after(None, KEY).as_dict()]
    found = evidence(report, later_attacks=[attacked], sign_offs=sign_offs)
    document = dossier(found, anew=anew)
    [gate] = document["criteria"]["thresholds"]
    for outcome in ("fail", "insufficient_evidence", "pass"):
        gate |= {"outcome": outcome, "reason": "In words of then."}
        files = dossier_files(found, printed=None) | {"dossier.json": canonical_json(document)}
        verified = verify_folder(written(tmp_path / outcome, files), trusted=[KEY.public])
        failed = [one.name for one in verified.checks if one.outcome == "fail"]
        assert failed == (["dossier.follows"] if outcome == "pass" else []), outcome


@needs_pango
def test_on_paper_it_has_four_pages_at_most(material) -> None:
    reports = {name: made for name, made, _ in shapes(material) if name == "four attributes"}
    many = assemble(material())
    many["spec"]["gates"], many["gates"] = many["spec"]["gates"] * 40, many["gates"] * 40
    for name, report in {**reports, "many gates": many}.items():
        pages = PdfReader(io.BytesIO(pdf_of(dossier_page(dossier(evidence(report)))))).pages
        assert len(pages) <= 4, name
        assert "questions are open" in pages[0].extract_text()


CLIENT_INFERENCE = {
    **{"kind": "client-inference", "status": "done", "auc": 0.625, "detectable_auc": 0.75},
    "advantage": {"value": 0.25, "low": -0.125, "high": 0.5},
}


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_of_noise_by_distance_it_says_that_nothing_is_bounded(material, noise: str) -> None:
    report = {**by_distance(material, noise), "attacks": [CLIENT_INFERENCE]}
    page = dossier_page(dossier(evidence(report)))
    stated = ("No figure: the cost is unbounded.", "noise on the model: gaussian-distance")
    attacked = ("AUC 0.625", "25 % (-12.5 to 50)", "this is no all-clear")
    assert [words for words in (*stated, *attacked) if words not in page] == []
    denied = ("No noise.", "too large to protect", "Recovered share")
    assert [words for words in denied if words in page] == []
