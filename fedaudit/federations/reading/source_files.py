"""Open the files that specs name: below the service's sources folder, or uploaded to it."""

import gzip
import hashlib
import io
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from fedaudit.spec.errors import InvalidInputError, error_at
from fedaudit.spec.sources import FileSource


@dataclass(frozen=True)
class DataRoom:
    """Memory and disk that a service gives to data."""

    memory_bytes: int = 4 * 2**30
    """Bytes that the data of one run may take, by estimate."""
    scratch_dir: Path | None = None
    """Where large data are laid out while they are used; None for the system's place for temporary
    files."""


MAX_EXPANDED_BYTES = 16 * 2**30
"""Maximum bytes that a gzip file may expand to: a small file can claim any number."""
_BUFFER = 2**20

Fault = Callable[[str], InvalidInputError]
"""Makes the error for a message about the file."""


class _Stored(io.FileIO):
    """An open file, opened once more: streams do not disturb each other."""

    def __init__(self, descriptor: int, fault: Fault) -> None:
        super().__init__(f"/dev/fd/{descriptor}")
        self._fault = fault

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise self._fault(f"cannot be read ({reason}); name another file") from None


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


MAX_FILE_BYTES = 512 * 2**20
"""Bytes after decompression that may be read at once; streams have no such limit."""
_HASHED_AT_ONCE = 2**20
_GZIP = b"\x1f\x8b"
_PATH, _ID = "/federation/path", "/federation/id"


@dataclass(frozen=True)
class Upload:
    """An uploaded file, available on this machine while it is open."""

    path: Path
    name: str
    """Its original name, for messages."""
    fingerprint: str
    """SHA-256 (hex) of its content, decompressed."""


OpenUpload = Callable[[str], AbstractContextManager[Upload]]
"""Opens an uploaded federation by its id. Raises InvalidInputError where it cannot be used."""


MayRead = Callable[[PurePosixPath], bool]
"""Whether the caller may read a path, relative to the sources folder."""


@dataclass(frozen=True)
class Files:
    """Where the files that specs name are found."""

    sources_dir: Path | None = None
    open_upload: OpenUpload | None = None
    may_read: MayRead | None = None
    """None where everything below the sources folder may be read."""
    room: DataRoom = field(default_factory=DataRoom)
    """What the data may take of this machine."""


