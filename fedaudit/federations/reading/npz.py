"""NumPy archives (.npz): arrays of numbers and texts, never of Python objects.

An array of objects is a pickle, and a pickle can run arbitrary code. Headers are checked against
the sizes in the archive before anything is allocated, and nothing is ever unpickled.
"""

import io
import math
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.reading.archives import Archive, is_zip, open_archive, shown
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import InvalidInputError

MAX_ARCHIVE_BYTES = 2 * 2**30
"""Bytes of all arrays of an archive after decompression."""
MAX_TEXT_LENGTH = 200
"""Characters of an entry of an array of texts."""
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
        if not _is_usable(header.dtype):
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
        with self._archive.open(name + _SUFFIX) as member:
            member.read(header.length)
            content = member.read(member.left)
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
        with self._archive.open(name + _SUFFIX) as member:
            member.read(header.length)
            for first in range(0, rows, step):
                content = member.read(min(step, rows - first) * row_size)
                yield first, _array(content, header.dtype).reshape(-1, *shape)

    def fault(
        self, name: str, row: int, where: str, problem: str, remedy: str
    ) -> InvalidInputError:
        """An error about one entry, to be raised; rows count from 0, as in Python."""
        return error_at(where, f"{name}[{row}] of '{self.file.label}' {problem}; {remedy}")


def _header(archive: Archive, member: str) -> Header:
    name = member.removesuffix(_SUFFIX)
    size = archive.size(member)
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_MAX_HEADER_BYTES))
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


def _is_usable(dtype: np.dtype[Any]) -> bool:
    match dtype.kind:
        case "b" | "i" | "u":
            return True
        case "f":
            return dtype.itemsize <= 8
        case "S":
            return dtype.itemsize <= MAX_TEXT_LENGTH
        case "U":
            return dtype.itemsize <= 4 * MAX_TEXT_LENGTH
    return False


def _array(content: bytearray, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The entries one after another; any non-zero byte is true."""
    if dtype.kind == "b":
        return np.not_equal(np.frombuffer(content, dtype=np.uint8), 0)
    entries: NDArray[Any] = np.frombuffer(content, dtype=dtype)
    native: NDArray[Any] = entries.astype(dtype.newbyteorder("="), copy=False)
    return native
