"""Zip archives from untrusted sources: checked first, read as streams, never unpacked.

Nothing is written to disk, so a path that leads out of the archive's folder could do no harm here;
it is refused all the same, because such an archive is not what it claims to be.
"""

import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import InvalidInputError

MAX_MEMBERS = 1000
MAX_DIRECTORY_BYTES = 2**20
"""Bytes of the directory at an archive's end, which is read as a whole."""
MAX_COMPRESSION_RATIO = 200
"""How far an archive may expand, once it expands to more than UNSUSPICIOUS bytes. Deflate reaches
1,032; pixels and numbers in text stay far below 100."""
UNSUSPICIOUS = 64 * 2**20
_READ_AT_ONCE = 2**20
_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_END = struct.Struct("<4s4H2IH")
"""The record that ends an archive: signature, disks, entries, size and place of the directory,
length of the comment (APPNOTE.TXT, 4.3.16)."""
_END64_LOCATOR = struct.Struct("<4s16s")
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_MAX_SHOWN_LENGTH = 80
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, OverflowError)


def is_zip(file: SourceFile) -> bool:
    """Whether a file's content begins like a zip archive."""
    with file.open() as stream:
        return stream.read(4) in _STARTS


@contextmanager
def open_archive(
    file: SourceFile, *, suffix: str, largest_member: int, largest: int
) -> Iterator["Archive"]:
    """A zip archive of files that all end in `suffix`, apart from folders and `__MACOSX`.

    `largest_member` limits one file and `largest` all of them, in bytes after decompression. Raises
    InvalidInputError where the archive is damaged, larger, or holds anything else: links, encrypted
    files, paths that leave the archive, the same name twice.
    """
    if file.compressed:
        raise file.fault("is an archive packed by gzip once more; name the archive itself")
    with file.open() as stream:
        _check_end(file, stream)
        try:
            archive = zipfile.ZipFile(stream)
        except (*_DAMAGE, NotImplementedError):
            raise _damaged(file) from None
        with archive:
            members = _members(file, archive.infolist(), suffix)
            _check_sizes(file, members, largest_member=largest_member, largest=largest)
            yield Archive(file, archive, members)


class Archive:
    """An open archive whose list of files has been checked."""

    def __init__(
        self, file: SourceFile, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]
    ) -> None:
        self.file = file
        self._archive = archive
        self._members = members

    @property
    def names(self) -> tuple[str, ...]:
        """The files' names, in the order of the archive."""
        return tuple(self._members)

    def size(self, name: str) -> int:
        """A file's declared size in bytes; reading never returns more."""
        return self._members[name].file_size

    @contextmanager
    def open(self, name: str) -> Iterator["Member"]:
        """A file of the archive, from its start. Raises InvalidInputError where it is damaged."""
        try:
            stream = self._archive.open(self._members[name])
        except (*_DAMAGE, NotImplementedError, RuntimeError):
            raise _damaged(self.file) from None
        with stream:
            yield Member(self.file, name, stream, self.size(name))

    def read(self, name: str) -> bytearray:
        """A file of the archive as a whole. Raises InvalidInputError where it is damaged."""
        content = bytearray(self.size(name))
        with self.open(name) as member:
            member.fill(memoryview(content))
        return content


class Member:
    """A file of an archive, read once from its start to its end."""

    def __init__(self, file: SourceFile, name: str, stream: IO[bytes], size: int) -> None:
        self._file = file
        self._name = name
        self._stream = stream
        self.left = size
        """Bytes not read yet."""

    def read(self, size: int) -> bytearray:
        """The next `size` bytes, or all that are left if those are fewer."""
        content = bytearray(min(size, self.left))
        self.fill(memoryview(content))
        return content

    def fill(self, view: memoryview) -> None:
        """Read as many bytes as `view` has room for.

        Reads in chunks, because zipfile decompresses as much as is requested before it checks the
        declared size. Raises InvalidInputError where the file ends early.
        """
        done = 0
        while done < len(view):
            piece = self._piece(min(_READ_AT_ONCE, len(view) - done))
            view[done : done + len(piece)] = piece
            done += len(piece)
            self.left -= len(piece)

    def _piece(self, size: int) -> bytes:
        try:
            piece = self._stream.read(size)
        except (*_DAMAGE, OSError):
            raise _damaged(self._file, self._name) from None
        if not piece:
            raise _damaged(self._file, self._name)
        return piece


