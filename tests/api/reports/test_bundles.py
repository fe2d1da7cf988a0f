"""Bundles over HTTP, and the keys that they are verified with."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from api.shared.page_printer import PagePrinter
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import SigningKey, public_keys_in
from fedaudit.reports.readings.readings import reading
from fedaudit.reports.verification.verification import verify
from models.repositories import SigningKeyRepository
from tests.api.pages.browser import signed_in
from tests.api.service import KEY, Api, fail, finish, finished, play


@pytest.fixture
def bundle(api: Api, tmp_path: Path) -> Path:
    """The bundle of a finished experiment."""
    id_ = finished(api)
    answer = api.get(f"/v1/experiments/{id_}/bundle")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert answer.content == api.get(f"/v1/experiments/{id_}/bundle").content
    path = tmp_path / "bundle.zip"
    path.write_bytes(answer.content)
    return path


@pytest.mark.parametrize(
    ("key", "verdict"),
    [
        (KEY, "valid"),
        (None, "consistent, signer untrusted"),
        (SigningKey.generate(), "consistent, signer untrusted"),
    ],
)
def test_a_bundle_is_judged_without_the_service(bundle, key, verdict):
    with opened_bundle(bundle) as evidence:
        found = verify(evidence, trusted=[] if key is None else [key.public])
    assert found.verdict == verdict
    assert {check.outcome for check in found.checks} == {"pass"}
    assert found.entries == 3


def test_a_run_without_a_report_has_a_bundle_too(api: Api, tmp_path: Path) -> None:
    id_ = api.submit()["id"]
    fail(api, id_)
    path = tmp_path / "bundle.zip"
    path.write_bytes(api.get(f"/v1/experiments/{id_}/bundle").content)
    with opened_bundle(path) as evidence:
        assert evidence.report is None
        assert verify(evidence, trusted=[KEY.public]).verdict == "consistent, signer untrusted"


def test_what_still_runs_has_no_bundle(api: Api) -> None:
    id_ = api.submit()["id"]
    for _ in range(2):
        answer = api.get(f"/v1/experiments/{id_}/bundle")
        assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (409, "conflict")
        if api.stored(id_).status == "queued":
            play(api, id_)


def test_signing_keys_are_listed_with_the_retired_ones(api: Api) -> None:
    for key in (KEY, SigningKey.generate()):
        with api.database.write() as session:
            SigningKeyRepository(session).use(
                key.key_id, algorithm="ed25519", public_key=key.public.pem
            )
    old, new = api.get("/v1/signing-keys").json()["items"]
    assert (old["key_id"], new["key_id"]) == (KEY.key_id, key.key_id)
    assert old["retired_at"] is not None
    assert new["retired_at"] is None
    assert public_keys_in(new["public_key"].encode()) == [key.public]


# -- readings of a report over HTTP ---------------------------------------------------------------


FORMS = {
    "registry": "application/json",
    "nist-800-226": "application/json",
    "impact-ratio": "application/json",
    "model-card": "text/markdown",
    "annex-iv": "application/json",
    "edpb-28-2024": "application/json",
}


def test_readings_are_declared(api: Api) -> None:
    document = api.get("/openapi.json", key=None).json()
    for name, form in FORMS.items():
        path = f"/v1/experiments/{{experiment_id}}/report/readings/{name}"
        assert [*document["paths"][path]["get"]["responses"]["200"]["content"]] == [form]
    assert {"NistReading", "ImpactRatioReading"} <= set(document["components"]["schemas"])


def test_a_reading_is_made_from_the_stored_report(api: Api) -> None:
    id_ = api.submit()["id"]
    document = finish(api, id_)
    path = f"/v1/experiments/{id_}/report"
    for name, form in FORMS.items():
        response = api.get(f"{path}/readings/{name}", headers={"Accept": "text/html"})
        assert response.status_code == 200
        assert "sunset" not in response.headers
        earlier = api.get(path, params={"reading": name})
        assert earlier.content == response.content
        assert earlier.headers["deprecation"].startswith("@")
        assert earlier.headers["sunset"].endswith("GMT")
        assert earlier.headers["link"] == f'<report/readings/{name}>; rel="successor-version"'
        assert response.headers["content-type"].partition(";")[0] == form
        found = response.text if name == "model-card" else response.json()
        assert found == reading(document, name)
    assert api.get(path).json() == document


def test_an_unknown_reading_is_refused_with_the_choices(api: Api) -> None:
    id_ = finished(api)
    for name in ("tea-leaves", ""):
        response = api.get(f"/v1/experiments/{id_}/report", params={"reading": name})
        assert response.status_code == 422
        assert response.headers["content-type"] == "application/problem+json"
        [fault] = response.json()["errors"]
        assert fault["pointer"] == "/query/reading"
        assert all(f"'{choice}'" in fault["message"] for choice in FORMS)


def test_a_dossier_is_made_from_the_stored_report(api, monkeypatch):
    monkeypatch.setattr(PagePrinter, "pdf", lambda _self, _page: b"%PDF")
    id_ = api.submit()["id"]
    finish(api, id_)
    path = f"/experiments/{id_}/dossier"
    made = api.get(f"/v1{path}.json").json()
    assert made["answer"]["outcome"] in ("do-not-release", "not-decided")
    with zipfile.ZipFile(io.BytesIO(api.get(f"/v1{path}").content)) as archive:
        assert set(archive.namelist()) > {"dossier.json", "dossier.html", "report.json"}
        page = archive.read("dossier.html").decode()
        assert json.loads(archive.read("dossier.json")) == made
    assert api.get(f"/v1{path}.html").text == page
    visitor = signed_in(api)
    assert f'href="{path}.html"' in visitor.get(f"/experiments/{id_}/report").text
    assert f"{made['open']} questions are open" in visitor.get(f"{path}.html").text
    assert visitor.get(f"{path}.zip").headers["content-type"] == "application/zip"
    assert api.get(f"/v1/experiments/{api.submit()['id']}/dossier").status_code == 404
