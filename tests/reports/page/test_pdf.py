"""The report as a PDF: where WeasyPrint and its libraries are, and where they are not."""

import io
import socket
import sys
import unicodedata
from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser

import pytest
from pypdf import PdfReader

from fedaudit.reports.page.html import render
from fedaudit.reports.page.pdf import PdfUnavailableError, paper_page, pdf_of
from tests.reports.page.report_shapes import shapes
from tests.reports.page.weasyprint_here import needs_pango

_UNSEEN = {"head", "style", "desc", "title", "summary", "nav"}
_VOID = {"meta", "br", "hr", "img", "link"}


@dataclass(frozen=True)
class Printed:
    """A PDF's text without spaces, and what of it lies outside its page."""

    text: str
    pages: int
    outside: list[str]

    def lost(self, page: str) -> dict[str, int]:
        """How often each character of an HTML page is missing here.

        Text may be drawn in another order, and rows may go on over a page's end; but whatever is
        lost takes its characters with it. Only the heads of tables are drawn more than once.
        """
        return dict(Counter(Seen(page).text) - Counter(self.text))


class Seen(HTMLParser):
    """All that somebody sees of a page, drawings included."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not _UNSEEN & set(self._open):
            self.text += normal(data)


def normal(text: str) -> str:
    """Without spaces and ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def printed(pdf: bytes) -> Printed:
    """The text of a PDF, page by page without the pages' numbers."""
    reader = PdfReader(io.BytesIO(pdf))
    parts: list[str] = []
    outside: list[str] = []
    for page in reader.pages:
        height, width = float(page.mediabox.height), float(page.mediabox.width)

        def see(
            text: str,
            cm: list[float],
            tm: list[float],
            *_: object,
            height: float = height,
            width: float = width,
        ) -> None:
            x = tm[4] * cm[0] + tm[5] * cm[2] + cm[4]
            y = tm[4] * cm[1] + tm[5] * cm[3] + cm[5]
            if text.strip() and not (0 <= x <= width and 0 <= y <= height):
                outside.append(text.strip())

        text = normal(page.extract_text(visitor_text=see))
        number = f"{(page.page_number or 0) + 1}/{len(reader.pages)}"
        parts.append(text.replace(number, "", 1))
    return Printed("".join(parts), len(reader.pages), outside)


_FEW = "long names"
"""Fails where boxes must stay whole on a page."""
_ENDLESS = ("forty gates", "many limits")
"""What no experiment has: texts that fill more than three pages by themselves."""


@needs_pango
def test_the_pdf_says_all_that_the_page_says(material) -> None:
    for name, report, series in shapes(material):
        if name == _FEW:
            pdf = check(name, render(report, series, appendix=True))
    # And in its colours: the first series' blue, #0072b2, as that of a line.
    pages = PdfReader(io.BytesIO(pdf)).pages
    drawn = b"".join(page.get_contents().get_data() for page in pages)
    assert b"0 0.447059 0.698039 RG" in drawn


@needs_pango
def test_without_its_appendix_a_report_has_at_most_three_pages(material) -> None:
    kinds = ("no mechanism", "records of their own budgets", "four attributes", "2000 clients")
    for name, report, series in shapes(material):
        if name in kinds:
            short(name, render(report, series))


@needs_pango
@pytest.mark.slow
def test_no_report_loses_anything_as_a_pdf_and_without_its_appendix_it_is_short(material) -> None:
    for name, report, series in shapes(material):
        check(name, render(report, series, appendix=True))
        if name not in _ENDLESS:
            short(name, render(report, series))


def check(name: str, page: str) -> bytes:
    """The page as a PDF, which has each of its characters, and none beyond a page's edge."""
    arranged = paper_page(page)
    assert not Counter(Seen(page).text) - Counter(Seen(arranged).text), name
    assert arranged.count("<tr>") == page.count("<tr>"), name
    pdf, pages, _ = whole(name, page)
    assert pages > 1, name
    return pdf


def short(name: str, page: str) -> None:
    """The page on paper has all that is printed of it, on at most three pages."""
    _, pages, text = whole(name, page)
    assert pages <= 3, name
    for seen in ("May it be released?", "What it rests on", "Signature", "What this does not show"):
        assert normal(seen) in text, name


def whole(name: str, page: str) -> tuple[bytes, int, str]:
    """The PDF, its pages and its text; nothing of what is arranged for paper is lost."""
    pdf = pdf_of(page)
    found = printed(pdf)
    assert found.lost(paper_page(page)) == {}, name
    assert found.outside == [], name
    return pdf, found.pages, found.text


def test_text_that_is_lost_is_noticed() -> None:
    found = Printed("Group1020", 1, [])
    assert found.lost("<p>Group</p><p>20 10</p>") == {}
    assert found.lost("<p>Group</p><p>20 11</p>") == {"1": 1}


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
    with pytest.raises(PdfUnavailableError, match=r"WHEEL\[pdf\]"):
        pdf_of("<p>x</p>")