def shown(name: str) -> str:
    """A name from a file, for a message: quoted, and truncated if long."""
    return repr(name if len(name) <= _MAX_SHOWN_LENGTH else f"{name[:_MAX_SHOWN_LENGTH]}...")


def _check_end(file: SourceFile, stream: BinaryIO) -> None:
    """Refuse an archive whose directory is too long, before zipfile reads it."""
    tail = max(0, file.size - _END.size - _END64_LOCATOR.size)
    stream.seek(tail)
    end = stream.read(_END.size + _END64_LOCATOR.size)
    if len(end) < _END.size:
        raise _damaged(file)
    signature, *_, entries, directory, _, comment = _END.unpack(end[-_END.size :])
    if signature != b"PK\x05\x06" or comment:
        raise file.fault(
            "is a damaged archive, or one with a comment; pack it again without a comment"
        )
    if entries > MAX_MEMBERS or directory > MAX_DIRECTORY_BYTES or end[:4] == b"PK\x06\x07":
        raise _too_many(file)
    stream.seek(0)


def _members(
    file: SourceFile, entries: list[zipfile.ZipInfo], suffix: str
) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by name, each of them checked."""
    if len(entries) > MAX_MEMBERS:
        raise _too_many(file)
    members: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        problem = _problem(entry)
        if problem:
            raise file.fault(f"holds {shown(entry.orig_filename)}, {problem}; pack it again")
        if entry.is_dir() or entry.filename.startswith("__MACOSX/"):
            continue
        if not entry.filename.endswith(suffix):
            raise file.fault(
                f"holds {shown(entry.filename)}, and only {suffix} files are read; take it out"
            )
        if entry.filename in members:
            raise file.fault(f"holds {shown(entry.filename)} twice; pack it again")
        members[entry.filename] = entry
    if not members:
        raise file.fault(f"is an archive without a {suffix} file; name another file")
    return members


def _problem(entry: zipfile.ZipInfo) -> str | None:
    """What is wrong with an entry of the directory, worded for a message."""
    name = entry.orig_filename.replace("\\", "/")
    if name.startswith("/") or ":" in name.split("/")[0] or ".." in name.split("/"):
        return "a path that leads out of the archive's folder"
    if _UNPRINTABLE.search(name):
        return "a name with control characters"
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "which is a link or a device and no file"
    if entry.flag_bits & _ENCRYPTED:
        return "which is encrypted"
    if entry.compress_type not in _METHODS:
        return "which is compressed in another way than by deflate"
    return None


def _check_sizes(
    file: SourceFile, members: dict[str, zipfile.ZipInfo], *, largest_member: int, largest: int
) -> None:
    """Refuse excessive expansion, by the declared sizes; reading stops at these."""
    for name, member in members.items():
        if member.file_size > largest_member:
            raise file.fault(
                f"holds {shown(name)} of more than {largest_member // 2**20} MiB; split it into "
                "several files"
            )
    total = sum(member.file_size for member in members.values())
    if total > largest:
        raise file.fault(
            f"expands to more than {largest // 2**20} MiB; keep only what the experiment needs"
        )
    if total > max(UNSUSPICIOUS, MAX_COMPRESSION_RATIO * file.size):
        raise file.fault(
            f"expands to more than {MAX_COMPRESSION_RATIO} times its size, as an archive made to "
            "fill a memory would; pack it again with less compression if it is none"
        )


def _too_many(file: SourceFile) -> InvalidInputError:
    return file.fault(f"is an archive of more than {MAX_MEMBERS} files; put more into each of them")


def _damaged(file: SourceFile, name: str | None = None) -> InvalidInputError:
    held = "" if name is None else f", of which {shown(name)} cannot be read"
    return file.fault(f"is a damaged zip archive{held}; copy it again")
