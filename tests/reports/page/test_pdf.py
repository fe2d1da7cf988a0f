"""The report as a PDF: where WeasyPrint and its libraries are, and where they are not."""

import importlib.util
import io
import socket
import sys

import pytest
from pypdf import PdfReader

from fedaudit.reports.assemble import assemble
from fedaudit.reports.page.html import render
from fedaudit.reports.page.pdf import PdfUnavailableError, pdf_of
from tests.reports.charts.test_charts_page import made


def installed() -> bool:
    if importlib.util.find_spec("weasyprint") is None:
        return False
    try:
        importlib.import_module("weasyprint")
    except OSError:
        return False
    return True


needs_pango = pytest.mark.skipif(
    not installed(), reason="WeasyPrint or the system's library Pango is not installed"
)


@needs_pango
def test_the_pdf_says_what_the_page_says(material) -> None:
    report = assemble(material())
    pages = PdfReader(io.BytesIO(pdf_of(render(report, made(9))))).pages
    text = " ".join(" ".join(page.extract_text() for page in pages).split())

    assert len(pages) > 1
    assert str(report["experiment"]["name"]) in text
    assert str(report["integrity"]["ledger_hash"])[:16] in text.replace(" ", "")
    for limit in report["limits"]:
        assert limit.split()[0] in text
    assert f"1 / {len(pages)}" in text


@needs_pango
def test_charts_keep_their_colours(material) -> None:
    pages = PdfReader(io.BytesIO(pdf_of(render(assemble(material()), made(9))))).pages
    drawn = b"".join(page.get_contents().get_data() for page in pages)
    # The first series' blue, #0072b2, as the colour of a line.
    assert b"0 0.447059 0.698039 RG" in drawn


@needs_pango
def test_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        page = f'<!doctype html><title>x</title><img src="http://127.0.0.1:{port}/x"><p>kept</p>'
        text = PdfReader(io.BytesIO(pdf_of(page))).pages[0].extract_text()
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert "kept" in text


def test_without_weasyprint_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "weasyprint", None)
    with pytest.raises(PdfUnavailableError, match=r"fedaudit\[pdf\]"):
        pdf_of("<p>x</p>")
