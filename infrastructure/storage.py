"""Files that callers upload, record tables, models and files of attacks: in a folder, or in an
object store (S3 or Google Cloud Storage).

A key such as `federations/PROJECT/ID` names a file for good: it is written whole, and then only
read, deleted, or replaced by the same. Keys are made of ids, never of text that a caller chose.
"""

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote, urlsplit

import structlog

from infrastructure.settings import check_storage_url

log = structlog.get_logger()

_KEY = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)+")
_LEFT_OVER = re.compile(r"\.[a-z0-9-]+\.[a-z0-9_]{8}")
"""How a folder names a file until it is complete."""
_LEFT_SECONDS = 24 * 3600.0
"""Since the last byte came; no upload pauses, and no data are loaded, so long."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BLOCK_BYTES = 16 * 2**20
"""Size of the parts that a remote file is sent and fetched in."""
_SENT_BYTES = 2**18
"""Size of the parts that callers get a file in."""


class StorageError(Exception):
    """The storage cannot do it; the message says why, for callers too."""


class StorageFullError(StorageError):
    """There is no room left."""


class StorageWriter:
    """A file being written, invisible before `commit`. As a context manager it commits, or aborts
    if the block raises. Each call raises StorageError if the storage fails; the writer is then
    aborted."""

    def __init__(
        self, file: Any, *, finish: Callable[[], None], discard: Callable[[], None]
    ) -> None:
        """`finish` makes what was written to `file` appear, `discard` leaves nothing behind."""
        self._file, self._finish, self._discard = file, finish, discard
        self._ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()

    def write(self, data: bytes) -> None:
        """Append to the file."""
        with self._aborting():
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]

    def commit(self) -> None:
        """Make the file appear under its key, as a whole, to stay after a power failure."""
        if not self._ended:
            with self._aborting():
                self._finish()
            self._ended = True

    def abort(self) -> None:
        """Leave nothing behind; after a commit this changes nothing."""
        if not self._ended:
            self._ended = True
            self._discard()

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        try:
            with _failing():
                yield
        except StorageError:
            self.abort()
            raise


class Storage:
    """One place for files: `file:///FOLDER`, `s3://BUCKET/PREFIX`, `gs://BUCKET/...`. Thread-safe.
    Object stores take credentials and endpoint from the environment (AWS_ACCESS_KEY_ID,
    AWS_ENDPOINT_URL, ...)."""

    def __init__(self, url: str) -> None:
        """Raises SettingsError for another kind of URL, and where its package is missing."""
        check_storage_url(url)
        parts = urlsplit(url)
        self._place: _Folder | _ObjectStore
        if parts.scheme == "file":
            self._place = _Folder(Path(unquote(parts.path)))
        else:
            self._place = _ObjectStore(parts.scheme, f"{parts.netloc}{parts.path}".rstrip("/"))

    def writer(self, key: str) -> StorageWriter:
        """A new file. Raises StorageError where none can be begun."""
        key = _checked(key)
        with _failing():
            return self._place.writer(key)

    def local(self, key: str) -> AbstractContextManager[Path]:
        """The file on this machine while the block runs: itself, or a temporary copy. Raises
        StorageError if it is missing or cannot be fetched."""
        return self._place.local(_checked(key))

    def blocks(self, key: str) -> Iterator[bytes]:
        """A file in blocks, which is opened at once: where they are an answer, no error can be
        reported once it has begun. Raises StorageError."""

        def read() -> Iterator[bytes]:
            with self.local(key) as path, path.open("rb") as file:
                while block := file.read(_SENT_BYTES):
                    yield block

        found = read()
        return chain([next(found, b"")], found)

    def holds(self, key: str) -> bool:
        """Whether the file is there. Raises StorageError if that cannot be determined."""
        key = _checked(key)
        with _failing():
            return self._place.holds(key)

    def sweep(self) -> int:
        """Remove what killed processes left unfinished; returns how many files. An object store's
        unfinished uploads are left to its own rules. Raises StorageError."""
        with _failing():
            return self._place.sweep()

    def delete(self, key: str) -> None:
        """Remove a file; one that is not there is removed already. Raises StorageError."""
        key = _checked(key)
        with _failing(), suppress(FileNotFoundError):
            self._place.delete(key)


@dataclass(frozen=True)
class _Folder:
    _folder: Path

    def writer(self, key: str) -> StorageWriter:
        """Writes beside the file's own place, and renames when all of it is on the disk."""
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # The name begins with a dot, as no key does.
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        # Unbuffered: every write asks the system whether there is room.
        file, temporary = os.fdopen(descriptor, "wb", buffering=0), Path(name)

        def finish() -> None:
            os.fsync(file.fileno())
            file.close()
            temporary.replace(path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

        def discard() -> None:
            with suppress(OSError):
                file.close()
            temporary.unlink(missing_ok=True)

        return StorageWriter(file, finish=finish, discard=discard)

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        path = self._folder / key
        if not path.is_file():
            raise StorageError(
                f"the stored file {key} is not there any more; restore it, or upload it again"
            )
        yield path

    def holds(self, key: str) -> bool:
        return (self._folder / key).is_file()

    def sweep(self) -> int:
        oldest, swept = time.time() - _LEFT_SECONDS, 0
        for path in self._folder.rglob(".*"):
            if not _LEFT_OVER.fullmatch(path.name):
                continue
            with suppress(FileNotFoundError):  # it was completed or removed just now
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    swept += 1
        return swept

    def delete(self, key: str) -> None:
        (self._folder / key).unlink()


@dataclass(frozen=True)
class _ObjectStore:
    _scheme: str
    _root: str

    def writer(self, key: str) -> StorageWriter:
        """Sends parts as they fill; the store shows the object once it is complete."""
        file = self._open(key, "wb", autocommit=False)

        def finish() -> None:
            file.close()
            file.commit()

        def discard() -> None:
            try:
                with _failing():
                    file.discard()
            except StorageError as error:
                # What was sent is not an object, and the store's own rules remove it.
                log.warning("upload not discarded", detail=str(error))
            # Otherwise it would try to send what is left when it is collected.
            file.closed = True

        return StorageWriter(file, finish=finish, discard=discard)

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="fedaudit-") as folder:
            copy = Path(folder, "file")
            with (
                _failing(),
                self._open(key, "rb", cache_type="readahead") as source,
                copy.open("wb") as target,
            ):
                shutil.copyfileobj(source, target, _BLOCK_BYTES)
            yield copy

    def holds(self, key: str) -> bool:
        return bool(self._files().exists(f"{self._root}/{key}"))

    def sweep(self) -> int:
        return 0

    def delete(self, key: str) -> None:
        self._files().rm_file(f"{self._root}/{key}")

    def _open(self, key: str, mode: str, **options: Any) -> Any:
        path = f"{self._root}/{key}"
        return self._files().open(path, mode, block_size=_BLOCK_BYTES, **options)

    def _files(self) -> Any:
        # Only now: a folder does without. fsspec keeps the instances itself.
        import fsspec

        return fsspec.filesystem(self._scheme)


