"""A file that is being uploaded: measured, hashed and sent to the storage as it comes."""

import re
from dataclasses import dataclass

from api.http.problems import ProblemError, invalid
from api.services.federations.content_hash import ContentHash, DamagedError, TooLargeError
from infrastructure.storage import Storage, StorageWriter

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
