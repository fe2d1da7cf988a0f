"""Reading a file below the service's sources folder, and none outside it."""

import gzip
import hashlib
import io
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fedaudit.federations.faults import invalid
from fedaudit.spec.errors import InvalidInputError

LARGEST_FILE = 512 * 2**20
"""Bytes after decompression: a file is read as a whole, by the API too."""

_GZIP = b"\x1f\x8b"


@dataclass(frozen=True)
class SourceFile:
    """A file's content, decompressed."""

    path: str
    """As the spec names it; messages never show the folder it lies in."""
    pointer: str
    """The spec's field that named it."""
    data: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the content, the same whether or not the file is compressed."""
        return hashlib.sha256(self.data).hexdigest()

    def fault(self, message: str) -> InvalidInputError:
        """An error about this file, to be raised."""
        return invalid(self.pointer, f"'{self.path}' {message}")


def read_source(path: str, *, sources_dir: Path | None, pointer: str) -> SourceFile:
    """Read a file (gzip is undone) that lies below `sources_dir` once links are followed.

    Raises InvalidInputError at `pointer` where there is no such regular file, it leads out of
    the folder, cannot be read, or holds more than LARGEST_FILE bytes.
    """
    try:
        with _open_below(_folder(sources_dir, pointer), path, pointer) as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(error, path, pointer) from None
    if data.startswith(_GZIP):
        data = _decompress(data, path, pointer)
    if len(data) > LARGEST_FILE:
        raise invalid(
            pointer,
            f"'{path}' holds more than {LARGEST_FILE // 2**20} MiB; keep only the columns and "
            "rows that the experiment needs",
        )
    return SourceFile(path, pointer, data)


def _folder(sources_dir: Path | None, pointer: str) -> Path:
    if sources_dir is None:
        raise invalid(pointer, "no sources folder is configured; set FEDAUDIT_SOURCES_DIR")
    try:
        return sources_dir.resolve(strict=True)
    except (OSError, RuntimeError):
        raise invalid(
            pointer, "the sources folder does not exist; correct FEDAUDIT_SOURCES_DIR"
        ) from None


def _open_below(folder: Path, path: str, pointer: str) -> BinaryIO:
    """Open a regular file; the descriptor is checked, so nothing can be swapped in between."""
    try:
        resolved = (folder / path).resolve()
    except (RuntimeError, ValueError):
        raise invalid(pointer, f"'{path}' is no usable path; its links run in a circle") from None
    if not resolved.is_relative_to(folder):
        raise invalid(
            pointer,
            f"'{path}' leads out of the sources folder; copy the file into it and give its path "
            "below it",
        )
    # Without O_NONBLOCK, opening a FIFO would wait for a writer.
    descriptor = os.open(resolved, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise invalid(pointer, f"'{path}' is {kind}; name a CSV or Parquet file")
    return os.fdopen(descriptor, "rb")


def _unreadable(error: OSError, path: str, pointer: str) -> InvalidInputError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return invalid(
            pointer, f"there is no file '{path}' in the sources folder; correct the path"
        )
    if isinstance(error, PermissionError):
        return invalid(pointer, f"the service may not read '{path}'; change its permissions")
    reason = error.strerror or type(error).__name__
    return invalid(pointer, f"'{path}' cannot be read ({reason}); name another file")


def _decompress(data: bytes, path: str, pointer: str) -> bytes:
    """At most LARGEST_FILE + 1 bytes, however far the archive would expand."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as archive:
            return archive.read(LARGEST_FILE + 1)
    except (OSError, EOFError, zlib.error):
        raise invalid(pointer, f"'{path}' is a damaged gzip file; compress it again") from None
