"""Bundles over HTTP, and the keys that they are verified with."""

import io
import json
import zipfile
from pathlib import Path

from api.shared.page_printer import PagePrinter
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import SigningKey, public_keys_in
from fedaudit.reports.readings.readings import reading
from fedaudit.reports.verification.verification import verify
from models.repositories import SigningKeyRepository
from tests.api.pages.browser import signed_in
from tests.api.service import KEY, Api, body_of, fail, finish, finished, play


def saved(api: Api, id_: str, folder: Path) -> Path:
    answer = api.get(f"/v1/experiments/{id_}/bundle")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    path = folder / "bundle.zip"
    path.write_bytes(answer.content)
    return path


def test_a_bundle_is_judged_without_the_service(api: Api, tmp_path: Path) -> None:
    id_ = finished(api)
    path = saved(api, id_, tmp_path)
    assert path.read_bytes() == api.get(f"/v1/experiments/{id_}/bundle").content
    untrusted = "consistent, signer untrusted"
    for trusted, verdict in (
        ([KEY.public], "valid"),
        ([], untrusted),
        ([SigningKey.generate().public], untrusted),
    ):
        with opened_bundle(path) as evidence:
            found = verify(evidence, trusted=trusted)
        assert (found.verdict, found.entries) == (verdict, 3)
        assert {check.outcome for check in found.checks} == {"pass"}


def test_a_run_without_a_report_has_a_bundle_too(api: Api, tmp_path: Path) -> None:
    id_ = api.submit()["id"]
    fail(api, id_)
    with opened_bundle(saved(api, id_, tmp_path)) as evidence:
        assert evidence.report is None
        assert verify(evidence, trusted=[KEY.public]).verdict == "consistent, signer untrusted"


def test_what_still_runs_has_no_bundle(api: Api) -> None:
    id_ = api.submit()["id"]
    for begin in (lambda *_: None, play):
        begin(api, id_)
        refused = body_of(api.get(f"/v1/experiments/{id_}/bundle"), 409)
        assert refused["type"].endswith("/conflict")


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
    **dict.fromkeys(("registry", "nist-800-226", "impact-ratio"), "application/json"),
    **dict.fromkeys(("annex-iv", "edpb-28-2024"), "application/json"),
    "model-card": "text/markdown",
}


def test_a_reading_is_made_from_the_stored_report(api: Api) -> None:
    declared = api.get("/openapi.json", key=None).json()
    assert {"NistReading", "ImpactRatioReading"} <= set(declared["components"]["schemas"])
    id_ = api.submit()["id"]
    document = finish(api, id_)
    path = f"/v1/experiments/{id_}/report"
    for name, form in FORMS.items():
        operation = declared["paths"][f"/v1/experiments/{{experiment_id}}/report/readings/{name}"]
        assert [*operation["get"]["responses"]["200"]["content"]] == [form]
        response = api.get(f"{path}/readings/{name}", headers={"Accept": "text/html"})
        assert response.status_code == 200
        assert response.headers["content-type"].partition(";")[0] == form
        assert "sunset" not in response.headers
        found = response.text if name == "model-card" else response.json()
        assert found == reading(document, name)
        earlier = api.get(path, params={"reading": name})
        assert earlier.content == response.content
        assert earlier.headers["deprecation"].startswith("@")
        assert earlier.headers["sunset"].endswith("GMT")
        assert earlier.headers["link"] == f'<report/readings/{name}>; rel="successor-version"'
    assert api.get(path).json() == document
    for name in ("tea-leaves", ""):
        [fault] = body_of(api.get(path, params={"reading": name}), 422)["errors"]
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
