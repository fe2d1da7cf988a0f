"""The parts of a multipart/form-data body (RFC 7578), passed on during the upload."""

from dataclasses import dataclass
from typing import Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.http.problems import ProblemError, invalid

_MAX_HEADERS_BYTES = 16 * 2**10
_MAX_BOUNDARY_LENGTH = 70
"""RFC 2046, section 5.1.1."""


@dataclass(frozen=True)
class Part:
    """The content of a part's headers."""

    name: str
    file_name: str | None
    media_type: str = ""


class PartHandler(Protocol):
    """Takes the parts in their order. May raise ProblemError to end the request."""

    def begin(self, part: Part) -> None:
        """A part begins."""

    def data(self, data: bytes) -> None:
        """The next chunk of the part."""

    def end(self) -> None:
        """The part is complete."""


class FormReader:
    """Takes a body in chunks of any size. Raises ProblemError for a malformed body."""

    def __init__(self, content_type: str, handler: PartHandler) -> None:
        """`content_type`: the header, with its boundary."""
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if not 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH:
            raise invalid(
                "/header/content-type",
                f"needs a boundary of 1 to {_MAX_BOUNDARY_LENGTH} characters",
            )
        self._handler = handler
        self._complete = False
        self._field = self._value = b""
        self._headers: dict[str, bytes] = {}
        self._header_bytes = 0
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._handler.end,
                "on_end": self._on_end,
            },
        )

    def feed(self, data: bytes) -> None:
        """The next chunk."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise invalid("", "is no multipart/form-data body") from None

    def finish(self) -> None:
        """After the last chunk: raises ProblemError where the body is truncated."""
        if not self._complete:
            raise invalid("", "breaks off before its closing boundary; send it again")

    def _on_part_begin(self) -> None:
        self._headers, self._header_bytes = {}, 0

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._field += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._count(end - start)
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._field.decode("latin-1").lower()] = self._value
        self._field = self._value = b""

    def _on_headers_finished(self) -> None:
        disposition = self._headers.get("content-disposition", b"").decode("latin-1")
        kind, options = parse_options_header(disposition)
        if kind != b"form-data" or b"name" not in options:
            raise invalid("", "has a part without Content-Disposition: form-data and a name")
        file_name = options.get(b"filename")
        stated = self._headers.get("content-type", b"").decode("latin-1")
        self._handler.begin(
            Part(
                _text(options[b"name"]),
                None if file_name is None else _text(file_name),
                media_type=stated.partition(";")[0].strip().lower(),
            )
        )

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._handler.data(data[start:end])

    def _on_end(self) -> None:
        self._complete = True

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > _MAX_HEADERS_BYTES:
            raise ProblemError(
                413,
                "payload-too-large",
                f"a part has more than {_MAX_HEADERS_BYTES} bytes of headers",
            )


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("", "has a part whose name, or file name, is not UTF-8") from None
