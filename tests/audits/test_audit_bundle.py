"""What an audit leaves can be verified without its service, and an altered figure is found."""

import copy
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import delete, text, update

from fedaudit.cli.output import CommandError, ExitCode
from fedaudit.cli.verify import verify_command
from fedaudit.ledger.bundle import Evidence, bundle_chunks, opened_bundle
from fedaudit.ledger.statements import SigningKey
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.reports.verification.verification import ALTERED, UNTRUSTED, VALID, verify
from models.repositories import SigningKeyRepository
from models.tables.experiments import PredictionAudit
from models.values import utc_now
from tests.api.pages.browser import signed_in
from tests.api.service import Api, running_api, served, settings_for
from tests.audits.service_audits import made
from tests.audits.tables import people, write
from tests.workers.serving import worker_of

GATES = [{"figure": "equalized_odds_difference", "op": "le", "value": 0.5}]
Change = Callable[[dict[str, Any]], Any]


@contextmanager
def fetched(api: Api, audit: dict[str, Any], folder: Path) -> Iterator[Evidence]:
    answer = api.get(f"/v1/audits/{audit['id']}/bundle")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    (folder / "bundle.zip").write_bytes(answer.content)
    with opened_bundle(folder / "bundle.zip") as evidence:
        yield evidence


@pytest.fixture(scope="module")
def audit(api: Api, sources: Path) -> dict[str, Any]:
    write(sources, people())
    return made(api, client_key="town", gates=GATES, labels={"sex": {"F": "women"}})


@pytest.fixture
def evidence(api: Api, audit: dict[str, Any], tmp_path: Path) -> Iterator[Evidence]:
    with fetched(api, audit, tmp_path) as found:
        # Of an audit there are none; a list can be read by several verifications.
        yield replace(found, rows=list(found.rows))


def _verify(source: str, **options: Any) -> int:
    with pytest.raises(typer.Exit) as ended:
        verify_command(source, **options)
    return ended.value.exit_code