class SourceFile:
    """An open regular file on this machine, whose content is read decompressed, as streams."""

    def __init__(
        self, descriptor: int, *, label: str, pointer: str, expected: str | None = None
    ) -> None:
        """`descriptor` remains the caller's; `expected`: the fingerprint that the file must
        have."""
        self.label = label
        """The name in messages; never includes the folder."""
        self.pointer = pointer
        """The spec's field that named it."""
        self._descriptor = descriptor
        self._expected = expected
        self._fingerprint: str | None = None
        self.size = os.fstat(descriptor).st_size
        """Bytes on disk."""
        self.compressed = os.pread(descriptor, len(_GZIP), 0) == _GZIP
        """Whether it is a gzip file; its streams cannot seek."""
        self.same_file = f"/dev/fd/{descriptor}"
        """A path by which libraries that are not Python open this same file, packed as it is."""

    def open(self) -> BinaryIO:
        """The content from its start, gzip undone; seekable unless `compressed`.

        Reading raises InvalidInputError where the file is damaged, cannot be read, or expands
        beyond MAX_EXPANDED_BYTES.
        """
        stored = _Stored(self._descriptor, self.fault)
        content = _Unpacked(stored, self.fault) if self.compressed else stored
        return cast(BinaryIO, io.BufferedReader(content, _BUFFER))

    def read_all(self, most: int = MAX_FILE_BYTES) -> bytes:
        """The whole content. Raises InvalidInputError where it has more than `most` bytes."""
        with self.open() as stream:
            data = stream.read(most + 1)
        if len(data) > most:
            raise self.fault(
                f"holds more than {most // 2**20} MiB; keep only what the experiment needs"
            )
        return data

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the content, the same whether or not the file is compressed.

        Raises InvalidInputError where an upload is no longer what was uploaded.
        """
        return self.read_fingerprint(lambda: None)

    def read_fingerprint(self, progress: Callable[[], None]) -> str:
        """Like `fingerprint`, but always reads the file and calls `progress` meanwhile."""
        if self._fingerprint is None:
            digest = hashlib.sha256()
            with self.open() as stream:
                while block := stream.read(_HASHED_AT_ONCE):
                    digest.update(block)
                    progress()
            found = digest.hexdigest()
            if self._expected not in (None, found):
                raise self.fault("is no longer the file that was uploaded; upload it anew")
            self._fingerprint = found
        return self._fingerprint

    def fault(self, message: str) -> InvalidInputError:
        """An error about this file, to be raised."""
        return error_at(self.pointer, f"'{self.label}' {message}")


@contextmanager
def open_source(source: FileSource, *, files: Files) -> Iterator[SourceFile]:
    """The file that a spec names by `path` or by `id`.

    Raises InvalidInputError at that field where there is no such file, it cannot be read, or it
    changed in the meantime.
    """
    if source.path is not None:
        with open_path(source.path, files=files, pointer=_PATH) as file:
            yield file
        return
    if source.id is None or files.open_upload is None:
        raise error_at(
            _ID, "uploaded federations are known to their service only; give a `path`", of_spec=True
        )
    with (
        files.open_upload(source.id) as upload,
        _reading(upload.path, upload.name, _ID, expected=upload.fingerprint) as file,
    ):
        yield file


def open_path(path: str, *, files: Files, pointer: str) -> AbstractContextManager[SourceFile]:
    """A file below the sources folder after links are resolved.

    Raises InvalidInputError at `pointer` where there is no such regular file, it is outside the
    folder, cannot be read, or changed in the meantime. One that `files` does not let be read is
    answered as if it were not there.
    """
    return _reading(_place_below(files, path, pointer), path, pointer)


def registered_file(registration: Mapping[str, Any] | None, *, files: Files) -> Path:
    """The place of a federation's file that was registered by its path.

    Raises InvalidInputError where none was, or it is not there.
    """
    if registration is None:
        message = "is known by its file's path only; name the data by `path`"
        raise error_at(_ID, message, of_spec=True)
    path = str(registration["federation"]["path"])
    with open_path(path, files=files, pointer=_ID):
        # Opened to check that it exists and is below the folder.
        return (files.sources_dir or Path()).joinpath(path).resolve()


def open_stored(path: Path, label: str) -> AbstractContextManager[SourceFile]:
    """A file that the service itself keeps. Raises InvalidInputError where it cannot be read."""
    return _reading(path, label, _ID)


@contextmanager
def _reading(
    path: Path, label: str, pointer: str, *, expected: str | None = None
) -> Iterator[SourceFile]:
    """A regular file; what is checked is the open one, which cannot be swapped afterwards."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(error, label, pointer) from None
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            kind = "a folder" if stat.S_ISDIR(before.st_mode) else "no regular file"
            raise error_at(pointer, f"'{label}' is {kind}; name a file with data")
        file = SourceFile(descriptor, label=label, pointer=pointer, expected=expected)
        yield file
        after = os.fstat(descriptor)
        # Otherwise the fingerprint could belong to other rows than those that were read.
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise file.fault("changed while it was being read; write it elsewhere and rename it")
    finally:
        os.close(descriptor)


def _place_below(files: Files, path: str, pointer: str) -> Path:
    """Where a path below the sources folder leads, if the caller may read there."""
    if files.sources_dir is None:
        raise error_at(
            pointer, "no sources folder is configured; set FEDAUDIT_SOURCES_DIR", of_spec=True
        )
    try:
        folder = files.sources_dir.resolve(strict=True)
    except (OSError, RuntimeError):
        raise error_at(
            pointer, "the sources folder does not exist; correct FEDAUDIT_SOURCES_DIR", of_spec=True
        ) from None
    may_read = files.may_read or (lambda _: True)
    # The path as written comes first: a refusal must reveal no link or folder of others.
    if not may_read(PurePosixPath(path)):
        raise _unreadable(FileNotFoundError(), path, pointer)
    try:
        resolved = (folder / path).resolve()
    except (RuntimeError, ValueError):
        raise error_at(pointer, f"'{path}' is no usable path; its links run in a circle") from None
    if not resolved.is_relative_to(folder):
        raise error_at(
            pointer,
            f"'{path}' leads out of the sources folder; copy the file into it and give its path "
            "below it",
        )
    # And where its links lead.
    if not may_read(PurePosixPath(*resolved.relative_to(folder).parts)):
        raise _unreadable(FileNotFoundError(), path, pointer)
    return resolved


def _unreadable(error: OSError, label: str, pointer: str) -> InvalidInputError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        if pointer == _ID:
            return error_at(pointer, f"'{label}' is no longer stored; upload it anew")
        return error_at(
            pointer,
            f"there is no file '{label}' in the sources folder; correct the path",
            of_spec=True,
        )
    if isinstance(error, PermissionError):
        return error_at(pointer, f"the service may not read '{label}'; change its permissions")
    reason = error.strerror or type(error).__name__
    return error_at(pointer, f"'{label}' cannot be read ({reason}); name another file")
