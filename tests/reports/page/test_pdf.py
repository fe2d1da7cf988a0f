"""The report as a PDF: where WeasyPrint and its libraries are, and where they are not."""

import io
import socket
import sys
from collections import Counter

import pytest
from pypdf import PdfReader

from fedaudit.reports.page.html import render
from fedaudit.reports.page.pdf import PdfUnavailableError, paper_page, pdf_of
from fedaudit.reports.report import assemble
from tests.reports.charts.test_charts_page import made
from tests.reports.page.printed_text import Printed, Seen, normal, printed
from tests.reports.page.report_shapes import shapes
from tests.reports.page.weasyprint_here import needs_pango

_FEW = "long names"
"""Fails where boxes must stay whole on a page."""
_ENDLESS = ("forty gates", "many limits")
"""What no experiment has: texts that fill more than three pages by themselves."""


@needs_pango
def test_the_pdf_says_all_that_the_page_says(material) -> None:
    for name, report, series in shapes(material):
        if name == _FEW:
            check(name, render(report, series, appendix=True))


@needs_pango
def test_without_its_appendix_a_report_has_at_most_three_pages(material) -> None:
    kinds = ("no mechanism", "records of their own budgets", "four attributes", "2000 clients")
    for name, report, series in shapes(material):
        if name in kinds:
            short(name, render(report, series))


@needs_pango
@pytest.mark.slow
def test_no_report_has_more_than_three_pages_without_its_appendix(material) -> None:
    for name, report, series in shapes(material):
        if name not in _ENDLESS:
            short(name, render(report, series))


def short(name: str, page: str) -> None:
    """The page on paper has all that is printed of it, on at most three pages."""
    arranged = paper_page(page)
    found = printed(pdf_of(page))
    assert found.lost(arranged) == {}, name
    assert found.outside == [], name
    assert found.pages <= 3, name
    for seen in ("May it be released?", "What it rests on", "Signature", "What this does not show"):
        assert normal(seen) in found.text, name


@needs_pango
@pytest.mark.slow
def test_no_report_fails_or_loses_anything_as_a_pdf(material) -> None:
    found = list(shapes(material))
    assert len(found) == 28
    for name, report, series in found:
        check(name, render(report, series, appendix=True))


def check(name: str, page: str) -> None:
    """The page as a PDF has each of its characters, and none beyond a page's edge."""
    arranged = paper_page(page)
    assert not Counter(Seen(page).text) - Counter(Seen(arranged).text), name
    assert arranged.count("<tr>") == page.count("<tr>"), name
    found = printed(pdf_of(page))
    assert found.lost(arranged) == {}, name
    assert found.outside == [], name
    assert found.pages > 1, name


def test_text_that_is_lost_is_noticed() -> None:
    found = Printed("Group1020", 1, [])
    assert found.lost("<p>Group</p><p>20 10</p>") == {}
    assert found.lost("<p>Group</p><p>20 11</p>") == {"1": 1}


@needs_pango
def test_charts_keep_their_colours(material) -> None:
    pages = PdfReader(
        io.BytesIO(pdf_of(render(assemble(material()), made(9), appendix=True)))
    ).pages
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
