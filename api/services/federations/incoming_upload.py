"""An upload in progress: the registration first, then the file, which is sent to the storage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from api.http.bodies import decode_json, decode_yaml
from api.http.problems import ProblemError, invalid
from api.http.yaml_bodies import MEDIA_TYPES as YAML
from api.services.federations.form_parts import Part
from api.services.federations.incoming_file import ArrivedFile, IncomingFile, base_name
from fedaudit.spec.registration import Registration, parse_uploaded
from infrastructure.storage import Storage

_MAX_REGISTRATION_BYTES = 2**20
_PARTS = "send two parts: `registration` (JSON or YAML), then `file`"


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
            self._decode = decode_yaml if part.media_type in YAML else decode_json
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
