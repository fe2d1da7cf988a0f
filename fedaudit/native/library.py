"""Find, load and call the compiled kernels; everything works without them, and gives the same bits,
but for convolutions, which torch's library rounds otherwise.

They are built where the package is built by a machine with a C compiler. They need nothing of
Python, so one library serves every version of it. With `FEDAUDIT_NATIVE=off` they are not used.
"""

import logging
import os
from ctypes import CDLL, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Ints

INTERFACE = 7
"""Raised with every change to the arguments or the results of a kernel, as in `sound.c`."""
_NAME = "kernels.compiled"

_I, _P, _D = c_int64, c_void_p, c_double
_F32, _F64, _I64, _U64 = (
    type(name, (c_void_p,), {"dtype": np.dtype(name)})
    for name in ("float32", "float64", "int64", "uint64")
)
"""Addresses of numbers of these types; those of narrow ones are `_P`."""
_NETWORK = [_I, _I64, _I, _I]  # layers, sizes, intercept, parameters
_CLIENTS = [_F32, _F32, _I, _I]  # packed, count, stride, rows
_ARGUMENTS: dict[str, list[Any]] = {
    "interface": [],
    "sound": [],
    "philox": [*[_U64] * 3, c_uint32, _I, _I, _P],
    "aes": [*[_U64] * 3, c_uint32, _I, _I, _U64],
    "distinct": [_P, _I, _I, c_uint64, _I, _U64, _I64],
    "normals": [_U64, _I, _I, _F64],
    "noised": [*[_F64] * 3, _I, _I, c_float, _F64, _F32],
    "layer_times": [_F32, _I64, *[_I] * 3, _F32, *[_I] * 5, _F32, _F32],
    "layer_sums": [_F32, _F64, _I64, *[_I] * 3, _F32, _I, _D, _D, *[_I] * 3, _F64],
    "layer_squares": [_F32, _F32, *[_I] * 4, _F64],
    "pooled": [*[_F32] * 3, *[_I] * 6, _F32, _P],
    "pooled_back": [*[_F32] * 3, _P, *[_I] * 6, *[_F32] * 3],
    "learn": [*_NETWORK, *_CLIENTS, _F32, _I, _I64, *[_I] * 4, c_float, _I64, _F32, _F32],
    "evaluate": [*_NETWORK, *_CLIENTS, _F32, _I, _I64, *[_I] * 3, _I64, *[_F64] * 4, _F32],
    "release": [_F32, _F64, _I, _D, _D, _D, _F32],
    "sanitise": [*(_F32, _F32, _F64, *[_I] * 4, *[_F64] * 3, _I), *(*[_F64] * 3, _F32, _F64, _P)],
    "cluster": [_F32, _F32, _P, *[_I] * 6, _F32, _I64, _I64],
    "separation": [_F32, _F32, _P, _I64, *[_I] * 4, _F64],
    "count": [_F32, _I64, *[_I] * 3, _I64, _I64, _P, _F64, _I, _I, _I64, _I64],
    "near": [_P, _I, _I, _P, _I, _I64, _I, _I64, _P, _I, c_int32, c_int32, _P, _P],
}
_log = logging.getLogger(__name__)
_enabled = os.environ.get("FEDAUDIT_NATIVE", "on") != "off"


class _UnusableError(Exception):
    """A library that exists, and why it is not used."""


@cache
def _loaded() -> CDLL | None:
    """The library; None if it was not built, and, with a warning, if it is of another version or
    was compiled so that its arithmetic differs from numpy's."""
    path = Path(__file__).with_name(_NAME)
    if not path.is_file():
        return None
    try:
        return _opened(path)
    except _UnusableError as error:
        _log.warning(
            "the compiled kernels are not used, and everything is slower: %s; build them again "
            "(`make native`, or install the package again), or set FEDAUDIT_NATIVE=off",
            error,
        )
        return None


def _opened(path: Path) -> CDLL:
    """Raises _UnusableError."""
    try:
        library = CDLL(str(path))
    except OSError as error:
        raise _UnusableError(f"they do not load on this machine ({error})") from None
    try:
        for name, arguments in _ARGUMENTS.items():
            function = getattr(library, f"fedaudit_{name}")
            function.argtypes, function.restype = arguments, c_int64
    except AttributeError:
        raise _UnusableError("they are of another version") from None
    if library.fedaudit_interface() != INTERFACE:
        raise _UnusableError("they are of another version")
    if library.fedaudit_sound() != 1:
        raise _UnusableError("they were compiled so that their arithmetic differs from numpy's")
    return library


