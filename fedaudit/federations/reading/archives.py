"""Zip and NumPy archives from untrusted sources: checked first, read as streams, never unpacked.

Nothing is written to disk, so a path that leads out of the archive's folder could do no harm here;
it is refused all the same, because such an archive is not what it claims to be.

NumPy archives (.npz) hold arrays of numbers and texts, never of Python objects: an array of objects
is a pickle, and a pickle can run arbitrary code. Headers are checked against the sizes in the
archive before anything is allocated, and nothing is ever unpickled.
"""

import io
import math
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

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
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    struct.error,
    ValueError,
    OverflowError,
    OSError,  # a place before the file's start
)


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


@dataclass(frozen=True, eq=False)
class Archive:
    """An open archive whose list of files has been checked."""

    file: SourceFile
    _archive: zipfile.ZipFile
    _members: dict[str, zipfile.ZipInfo]

    @property
    def names(self) -> tuple[str, ...]:
        """The files' names, in the order of the archive."""
        return tuple(self._members)

    def size(self, name: str) -> int:
        """A file's declared size in bytes; reading never returns more."""
        return self._members[name].file_size

    def pieces(self, name: str, sizes: Iterable[int]) -> Iterator[bytearray]:
        """A file of the archive from its start, in pieces of these sizes.

        Reads in chunks, because zipfile decompresses as much as is requested before it checks the
        declared size. Raises InvalidInputError where the file is damaged, or ends early.
        """
        try:
            stream = self._archive.open(self._members[name])
        except (*_DAMAGE, NotImplementedError, RuntimeError):
            raise _damaged(self.file) from None
        with stream:
            for size in sizes:
                content = bytearray(size)
                left = memoryview(content)
                while left:
                    piece = b""
                    with suppress(*_DAMAGE):
                        piece = stream.read(min(_READ_AT_ONCE, len(left)))
                    if not piece:
                        raise _damaged(self.file, name)
                    left[: len(piece)] = piece
                    left = left[len(piece) :]
                yield content


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
    if len(end) < _END.size + _END64_LOCATOR.size:
        raise _damaged(file)  # there is no room for a file before the end
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
        if entry.filename.endswith("/") or entry.filename.startswith("__MACOSX/"):
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


MAX_ARCHIVE_BYTES = 2 * 2**30
"""Bytes of all arrays of an archive after decompression."""
MAX_TEXT_LENGTH = 200
"""Characters of an entry of an array of texts."""
_LARGEST_ENTRY = {"S": MAX_TEXT_LENGTH, "U": 4 * MAX_TEXT_LENGTH, **dict.fromkeys("biuf", 8)}
"""Bytes of an entry, by numpy's letter for its kind; others are not read."""
_SUFFIX = ".npy"
_MAX_HEADER_BYTES = 4096
_BLOCK = 4 * 2**20
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    SyntaxError,
    RecursionError,
    MemoryError,
    tokenize.TokenError,
)
"""What numpy's parser raises at a damaged header."""


@dataclass(frozen=True)
class Header:
    """What an array's header declares, checked against its size."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    length: int
    """Bytes before the first entry."""


@contextmanager
def open_numpy(file: SourceFile) -> Iterator["NumpyArchive"]:
    """The arrays of an NPZ file.

    Raises InvalidInputError where it is not an NPZ file, is damaged, larger than MAX_ARCHIVE_BYTES,
    or holds Python objects.
    """
    if not is_zip(file):
        raise file.fault("is no NumPy archive (.npz); save one by numpy.savez_compressed")
    with open_archive(
        file, suffix=_SUFFIX, largest_member=MAX_ARCHIVE_BYTES, largest=MAX_ARCHIVE_BYTES
    ) as archive:
        yield NumpyArchive(archive)


class NumpyArchive:
    """An open NPZ file whose headers have been read."""

    def __init__(self, archive: Archive) -> None:
        self.file = archive.file
        self._archive = archive
        self._headers = {
            member.removesuffix(_SUFFIX): _header(archive, member) for member in archive.names
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays, in the order of the file."""
        return tuple(self._headers)

    def header(self, name: str) -> Header:
        """An array's type and shape. Raises InvalidInputError for a type that is not supported."""
        header = self._headers[name]
        if header.dtype.itemsize > _LARGEST_ENTRY.get(header.dtype.kind, -1):
            raise self.file.fault(
                f"holds the array {shown(name)} of type {header.dtype}; store whole numbers, "
                f"floats of at most 64 bits, or texts of at most {MAX_TEXT_LENGTH} characters"
            )
        if 0 in (*header.shape, header.dtype.itemsize):
            raise self.file.fault(f"holds the array {shown(name)} without an entry; fill it")
        return header

    def read(self, name: str) -> NDArray[Any]:
        """An array as a whole, in this machine's byte order. Raises InvalidInputError."""
        header = self.header(name)
        size = math.prod(header.shape) * header.dtype.itemsize
        _, content = self._archive.pieces(name + _SUFFIX, (header.length, size))
        entries = _array(content, header.dtype)
        if header.fortran_order:
            return entries.reshape(header.shape[::-1]).transpose()
        return entries.reshape(header.shape)

    def blocks(self, name: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """An array in chunks: the number of the first row, and the rows.

        An array in Fortran order, whose rows are not contiguous, comes as a whole.
        """
        header = self.header(name)
        if header.fortran_order:
            yield 0, self.read(name)
            return
        rows, *shape = header.shape
        row_size = header.dtype.itemsize * math.prod(shape)
        step = max(1, _BLOCK // row_size)
        sizes = [min(step, rows - first) * row_size for first in range(0, rows, step)]
        pieces = self._archive.pieces(name + _SUFFIX, (header.length, *sizes))
        next(pieces)  # the header
        for first, content in zip(range(0, rows, step), pieces, strict=True):
            yield first, _array(content, header.dtype).reshape(-1, *shape)


def _header(archive: Archive, member: str) -> Header:
    name = member.removesuffix(_SUFFIX)
    size = archive.size(member)
    [head] = archive.pieces(member, [min(size, _MAX_HEADER_BYTES)])
    start = io.BytesIO(head)
    try:
        version = npy.read_magic(start)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran_order, dtype = read(start, max_header_size=_MAX_HEADER_BYTES)
    except _UNREADABLE:
        raise archive.file.fault(
            f"holds the array {shown(name)} with a damaged or unknown header; save it again by "
            "numpy.savez_compressed"
        ) from None
    if dtype.hasobject:
        raise archive.file.fault(
            f"holds Python objects in the array {shown(name)}, which are never unpickled; store "
            "numbers or texts (astype('U') makes texts of objects)"
        )
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - start.tell():
        raise archive.file.fault(
            f"holds the array {shown(name)}, whose shape does not fit its size; save it again"
        )
    return Header(dtype, shape, fortran_order, start.tell())


def _array(content: bytearray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The entries one after another; any non-zero byte is true."""
    if dtype.kind == "b":
        return np.not_equal(np.frombuffer(content, dtype=np.uint8), 0)
    entries: NDArray[Any] = np.frombuffer(content, dtype=dtype)
    native: NDArray[Any] = entries.astype(dtype.newbyteorder("="), copy=False)
    return native
