"""Reports as PDF files: printed in a process that is bounded."""

import io
import threading
from typing import Any

import pytest
from pypdf import PdfReader

from api.http.problems import ProblemError
from api.shared import page_printer
from api.shared.page_printer import MAX_WAITING, PagePrinter
from fedaudit.reports.page.pdf import APPENDIX_BEGINS
from tests.api.ledgers.trainings import declared, group, opened, post
from tests.api.pages.browser import signed_in
from tests.api.service import Api, finished
from tests.reports.page.weasyprint_here import needs_pango

PDF = b"%PDF-1.7 as it was printed"


@pytest.fixture
def done(api: Api) -> str:
    return f"/experiments/{finished(api)}/report.pdf"


@pytest.fixture
def prints(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that were printed; each gives the same file."""
    found: list[str] = []

    def pdf(_: PagePrinter, page: str) -> bytes:
        found.append(page)
        return PDF

    monkeypatch.setattr(PagePrinter, "pdf", pdf)
    return found


@needs_pango
def test_a_report_is_had_as_a_pdf_of_three_pages_at_most(api: Api, done: str) -> None:
    """That no report has more, whatever it says, is in tests/reports/page/test_pdf.py."""
    answer = api.get(f"/v1{done}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf")
    assert "report.pdf" in answer.headers["content-disposition"]
    pages = PdfReader(io.BytesIO(answer.content)).pages
    assert 1 < len(pages) <= 3
    assert "groups-k2" in "".join(page.extract_text() for page in pages)
    ledger = opened(api)
    groups = {"sex": {"F": group(40, 20, 60, 30), "M": group(60, 20, 60, 10)}}
    post(api, ledger, *(declared(one, ["a", "b"], groups=groups) for one in range(1, 96)))
    longer = api.get(f"/v1/ledgers/{ledger}/report.pdf?appendix=true")
    assert len(PdfReader(io.BytesIO(longer.content)).pages) <= 3


def test_both_doors_print_the_page_and_its_appendix_on_request(api, done, prints):
    ledger = opened(api, rounds=[declared(1, ["a"])])
    for path in (done, f"/ledgers/{ledger}/report.pdf"):
        for query, begun in (("", True), ("?appendix=true", False)):
            first, second = api.get(f"/v1{path}{query}"), signed_in(api).get(f"{path}{query}")
            assert first.content == second.content == PDF
            assert "attachment" in second.headers["content-disposition"]
            assert prints[-1] == prints[-2]
            assert "<!doctype html>" in prints[-1]
            # Paper leaves out what is marked.
            assert (APPENDIX_BEGINS in prints[-1]) is begun
    assert f'href="{done}"' in signed_in(api).get(done.removesuffix(".pdf")).text
    # No other project gets the file.
    prints.clear()
    stranger = signed_in(api)
    stranger.sign_in(api.key_with("reports:read", project="elsewhere"))
    assert stranger.get(done).status_code == 404
    assert signed_in(api, "experiments:read").get(done).status_code == 403
    assert prints == []


def refused(printer: PagePrinter, page: str = "<p>x</p>") -> str:
    """Why the printer refused; it may be asked again."""
    with pytest.raises(ProblemError) as caught:
        printer.pdf(page)
    assert caught.value.status == 503
    assert "Retry-After" in caught.value.headers
    return caught.value.detail


def commanding(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    command = (*page_printer._COMMAND[:1], "-c", script)
    monkeypatch.setattr(page_printer, "_COMMAND", command)


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("import time; time.sleep(60)", "longer than 1 s"),
        ("import sys; sys.stderr.write('install it'); sys.exit(3)", "install it"),
        ("raise MemoryError", "printing failed; report.html prints from any browser"),
    ],
)
def test_a_print_that_fails_says_what_to_do(monkeypatch, script, says):
    commanding(monkeypatch, script)
    monkeypatch.setattr(page_printer, "MAX_SECONDS", 1)
    assert says in refused(PagePrinter())


def test_a_print_knows_nothing_of_the_services_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDAUDIT_DATABASE_URL", "postgresql://a:secret@b/c")
    commanding(monkeypatch, "import os; print(dict(os.environ))")
    assert b"secret" not in PagePrinter().pdf("<p>x</p>")


def test_only_so_many_wait_and_stopping_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    commanding(monkeypatch, "import time; time.sleep(60)")
    printer = PagePrinter()
    ended: list[Any] = []
    threads = [
        threading.Thread(target=lambda: ended.append(refused(printer)), daemon=True)
        for _ in range(MAX_WAITING + 1)
    ]
    for thread in threads:
        thread.start()
    while printer._places._value:  # until all of them have a place
        pass
    assert "wait to be printed" in refused(printer)
    while printer._running is None:
        pass
    printer.close()
    for thread in threads:
        thread.join(timeout=30)
    assert len(ended) == MAX_WAITING + 1
    assert "stopping" in refused(printer)