def kernels() -> CDLL | None:
    """The compiled kernels; None if the fallback is to be used."""
    return _loaded() if _enabled else None


def place_of(values: NDArray[Any], expected: Any = _P) -> int:
    """The address of an array. Raises ValueError unless it is contiguous, and of the type that a
    kernel's argument expects."""
    if not values.flags.c_contiguous:
        raise ValueError("a compiled kernel takes contiguous arrays only")
    check_type(values.dtype, expected)
    found: int = values.__array_interface__["data"][0]
    return found


def check_type(dtype: np.dtype[Any], expected: Any) -> None:
    """Raises ValueError for numbers that a kernel would read as others: `expected` is its type of
    that argument."""
    if dtype != getattr(expected, "dtype", dtype):
        raise ValueError(f"a compiled kernel takes {expected.dtype} here, and no {dtype}")


def call(kernel: Any, *given: Any) -> int:
    """What a kernel returns, of numbers as they are and of arrays by their addresses."""
    known = [
        place_of(one, expected) if isinstance(one, np.ndarray) else one
        for one, expected in zip(given, kernel.argtypes, strict=True)
    ]
    status: int = kernel(*known)
    return status


def line(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Values as a contiguous array of this type."""
    return np.ascontiguousarray(values, dtype=dtype)


Keys = tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]
"""Seeds, rounds and clients, [rows] each."""


def philox(keys: Keys, *, purpose: int, blocks: int) -> NDArray[np.uint32] | None:
    """Words of Philox4x32-10: uint32 [rows, 4 * blocks]; None without kernels."""
    library = kernels()
    if library is None:
        return None
    words = np.empty((len(keys[0]), 4 * blocks), dtype=np.uint32)
    own = [line(part, np.uint64) for part in keys]
    call(library.fedaudit_philox, *own, purpose, len(words), blocks, words)
    return words


def aes(keys: Keys, *, purpose: int, blocks: int) -> NDArray[np.uint64] | None:
    """Words of AES-128 over the same counters: uint64 [rows, 2 * blocks]; None without kernels,
    and where the processor has no instructions for it."""
    library = kernels()
    if library is None:
        return None
    words = np.empty((len(keys[0]), 2 * blocks), dtype=np.uint64)
    own = [line(part, np.uint64) for part in keys]
    made = call(library.fedaudit_aes, *own, purpose, len(words), blocks, words)
    return words if made else None


def distinct(words: NDArray[np.uint32], *, population: int, count: int) -> Ints | None:
    """Read pairs of words [..., 2 * draws] as numbers below `population`, and return the first
    `count` distinct ones of each row, ascending: int64 [..., count].

    None without kernels, and where a row has fewer.
    """
    library = kernels()
    if library is None:
        return None
    pairs = line(words, np.uint32)
    numbers = np.empty((*words.shape[:-1], count), dtype=np.int64)
    seen = np.zeros(-(-population // 64), dtype=np.uint64)
    rows, draws = numbers.size // max(1, count), words.shape[-1] // 2
    found = call(library.fedaudit_distinct, pairs, rows, draws, population, count, seen, numbers)
    return numbers if found else None


_NARROW = 2**31


def near_samples(
    drawn: Bools,
    earlier: Bools,
    before: Ints,
    *,
    members: Ints,
    rows: Ints,
    least_rows: int,
    least_clients: int,
) -> Bools | None:
    """Whether each of the samples `drawn` [samples, clients] nearly is one of the first `before`
    [samples] of the `earlier` ones [clients, rounds], as far as a group goes: [samples].

    `members` [members] are the group's clients, `rows` [members] how many it has of each. Samples
    that differ in `least_rows` and `least_clients` are not near, and an earlier one that has fewer
    is left out. None without kernels, and where narrow numbers do not hold so many rows.
    """
    library = kernels()
    if library is None or max(2 * int(rows.sum()), least_rows, least_clients) >= _NARROW:
        return None
    near = np.zeros(len(drawn), dtype=np.bool_)
    room = np.empty((4, int(before.max(initial=0))), dtype=np.int32)
    call(
        library.fedaudit_near,
        *(line(drawn, np.bool_), *drawn.shape, line(earlier, np.bool_), earlier.shape[1]),
        *(line(before, np.int64), room.shape[1], members, line(rows, np.int32), len(members)),
        *(least_rows, least_clients, room, near),
    )
    return near
