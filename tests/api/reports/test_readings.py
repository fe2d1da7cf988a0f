"""Readings of a report over HTTP."""

import io
import json
import zipfile

from api.shared.page_printer import PagePrinter
from fedaudit.reports.readings.readings import reading
from tests.api.pages.browser import signed_in
from tests.api.service import Api, finish, finished

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
