"""An upload in progress: the registration first, then the file, which is sent to the storage."""

import re
from dataclasses import dataclass
from typing import Any

from api.http.bodies import decode_json
from api.http.problems import ProblemError, invalid
from api.services.federations.content_hash import ContentHash, DamagedError, TooLargeError
from api.services.federations.form_parts import Part
from fedaudit.spec.registration import Registration, parse_uploaded
from infrastructure.storage import Storage, StorageWriter

_MAX_REGISTRATION_BYTES = 2**20
_MAX_NAME_LENGTH = 200
_REFUSED_NAME = re.compile(r"[\x00-\x1f\x7f:]|\A~|\A\.{0,2}\Z")
_PARTS = "send two parts: `registration` (JSON), then `file`"


@dataclass(frozen=True)
class Arrived:
    """A complete upload, whose file is written but not yet committed."""

    registration: Registration
    fingerprint: str
    file_name: str
    size_bytes: int
    storage_key: str
    writer: StorageWriter


class IncomingUpload:
    """Takes the parts of an upload; an invalid registration ends it before the file.

    To be ended by `finish` or `abort`; after an abort nothing is stored.
    """

    def __init__(self, storage: Storage, storage_key: str, *, largest_bytes: int) -> None:
        self._storage = storage
        self._key = storage_key
        self._largest = largest_bytes
        self._part: str | None = None
        self._text: bytearray | None = None
        self._value: Any = None
        self._registration: Registration | None = None
        self._file_name = ""
        self._size = 0
        self._hash = ContentHash(largest_bytes)
        self._writer: StorageWriter | None = None

    def begin(self, part: Part) -> None:
        """A part begins. Raises ProblemError for one that is not expected here."""
        self._part = part.name
        if part.name == "registration" and self._text is None:
            self._text = bytearray()
        elif part.name == "file" and self._text is None:
            raise invalid("/file", "comes before the registration; " + _PARTS)
        elif part.name == "file" and self._writer is None:
            self._file_name = _base_name(part.file_name)
            self._registration = parse_uploaded(self._value, file_name=self._file_name)
            self._writer = self._storage.writer(self._key)
        else:
            raise invalid("", "has a part that is not expected, or one that came before; " + _PARTS)

    def data(self, data: bytes) -> None:
        """The next chunk of the part. Raises ProblemError, StorageError."""
        if self._writer is None:
            self._take_text(data)
            return
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

    def end(self) -> None:
        """The part is complete."""
        if self._writer is None and self._text is not None:
            self._value = decode_json(bytes(self._text))

    def finish(self) -> Arrived:
        """The upload, once the body is complete. Raises ProblemError where a part is missing."""
        if self._registration is None or self._writer is None:
            raise invalid("", "lacks a part; " + _PARTS)
        if not self._size:
            raise invalid("/file", "is empty")
        try:
            fingerprint = self._hash.finish()
        except DamagedError as error:
            raise invalid("/file", str(error)) from None
        return Arrived(
            self._registration,
            fingerprint,
            self._file_name,
            self._size,
            self._key,
            self._writer,
        )

    def abort(self) -> None:
        """Abort, and leave nothing stored."""
        if self._writer is not None:
            self._writer.abort()

    def _take_text(self, data: bytes) -> None:
        if self._text is not None:
            self._text += data
            if len(self._text) > _MAX_REGISTRATION_BYTES:
                raise ProblemError(
                    413,
                    "payload-too-large",
                    f"the registration is larger than {_MAX_REGISTRATION_BYTES} bytes",
                )


def _base_name(file_name: str | None) -> str:
    """The last component of the client's name for the file; it is shown, and never used as a
    path."""
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