FileKind = Literal["artifact", "attack-files", "model", "record-table"]
_FOLDERS: dict[FileKind, str] = {
    "artifact": "artifacts",
    "attack-files": "attack-files",
    "model": "models",
    "record-table": "record-tables",
}


def file_key(kind: FileKind, project_id: str, owner: str) -> str:
    """Where a file of a project is kept. `owner`: the experiment's id, of attacks that were made
    later theirs, or the hash of an artifact's content."""
    return f"{_FOLDERS[kind]}/{project_id}/{owner}"


def stored_artifact(storage: Storage, project_id: str, sha256: str) -> bytes | None:
    """The content of a file of parameters; None where it is not there. Raises StorageError."""
    key = file_key("artifact", project_id, sha256)
    if not storage.holds(key):
        return None
    with storage.local(key) as path:
        return path.read_bytes()


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is no storage key; make it of ids")
    return key


@contextmanager
def _failing() -> Iterator[None]:
    """Turns every backend's own errors into StorageError; what callers see names no address."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise StorageError("the stored file, or the place for it, is not there") from error
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFullError("the storage is full") from error
        reason = error.strerror or type(error).__name__
        raise StorageError(f"the storage failed: {reason}") from error
    except Exception as error:
        # Each object store's client has its own exceptions.
        raise StorageError(f"the storage failed: {type(error).__name__}") from error


def remove_left_over(scratch: Path) -> None:
    """What killed processes left where data are laid out, and what earlier versions kept there."""
    with suppress(OSError):
        for path in scratch.iterdir():
            if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
