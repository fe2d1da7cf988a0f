"""Uploads in progress: the parts of a form, hashed and written to the storage as they come."""

import hashlib
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from api.http.bodies import YAML_TYPES, decode_json, decode_yaml
from api.http.problems import ProblemError, invalid
from fedaudit.spec.registration import Registration, parse_uploaded
from infrastructure.storage import Storage, StorageWriter

_GZIP = b"\x1f\x8b"
_WITH_GZIP_HEADER = 16 + zlib.MAX_WBITS
_BLOCK = 2**20


class DamagedError(ValueError):
    """The file begins like a gzip file, but is not a valid one or is truncated."""


class TooLargeError(ValueError):
    """The content is larger than permitted."""


class ContentHash:
    """Takes a file in chunks; a small file may expand to any size, so the expansion is limited."""

    def __init__(self, largest_bytes: int) -> None:
        self._digest = hashlib.sha256()
        self._left = largest_bytes
        self._head: bytes | None = b""
        """The first bytes, kept until they show whether the file is compressed; then None."""
        self._compressed = False
        self._inflater = zlib.decompressobj(wbits=_WITH_GZIP_HEADER)

    def update(self, data: bytes) -> None:
        """The next chunk. Raises TooLargeError, DamagedError."""
        if self._head is not None:
            self._head += data
            if len(self._head) < len(_GZIP):
                return
            data, self._head = self._head, None
            self._compressed = data.startswith(_GZIP)
        if self._compressed:
            self._inflate(data)
        else:
            self._take(data)

    def finish(self) -> str:
        """The digest in hexadecimal, after the last chunk. Raises DamagedError."""
        if self._head:
            self._take(self._head)
        if self._compressed and not self._inflater.eof:
            raise DamagedError("the gzip file breaks off; compress it again")
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
                raise DamagedError("the gzip file is damaged; compress it again") from None
            self._take(block)
            full = len(block) == _BLOCK and not self._inflater.eof
            data = self._inflater.unused_data or self._inflater.unconsumed_tail

    def _take(self, content: bytes) -> None:
        self._left -= len(content)
        if self._left < 0:
            raise TooLargeError
        self._digest.update(content)


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


_MAX_NAME_LENGTH = 200
_REFUSED_NAME = re.compile(r"[\x00-\x1f\x7f:]|\A~|\A\.{0,2}\Z")


@dataclass(frozen=True)
class ArrivedFile:
    """A complete file, which is written but not yet committed."""

    fingerprint: str
    file_name: str
    size_bytes: int
    storage_key: str
    writer: StorageWriter


class IncomingFile:
    """To be ended by `finish` or `abort`; after an abort nothing is stored."""

    def __init__(
        self, storage: Storage, storage_key: str, *, file_name: str, largest_bytes: int
    ) -> None:
        """`file_name`: as `base_name` gives it. Raises StorageError."""
        self.file_name = file_name
        self._key = storage_key
        self._largest = largest_bytes
        self._size = 0
        self._hash = ContentHash(largest_bytes)
        self._writer = storage.writer(storage_key)

    def data(self, data: bytes) -> None:
        """The next chunk. Raises ProblemError, StorageError."""
        self._size += len(data)
        try:
            if self._size > self._largest:
                raise TooLargeError
            self._hash.update(data)
        except TooLargeError:
            raise ProblemError(
                413,
                "payload-too-large",
                f"the file is larger than {self._largest} bytes, as it is or after decompression",
            ) from None
        except DamagedError as error:
            raise invalid("/file", str(error)) from None
        self._writer.write(data)

    def finish(self) -> ArrivedFile:
        """The file, once all of it came. Raises ProblemError for an empty or damaged one."""
        if not self._size:
            raise invalid("/file", "is empty")
        try:
            fingerprint = self._hash.finish()
        except DamagedError as error:
            raise invalid("/file", str(error)) from None
        return ArrivedFile(fingerprint, self.file_name, self._size, self._key, self._writer)

    def abort(self) -> None:
        """Abort, and leave nothing stored."""
        self._writer.abort()


def base_name(file_name: str | None) -> str:
    """The last component of the client's name for the file; it is shown, and never used as a
    path. Raises ProblemError for one that cannot be shown."""
    if file_name is None:
        raise invalid("/file", "has no file name; send one with the part")
    name = file_name.replace("\\", "/").rpartition("/")[2]
    if _REFUSED_NAME.search(name) or len(name) > _MAX_NAME_LENGTH:
        raise invalid(
            "/file",
            f"needs a file name of 1 to {_MAX_NAME_LENGTH} characters, without colons or control "
            "characters",
        )
    return name


