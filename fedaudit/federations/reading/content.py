"""A file's content as a stream, with gzip undone and errors worded for the spec."""

import gzip
import io
import os
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from fedaudit.spec.errors import InvalidInputError

MAX_EXPANDED_BYTES = 16 * 2**30
"""Maximum bytes that a gzip file may expand to: a small file can claim any number."""
_BUFFER = 2**20

Fault = Callable[[str], InvalidInputError]
"""Makes the error for a message about the file."""


def content_of(descriptor: int, *, compressed: bool, fault: Fault) -> BinaryIO:
    """The content from its start. Streams of one descriptor do not disturb each other.

    Reading raises what `fault` makes where the file is damaged, cannot be read, or expands beyond
    MAX_EXPANDED_BYTES.
    """
    stored = _Stored(descriptor, fault)
    content = _Unpacked(stored, fault) if compressed else stored
    return cast(BinaryIO, io.BufferedReader(content, _BUFFER))


class _Stored(io.RawIOBase):
    """The bytes of a descriptor, at a position of its own."""

    def __init__(self, descriptor: int, fault: Fault) -> None:
        self._descriptor = descriptor
        self._fault = fault
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        starts = {
            os.SEEK_SET: 0,
            os.SEEK_CUR: self._position,
            os.SEEK_END: os.fstat(self._descriptor).st_size,
        }
        position = starts[whence] + offset
        if position < 0:
            raise ValueError("a position before the start of the file")
        self._position = position
        return position

    def readinto(self, buffer: Any) -> int:
        try:
            count = os.preadv(self._descriptor, [buffer], self._position)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise self._fault(f"cannot be read ({reason}); name another file") from None
        self._position += count
        return count


class _Unpacked(io.RawIOBase):
    """The decompressed content of a gzip file, up to MAX_EXPANDED_BYTES."""

    def __init__(self, stored: _Stored, fault: Fault) -> None:
        self._archive = gzip.GzipFile(fileobj=io.BufferedReader(stored, _BUFFER))
        self._fault = fault
        self._left = MAX_EXPANDED_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = self._archive.readinto(buffer)
        except (OSError, EOFError, zlib.error):
            raise self._fault(
                "is a damaged gzip file, perhaps cut off; compress it again"
            ) from None
        self._left -= count
        if self._left < 0:
            raise self._fault(
                f"expands to more than {MAX_EXPANDED_BYTES // 2**30} GiB; keep only the columns "
                "and rows that are needed"
            )
        return count