def test_the_command_verifies_a_bundle_and_says_what_it_does_not(api, audit, tmp_path, capsys):
    key_file, path = tmp_path / "key.pem", tmp_path / "bundle.zip"
    key_file.write_text(worker_of(api).signing_key.public.pem)
    with fetched(api, audit, tmp_path):
        pass
    with zipfile.ZipFile(path) as archive:
        assert b"one audit of predictions" in archive.read("README.txt")
        assert archive.read("ledger.ndjson") == b""
    ended = _verify(str(path), public_key=key_file)
    output = capsys.readouterr().out
    assert ended == ExitCode.DONE
    assert f"valid: audit {audit['id']}\n" in output
    assert "not verified: The rows are not here" in output
    with pytest.raises(CommandError, match="is in no log of runs"):
        verify_command(str(path), public_key=key_file, earlier=[path])
    # An audit is in no log either: that nothing was set back is not shown by what is there.
    assert _verify(str(path), public_key=key_file, earlier=[key_file]) == ExitCode.NO_EVIDENCE
    capsys.readouterr()
    ended = _verify(str(path), as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert (ended, said["verdict"]) == (ExitCode.NO_EVIDENCE, UNTRUSTED)
    assert said["beyond"]
    assert not {"ledger_hash", "entries"} & said.keys()


def test_the_command_fetches_an_audit_by_its_id_with_a_key_that_reads_reports(
    api: Api, audit: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(api) as url:
        monkeypatch.setenv("FEDAUDIT_URL", url)
        for scopes in (("reports:read",), ("reports:read", "ledger:read")):
            monkeypatch.setenv("FEDAUDIT_API_KEY", api.key_with(*scopes))
            ended = _verify(audit["id"], as_json=True, out=tmp_path / "kept")
            assert ended == ExitCode.NO_EVIDENCE
        assert zipfile.is_zipfile(tmp_path / "kept")
        monkeypatch.setenv("FEDAUDIT_API_KEY", api.key_with("experiments:read"))
        with pytest.raises(CommandError, match="ledger:read"):
            verify_command(audit["id"], as_json=True)


def test_a_stored_report_that_cannot_be_read_was_altered(api, sources, tmp_path):
    write(sources, people(seed=8), "damaged.csv")
    id_ = made(api, path="damaged.csv", sensitive=["sex"])["id"]
    api.change(text("UPDATE prediction_audits SET report = '{' WHERE id = :id").bindparams(id=id_))
    checked = api.get(f"/v1/audits/{id_}/report/verification").json()
    assert (checked["verdict"], checked["valid"]) == (ALTERED, False)
    api.change(delete(PredictionAudit).where(PredictionAudit.id == id_))


def _group(report: dict[str, Any], place: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = report["fairness"][0]["groups"][place]
    return found


def _metric(report: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = report["fairness"][0]["metrics"][name]
    return found


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda one: _group(one).update(selection_rate=0.6), "report.gaps"),
        (lambda one: _group(one).update(true_positive_rate=None), "report.gaps"),
        (lambda one: _group(one).update(suppressed=True), "report.gaps"),
        (lambda one: _group(one).update(label="men"), "report.words"),
        (
            lambda one: _metric(one, "demographic_parity_difference").update(value=0.01),
            "report.gaps",
        ),
        (lambda one: _metric(one, "accuracy_difference").update(value=None), "report.gaps"),
        (lambda one: one["gates"][0].update(bound=0.9), "report.gates"),
        (lambda one: one.update(gate_outcome="fail"), "report.gate_outcome"),
        (lambda one: one["answer"].update(outcome="release"), "report.answer"),
        (lambda one: one["spec"].update(threshold=0.7), "report.spec_hash"),
        (lambda one: one["guarantee"].pop("kind"), "report.kind"),
        (lambda one: one.pop("guarantee"), "report.kind"),
        (lambda one: one["experiment"].update(id="another"), "report.audit"),
        (lambda one: one.pop("fairness"), "report.gaps"),
    ],
)
def test_an_altered_figure_is_found(api, evidence, change, finding):
    key, thief = worker_of(api).signing_key, SigningKey.generate()
    assert verify(evidence, trusted=[key.public]).verdict == VALID
    altered = copy.deepcopy(evidence.report)
    change(altered)
    found = verify(replace(evidence, report=altered), trusted=[key.public])
    failed = {one.name for one in found.checks if one.outcome == "fail"}
    assert found.verdict == ALTERED
    assert {"report.signature", finding} <= failed
    # Signed anew, figures that do not follow from one another are still found.
    altered["integrity"]["key_id"] = thief.key_id
    forged = replace(evidence, report=sign_report(altered, thief), keys=[thief.public])
    found = verify(forged, trusted=[thief.public])
    assert finding in {one.name for one in found.checks if one.outcome == "fail"}


def test_what_no_check_recomputes_is_found_by_the_signature(api: Api, evidence: Evidence) -> None:
    key, thief = worker_of(api).signing_key, SigningKey.generate()
    altered = copy.deepcopy(evidence.report)
    altered["data"]["rows"] += 1
    found = verify(replace(evidence, report=altered), trusted=[key.public])
    assert [one.name for one in found.checks if one.outcome == "fail"] == ["report.signature"]
    altered["integrity"]["key_id"] = thief.key_id
    forged = replace(evidence, report=sign_report(altered, thief), keys=[thief.public])
    assert verify(forged, trusted=[key.public]).verdict == UNTRUSTED
    altered["integrity"] |= {"signature": None, "key_id": None}
    assert verify(replace(evidence, report=altered), trusted=[key.public]).verdict == ALTERED
    assert verify(replace(evidence, report=None), trusted=[key.public]).verdict == ALTERED


def test_a_ledger_that_came_with_an_audit_is_refused(evidence: Evidence, tmp_path: Path) -> None:
    parts = Evidence(
        experiment_id=evidence.experiment_id,
        spec=evidence.spec,
        names=["somebody"],
        report=evidence.report,
        keys=evidence.keys,
    )
    path = tmp_path / "foisted.zip"
    path.write_bytes(b"".join(bundle_chunks(parts, ())))
    with opened_bundle(path) as foisted:
        found = verify(foisted, trusted=evidence.keys)
    assert [one.name for one in found.checks if one.outcome == "fail"] == ["ledger.absent"]


@pytest.mark.parametrize(
    "asked",
    [
        {"rounding": {"base": 5}, "sensitive": ["sex"]},
        {"intersections": [["sex", "race"]], "minimum_group_size": 100},
        {"sensitive": ["race"], "reference_group": "A"},
        {"prediction": None, "score": "score", "threshold": 0.99, "sensitive": ["sex"]},
        {"intervals": None},
    ],
    ids=["rounded", "suppressed", "reference", "no share", "a gap without interval"],
)
def test_every_kind_of_audit_agrees_with_itself(api, sources, tmp_path, asked):
    write(sources, people(seed=5), "kinds.csv")
    with fetched(api, made(api, path="kinds.csv", **asked), tmp_path) as evidence:
        found = verify(evidence, trusted=[worker_of(api).signing_key.public])
        # Audits of earlier versions did not say whether they count doubts.
        answer = {**evidence.report["answer"], "counts_doubts": None}
        earlier = replace(evidence, report={**evidence.report, "answer": answer})
        unsaid = verify(earlier, trusted=evidence.keys)
    assert (found.verdict, [one for one in found.checks if one.outcome != "pass"]) == (VALID, [])
    assert [one.name for one in unsaid.checks if one.outcome == "fail"] == ["report.signature"]


def test_both_databases_keep_what_an_audit_leaves(database_url, signing_key_file, tmp_path):
    settings = settings_for(database_url, tmp_path, signing_key_file=signing_key_file)
    with running_api(settings) as api:
        write(tmp_path / "sources", people() | {"predicted": ["yes"] * 600})
        audit = made(api, sensitive=["sex"])
        assert audit["status"] == "succeeded"
        again = made(api, prediction="absent", sensitive=["sex"])
        assert (again["status"], again["errors"][0]["pointer"]) == ("failed", "/prediction")
        listed = api.get("/v1/audits").json()["items"]
        assert [one["id"] for one in listed] == [again["id"], audit["id"]]
        key, _ = api.get("/v1/signing-keys").json()["items"]
        assert key["key_id"] == worker_of(api).signing_key.key_id
        with fetched(api, audit, tmp_path) as evidence:
            assert verify(evidence, trusted=evidence.keys).verdict == VALID
        checked = api.get(f"/v1/audits/{audit['id']}/report/verification").json()
        assert (checked["verdict"], checked["valid"]) == (UNTRUSTED, True)
        assert "The rows are not here" in checked["not_verified"][0]
        page = signed_in(api).get("/audits").text
        assert page.count("model-degenerate") == 1
        with api.database.write() as session:
            SigningKeyRepository(session).mark_compromised(key["key_id"], since=utc_now(), note="")
        with fetched(api, audit, tmp_path) as evidence:
            assert verify(evidence, trusted=evidence.keys).verdict == UNTRUSTED, "a leaked key"
        altered = {**(evidence.report or {}), "verdict": "All is well."}
        mine = update(PredictionAudit).where(PredictionAudit.id == audit["id"])
        api.change(mine.values(report=altered))
        checked = api.get(f"/v1/audits/{audit['id']}/report/verification").json()
        failed = {one["name"] for one in checked["checks"] if one["outcome"] == "fail"}
        assert (checked["verdict"], failed) == (ALTERED, {"report.signature", "report.hash"})
