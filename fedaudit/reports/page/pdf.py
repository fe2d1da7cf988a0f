"""The report's page as a PDF. Needs the extra `pdf`."""

import re
import resource
import sys

from fedaudit import how_to_install
from fedaudit.reports.page.style_sheets import paper_chart_style, paper_style

MISSING = (
    "a PDF needs the system's library Pango (Debian: libpango-1.0-0 and libpangoft2-1.0-0) and "
    f"WeasyPrint, which is not installed here: {how_to_install('pdf')}; the HTML page prints "
    "from any browser"
)

_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_SVG = re.compile(r"<svg\b[^>]*>")
APPENDIX_BEGINS, APPENDIX_ENDS = "<!--appendix-->", "<!--/appendix-->"
"""Around what a page has and paper leaves out, unless the page was made with its appendix."""
_LEFT_OUT = re.compile(f"{APPENDIX_BEGINS}.*?{APPENDIX_ENDS}", re.DOTALL)


class PdfUnavailableError(RuntimeError):
    """The library that makes PDFs is not installed."""


def pdf_of(page: str) -> bytes:
    """The PDF of a report's HTML page: at most 3 pages of A4, or all of a page with its appendix.
    Nothing is fetched: the page contains all it needs.
    Raises PdfUnavailableError."""
    try:
        # OSError: the wheel is installed, but a system library that it loads is not.
        from weasyprint import HTML
        from weasyprint.urls import URLFetcher
    except (ImportError, OSError) as error:
        raise PdfUnavailableError(MISSING) from error
    fetcher = URLFetcher(allowed_protocols=())
    pdf: bytes = HTML(string=paper_page(page), url_fetcher=fetcher).write_pdf()
    return pdf


def paper_page(page: str) -> str:
    """The page for printing: in the style of paper, without what paper leaves out. Every chart has
    a copy of the style, since WeasyPrint reads it from there."""
    styled = _STYLE.sub(
        lambda _: f"<style>{paper_style()}</style>", _LEFT_OUT.sub("", page), count=1
    )
    charts = f"<style>{paper_chart_style()}</style>"
    return _SVG.sub(lambda found: found[0] + charts, styled)


NOT_INSTALLED = 3
"""Exit status where the library is missing; standard error says which."""


def main() -> int:
    """Raises MemoryError beyond the limit; beyond the seconds of processor time it is ended."""
    seconds, mebibytes = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes * 2**20, mebibytes * 2**20))
    page = sys.stdin.buffer.read().decode()
    try:
        pdf = pdf_of(page)
    except PdfUnavailableError as error:
        sys.stderr.write(str(error))
        return NOT_INSTALLED
    sys.stdout.buffer.write(pdf)
    return 0


if __name__ == "__main__":
    sys.exit(main())