_MAX_REGISTRATION_BYTES = 2**20
_PARTS = "send two parts: `registration` (JSON or YAML_TYPES), then `file`"


@dataclass(frozen=True)
class Arrived:
    """A complete upload, whose file is written but not yet committed."""

    registration: Registration
    file: ArrivedFile


class IncomingUpload:
    """Takes the parts of an upload; an invalid registration ends it before the file.

    To be ended by `finish` or `abort`; after an abort nothing is stored.
    """

    def __init__(self, storage: Storage, storage_key: str, *, largest_bytes: int) -> None:
        self._storage = storage
        self._key = storage_key
        self._largest = largest_bytes
        self._text: bytearray | None = None
        self._decode: Callable[[bytes], Any] = decode_json
        self._value: Any = None
        self._registration: Registration | None = None
        self._file: IncomingFile | None = None

    def begin(self, part: Part) -> None:
        """A part begins. Raises ProblemError for one that is not expected here."""
        if part.name == "registration" and self._text is None:
            self._text = bytearray()
            self._decode = decode_yaml if part.media_type in YAML_TYPES else decode_json
        elif part.name == "file" and self._text is None:
            raise invalid("/file", "comes before the registration; " + _PARTS)
        elif part.name == "file" and self._file is None:
            name = base_name(part.file_name)
            self._registration = parse_uploaded(self._value, file_name=name)
            self._file = IncomingFile(
                self._storage, self._key, file_name=name, largest_bytes=self._largest
            )
        else:
            raise invalid("", "has a part that is not expected, or one that came before; " + _PARTS)

    def data(self, data: bytes) -> None:
        """The next chunk of the part. Raises ProblemError, StorageError."""
        if self._file is None:
            self._take_text(data)
        else:
            self._file.data(data)

    def end(self) -> None:
        """The part is complete."""
        if self._file is None and self._text is not None:
            self._value = self._decode(bytes(self._text))

    def finish(self) -> Arrived:
        """The upload, once the body is complete. Raises ProblemError where a part is missing."""
        if self._registration is None or self._file is None:
            raise invalid("", "lacks a part; " + _PARTS)
        return Arrived(self._registration, self._file.finish())

    def abort(self) -> None:
        """Abort, and leave nothing stored."""
        if self._file is not None:
            self._file.abort()

    def _take_text(self, data: bytes) -> None:
        if self._text is not None:
            self._text += data
            if len(self._text) > _MAX_REGISTRATION_BYTES:
                raise ProblemError(
                    413,
                    "payload-too-large",
                    f"the registration is larger than {_MAX_REGISTRATION_BYTES} bytes",
                )


_MAX_WORD_BYTES = 1000


class IncomingForm:
    """Takes the parts of the form; nothing is stored of one whose word is not accepted.

    To be ended by `finish` or `abort`; after an abort nothing is stored.
    """

    def __init__(
        self,
        storage: Storage,
        storage_key: str,
        *,
        largest_bytes: int,
        word: str,
        check: Callable[[str], None],
    ) -> None:
        """`word`: the name of the field that `check` is given, which raises for a wrong one."""
        self._storage = storage
        self._key = storage_key
        self._largest = largest_bytes
        self._name = word
        self._check = check
        self._given: bytearray | None = None
        self._accepted = False
        self._file: IncomingFile | None = None

    def begin(self, part: Part) -> None:
        """A part begins. Raises ProblemError for one that is not expected here."""
        if part.name == self._name and self._given is None:
            self._given = bytearray()
        elif part.name == "file" and self._file is None:
            self._accept()
            # A browser sends a part without a name where no file was chosen.
            if not part.file_name:
                raise invalid("/file", "choose a file")
            self._file = IncomingFile(
                self._storage,
                self._key,
                file_name=base_name(part.file_name),
                largest_bytes=self._largest,
            )
        else:
            raise invalid("", "the form has a part that is not expected; open the page again")

    def data(self, data: bytes) -> None:
        """The next chunk of the part. Raises ProblemError, StorageError."""
        if self._file is not None:
            self._file.data(data)
        elif self._given is not None and len(self._given) < _MAX_WORD_BYTES:
            self._given += data

    def end(self) -> None:
        """The part is complete."""

    def finish(self) -> ArrivedFile:
        """The file, once the form is complete. Raises ProblemError where it has none."""
        self._accept()
        if self._file is None:
            raise invalid("/file", "choose a file")
        return self._file.finish()

    def abort(self) -> None:
        """Abort, and leave nothing stored."""
        if self._file is not None:
            self._file.abort()

    def _accept(self) -> None:
        if not self._accepted:
            self._check((self._given or b"").decode("utf-8", "replace"))
            self._accepted = True
