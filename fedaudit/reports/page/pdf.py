"""The report's page as a PDF. Needs the extra `pdf`."""

import re
from functools import cache
from pathlib import Path

MISSING = (
    "a PDF needs WeasyPrint, which is not installed here: pip install 'fedaudit[pdf]', and the "
    "system's library Pango (Debian: libpango-1.0-0 and libpangoft2-1.0-0); the HTML page prints "
    "from any browser"
)

_SHEET = "@page { size: A4; margin: 16mm 15mm 18mm; @bottom-right { content: counter(page) ' / ' \
counter(pages); font: 9pt sans-serif; color: #555; } }"
_VARIABLE = re.compile(r"(--[\w-]+):\s*([^;}]+)[;}]")
_USE = re.compile(r"var\((--[\w-]+)\)")
_SVG = re.compile(r"<svg\b[^>]*>")


class PdfUnavailableError(RuntimeError):
    """The library that makes PDFs is not installed."""


def pdf_of(page: str) -> bytes:
    """The PDF of a report's HTML page. Nothing is fetched: the page holds all it needs.

    Raises PdfUnavailableError.
    """
    try:
        # OSError: the wheel is installed, but a system library that it loads is not.
        from weasyprint import CSS, HTML
        from weasyprint.urls import URLFetcher
    except (ImportError, OSError) as error:
        raise PdfUnavailableError(MISSING) from error
    document = HTML(string=_with_styled_charts(page), url_fetcher=URLFetcher(allowed_protocols=()))
    pdf: bytes = document.write_pdf(stylesheets=[CSS(string=_SHEET)])
    return pdf


def _with_styled_charts(page: str) -> str:
    """The page with a copy of its colours in every chart, where WeasyPrint looks for them."""
    style = f"<style>{_chart_styles()}</style>"
    return _SVG.sub(lambda found: found[0] + style, page)


@cache
def _chart_styles() -> str:
    """The report's style rules with variables replaced by the values of the light theme."""
    css = (Path(__file__).parent / "report.css").read_text()
    root = css[css.index(":root") : css.index("}") + 1]
    values = {name: value.strip() for name, value in _VARIABLE.findall(root)}
    outside_media = css[css.index("\nbody") : css.rindex("@media (max-width")]
    return _USE.sub(lambda found: values[found[1]], outside_media)
