"""Uploads in progress: the parts of a form, hashed and written to the storage as they come."""

import hashlib
import re
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio
from anyio.to_thread import run_sync
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.http.bodies import in_blocks
from api.http.problems import ProblemError, invalid
from api.shared.security import Call
from infrastructure.storage import StorageWriter

_GZIP = b"\x1f\x8b"
_WITH_GZIP_HEADER = 16 + zlib.MAX_WBITS
_BLOCK = 2**20
_MAX_BOUNDARY_LENGTH = 70
"""RFC 2046, section 5.1.1."""
_MAX_NAME_LENGTH = 200
_REFUSED_NAME = re.compile(r"[\x00-\x1f\x7f:]|\A~|\A\.{0,2}\Z")
_MAX_TEXT_BYTES = 2**20

Accepted = TypeVar("Accepted")


class ContentHash:
    """SHA-256 of a file's content, gzip undone, in chunks, and the file's size. A small file may
    expand to any size, so both are limited. Each call may raise ProblemError."""

    def __init__(self, largest_bytes: int) -> None:
        self.size = 0
        self._largest = self._left = largest_bytes
        self._digest = hashlib.sha256()
        self._head: bytes | None = b""
        """The first bytes, kept until they show whether the file is compressed; then None."""
        self._compressed = False
        self._inflater = zlib.decompressobj(wbits=_WITH_GZIP_HEADER)

    def update(self, data: bytes) -> None:
        """The next chunk."""
        self.size += len(data)
        if self.size > self._largest:
            raise self._too_large()
        if self._head is not None:
            self._head += data
            if len(self._head) < len(_GZIP):
                return
            data, self._head = self._head, None
            self._compressed = data.startswith(_GZIP)
        (self._inflate if self._compressed else self._take)(data)

    def finish(self) -> str:
        """The digest in hexadecimal, after the last chunk."""
        if self._head:
            self._take(self._head)
        if self._compressed and not self._inflater.eof:
            raise invalid("/file", "the gzip file breaks off; compress it again")
        return self._digest.hexdigest()

    def _inflate(self, data: bytes) -> None:
        """A gzip file may have several members, each followed by zeros."""
        full = False
        while data or full:
            if self._inflater.eof:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._inflater = zlib.decompressobj(wbits=_WITH_GZIP_HEADER)
            try:
                block = self._inflater.decompress(data, _BLOCK)
            except zlib.error:
                message = "the gzip file is damaged; compress it again"
                raise invalid("/file", message) from None
            self._take(block)
            full = len(block) == _BLOCK and not self._inflater.eof
            data = self._inflater.unused_data or self._inflater.unconsumed_tail

    def _take(self, content: bytes) -> None:
        self._left -= len(content)
        if self._left < 0:
            raise self._too_large()
        self._digest.update(content)

    def _too_large(self) -> ProblemError:
        detail = f"the file is larger than {self._largest} bytes, as it is or after decompression"
        return ProblemError("payload-too-large", detail)


@dataclass(frozen=True)
class ArrivedFile:
    """A complete file, which is written but not yet committed."""

    fingerprint: str
    file_name: str
    size_bytes: int
    storage_key: str
    writer: StorageWriter


def _base_name(file_name: str) -> str:
    """The last component of the client's name for the file; it is shown, and never used as a
    path. Raises ProblemError for one that cannot be shown."""
    if not file_name:  # a browser sends a part without a name where no file was chosen
        raise invalid("/file", "has no file name; choose a file, or name it with the part")
    name = file_name.replace("\\", "/").rpartition("/")[2]
    if _REFUSED_NAME.search(name) or len(name) > _MAX_NAME_LENGTH:
        message = (
            f"needs a file name of 1 to {_MAX_NAME_LENGTH} characters, without colons or control "
            "characters"
        )
        raise invalid("/file", message)
    return name


