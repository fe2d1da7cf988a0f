"""Audits by a browser and by the Python client."""

import io
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from fedaudit_client import Client, ProblemError
from tests.api.pages.browser import signed_in
from tests.api.service import Api, served
from tests.audits.service_audits import made, row_of
from tests.audits.tables import asking, people, write
from tests.reports.page.weasyprint_here import needs_pango
from tests.workers.serving import worker_of
from workers.run_unit import run_unit

NOBODY = "01890000-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def audit(api: Api, sources: Path) -> dict[str, Any]:
    write(sources, people())
    return made(api, name="<b>hiring</b>", sensitive=["sex"])


def test_the_list_leads_to_reports_and_marks_what_decides_nothing(api, sources, audit):
    write(sources, people() | {"predicted": ["yes"] * 600}, "constant.csv")
    constant = made(api, path="constant.csv", sensitive=["sex"])
    failed = made(api, truth="absent")
    browser = signed_in(api)
    shown = browser.get("/audits").text
    assert 'href="/audits" aria-current="page"' in shown
    assert shown.count("model-degenerate") == 1
    rows = {one["id"]: f'href="/audits/{one["id"]}"' in shown for one in (audit, constant, failed)}
    assert rows == {audit["id"]: True, constant["id"]: True, failed["id"]: False}
    assert "&lt;b&gt;hiring&lt;/b&gt;" in shown
    assert "<strong>truth</strong>" in shown
    for path in ("/audits?cursor=nonsense", f"/audits/{failed['id']}", f"/audits/{NOBODY}"):
        assert browser.get(path).status_code in (404, 422)


def test_the_report_leads_to_its_verification_and_its_bundle(api, audit):
    path = f"/audits/{audit['id']}"
    browser = signed_in(api)
    report = browser.get(path)
    assert "Audit of predictions" in report.text
    assert "script" not in report.headers["content-security-policy"]
    for link in ("/audits", f"{path}/verification", f"{path}/bundle.zip"):
        assert f'href="{link}"' in report.text
    checked = browser.get(f"{path}/verification").text
    assert "The report is the one that was stored" in checked
    assert "The rows are not here" in checked
    assert zipfile.is_zipfile(io.BytesIO(browser.get(f"{path}/bundle.zip").content))


@needs_pango
def test_the_report_is_printed_on_three_pages(api: Api, audit: dict[str, Any]) -> None:
    path = f"/audits/{audit['id']}/report.pdf"
    for found in (signed_in(api).get(path), api.get(f"/v1{path}")):
        pages = PdfReader(io.BytesIO(found.content)).pages
        assert len(pages) <= 3
        assert "Who is treated worse: by sex" in pages[0].extract_text()
        # Nothing is known of what training spent.
        assert "No limit was set to" not in pages[0].extract_text()
    assert len(PdfReader(io.BytesIO(api.get(f"/v1{path}?appendix=1").content)).pages) > 1


def test_a_page_shows_what_the_key_opens(api: Api, audit: dict[str, Any]) -> None:
    path = f"/audits/{audit['id']}"
    reader = signed_in(api, "reports:read")
    assert reader.get("/audits").status_code == 403
    assert 'href="/audits"' not in reader.get(path).text
    lister = signed_in(api, "experiments:read")
    assert f'href="{path}"' not in lister.get("/audits").text
    assert lister.get(path).status_code == 403


def test_the_client_asks_waits_and_takes_away(api: Api, sources: Path) -> None:
    write(sources, people(seed=3), "asked.csv")
    with served(api) as url, Client(url, api.key) as client:
        spec = asking(path="asked.csv", sensitive=["sex"])
        submitted = client.submit_audit(spec, idempotency_key="asked")
        assert client.submit_audit(spec, idempotency_key="asked")["id"] == submitted["id"]
        id_ = submitted["id"]
        worker = threading.Thread(
            target=run_unit, args=(worker_of(api), row_of(api, id_).unit_id), daemon=True
        )
        worker.start()
        audit = client.wait_audit(id_)
        worker.join()
        assert (audit["status"], audit) == ("succeeded", client.ask("GET", f"audits/{id_}"))
        assert client.audit_report(id_)["experiment"]["id"] == id_
        client.download_audit_bundle(id_, file := io.BytesIO())
        assert "report.json" in zipfile.ZipFile(file).namelist()
        with pytest.raises(ProblemError):
            client.wait_audit(NOBODY)
