"""What can be taken away from the pages."""

import html
import re
from typing import Any

from api.shared.page_printer import PagePrinter
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.reports.readings.readings import READINGS
from tests.api.pages.browser import printed, signed_in
from tests.api.service import Api, finish, spec


def _finished(api: Api, name: str = "one", key: str = "") -> str:
    submitted = api.submit(spec(name=name), key=key)
    finish(api, submitted["id"])
    return f"/experiments/{submitted['id']}"


def _links(page: str) -> set[str]:
    return {html.unescape(href) for href in re.findall(r'<a href="([^"]*)" download', page)}


def test_every_file_of_a_report_is_what_the_api_says(api, tmp_path, monkeypatch):
    monkeypatch.setattr(PagePrinter, "pdf", printed)
    base = _finished(api)
    visitor = signed_in(api)
    offered = _links(visitor.get(f"{base}/report").text)
    files: dict[str, Any] = {href: visitor.get(href) for href in offered}
    for href, answer in files.items():
        assert answer.status_code == 200, href
        assert "attachment" in answer.headers["content-disposition"], href
        assert answer.headers["cache-control"] == "no-store", href
    for name in READINGS:
        said = api.get(f"/v1{base}/report/readings/{name}")
        if f"{base}/files/{name}.md" in files:
            assert files[f"{base}/files/{name}.md"].text == said.text
        else:
            assert files[f"{base}/files/{name}.json"].json() == said.json()
    for name in ("picture-spent", "picture-quality", "chart-loss"):
        assert files[f"{base}/pictures/{name}.svg"].content.startswith(b"<svg xmlns")
        assert files[f"{base}/pictures/{name}.png"].content.startswith(b"\x89PNG")
    assert visitor.get(f"{base}/pictures/none.svg").status_code == 404
    kept = tmp_path / "bundle.zip"
    kept.write_bytes(files[f"{base}/bundle.zip"].content)
    with opened_bundle(kept) as evidence:
        assert evidence.report == api.get(f"/v1{base}/report").json()
    keys = api.get("/v1/signing-keys").json()["items"]
    assert files["/signing-keys.pem"].text == "".join(key["public_key"] for key in keys)
    for key in keys:
        assert key["key_id"] in visitor.get("/signing-keys").text


def test_the_bundle_is_offered_to_those_who_may_have_it(api: Api) -> None:
    base = _finished(api)
    officer = signed_in(api, "reports:read")
    for page in ("report", "verification"):
        assert "bundle.zip" not in officer.get(f"{base}/{page}").text
    assert officer.get(f"{base}/bundle.zip").status_code == 403
