"""What a PDF says and where, and what of an HTML page must be on it."""

import io
import unicodedata
from collections import Counter
from dataclasses import dataclass
from html.parser import HTMLParser

from pypdf import PdfReader

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