class IncomingFile(Generic[Accepted]):
    """Takes a multipart/form-data body (RFC 7578) in chunks of any size: a text, then a file, which
    is measured, hashed and sent to the storage as it comes. To be ended by `finish` or `abort`;
    after an abort nothing is stored. Each call may raise ProblemError, which ends the request, also
    where the headers of a part are longer than the parser takes; or StorageError."""

    accepted: Accepted
    """What the text was accepted as, once the file has begun."""

    def __init__(
        self,
        call: Call,
        upload_id: str,
        content_type: str,
        *,
        text: str,
        accept: Callable[[bytes, str], Accepted],
    ) -> None:
        """`content_type`: the header, with its boundary. `text`: the name of the first part.
        `accept` is given its content and the file's name before the file is sent, and raises for
        what is refused: nothing is then stored."""
        _, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if not 0 < len(boundary) <= _MAX_BOUNDARY_LENGTH:
            message = f"needs a boundary of 1 to {_MAX_BOUNDARY_LENGTH} characters"
            raise invalid("/header/content-type", message)
        self._storage = call.resources.storage
        self._key = f"federations/{call.project_id}/{upload_id}"
        self._name, self._accept = text, accept
        self._parts = f"send two parts: `{text}`, then `file`"
        self._text: bytearray | None = None
        self._file_name = ""
        self._hash = ContentHash(call.resources.settings.max_upload_bytes)
        self._writer: StorageWriter | None = None
        self._complete = False
        self._field, self._value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._headers.clear,
                "on_header_field": lambda data, start, end: self._field.extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": lambda data, start, end: self._take(data[start:end]),
                "on_end": self._on_end,
            },
        )

    def feed(self, data: bytes) -> None:
        """The next chunk."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise invalid("", "is no multipart/form-data body") from None

    def _on_header_end(self) -> None:
        self._headers[bytes(self._field).lower()] = bytes(self._value)
        self._field.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        kind, options = parse_options_header(self._headers.get(b"content-disposition"))
        if kind != b"form-data" or b"name" not in options:
            raise invalid("", "has a part without Content-Disposition: form-data and a name")
        try:
            self._begin(options[b"name"].decode(), options.get(b"filename", b"").decode())
        except UnicodeDecodeError:
            message = "has a part whose name, or file name, is not UTF-8"
            raise invalid("", message) from None

    def _on_end(self) -> None:
        self._complete = True

    def _begin(self, name: str, file_name: str) -> None:
        """A part begins. Raises ProblemError for one that is not expected here."""
        if name == self._name and self._text is None:
            self._text = bytearray()
        elif name != "file" or self._writer is not None:
            message = "has a part that is not expected, or one that came before"
            raise invalid("", f"{message}; {self._parts}")
        elif self._text is None:
            raise invalid("/file", f"comes before the {self._name}; {self._parts}")
        else:
            self._file_name = _base_name(file_name)
            self.accepted = self._accept(bytes(self._text), self._file_name)
            self._writer = self._storage.writer(self._key)

    def _take(self, data: bytes) -> None:
        """The next chunk of the part."""
        if self._writer is not None:
            self._hash.update(data)
            self._writer.write(data)
        elif self._text is not None:
            self._text += data
            if len(self._text) > _MAX_TEXT_BYTES:
                detail = f"the {self._name} is larger than {_MAX_TEXT_BYTES} bytes"
                raise ProblemError("payload-too-large", detail)

    def finish(self) -> ArrivedFile:
        """The file, after the last chunk. Raises ProblemError where the body is truncated, or a
        part is missing."""
        if not self._complete:
            raise invalid("", "breaks off before its closing boundary; send it again")
        if self._writer is None:
            raise invalid("", f"lacks a part; {self._parts}")
        if not self._hash.size:
            raise invalid("/file", "is empty")
        found, size = self._hash.finish(), self._hash.size
        return ArrivedFile(found, self._file_name, size, self._key, self._writer)

    def abort(self) -> None:
        """Abort, and leave nothing stored."""
        if self._writer is not None:
            self._writer.abort()


@asynccontextmanager
async def received(request: Request, incoming: IncomingFile[Any]) -> AsyncIterator[ArrivedFile]:
    """The file in the body of a request. Disk and hashing are left to threads, one at a time. What
    is not committed when the block ends is removed, also where the request is cancelled. Raises
    ProblemError, StorageError."""
    try:
        async for block in in_blocks(request):
            await run_sync(incoming.feed, block)
        yield await run_sync(incoming.finish)
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(incoming.abort)
