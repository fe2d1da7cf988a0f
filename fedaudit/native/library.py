"""Find and load the compiled kernels; everything works without them, and gives the same bits.

They are built where the package is built by a machine with a C compiler. They need nothing of
Python, so one library serves every version of it. With `FEDAUDIT_NATIVE=off` they are left alone.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL, c_double, c_float, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

INTERFACE = 3
"""Raised with every change to the arguments or the results of a kernel, as in `sound.c`."""
_NAME = "kernels.compiled"

_I, _P, _D = c_int64, c_void_p, c_double
_NETWORK = [_I, _P, _I, _I]  # layers, sizes, intercept, parameters
_CLIENTS = [_P, _P, _I, _I]  # packed, count, stride, rows
_ARGUMENTS: dict[str, list[Any]] = {
    "interface": [],
    "sound": [],
    "philox": [_P, _P, _P, c_uint32, _I, _I, _P],
    "aes": [_P, _P, _P, c_uint32, _I, _I, _P],
    "distinct": [_P, _I, _I, c_uint64, _I, _P, _P],
    "learn": [*_NETWORK, *_CLIENTS, _P, _I, _P, _I, _I, _I, _I, c_float, _P, _P, _P],
    "evaluate": [*_NETWORK, *_CLIENTS, _P, _I, _P, _I, _I, _I, _P, _P, _P, _P, _P, _P],
    "sanitise": [_P, _P, _P, _I, _I, _I, _I, _P, _P, _P, _I, _P, _P, _P, _P, _P, _P],
    "cluster": [_P, _P, _P, _I, _I, _I, _I, _I, _I, _P, _P, _P],
    "separation": [_P, _P, _P, _P, _I, _I, _I, _I, _P],
    "count": [_P, _P, _I, _I, _I, _P, _P, _P, _P, _I, _I, _P, _P],
    "regroup": [_P, _I, _I, _P, _I, _I, _P],
    "near": [_P, _I, _I, _P, _I, _P, _I, _P, _P, _I, c_int32, c_int32, _P, _P],
    "best_number": [*[_P] * 4, _I, _P, _I, *[_P] * 4, _I, *[_D] * 4, _I, _P],
}
_log = logging.getLogger(__name__)
_enabled = os.environ.get("FEDAUDIT_NATIVE", "on") != "off"


class _UnusableError(Exception):
    """A library that is there, and why it is left alone."""


@cache
def _loaded() -> CDLL | None:
    """The library; None where it was not built, and, with a warning, where it is of another version
    or was compiled so that its arithmetic differs from that of numpy."""
    path = Path(__file__).with_name(_NAME)
    if not path.is_file():
        return None
    try:
        return _opened(path)
    except _UnusableError as error:
        _log.warning(
            "the compiled kernels are left alone, and everything is slower: %s; build them again "
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
    """The compiled kernels, or None where the fallback is to be used."""
    return _loaded() if _enabled else None


def done(status: int) -> None:
    """Raises MemoryError where a kernel had no memory."""
    if status < 0:
        raise MemoryError("a compiled kernel had no memory for its work")


def place_of(values: NDArray[Any]) -> int:
    """Where an array lies. Raises ValueError unless it lies in one piece."""
    if not values.flags.c_contiguous:
        raise ValueError("a compiled kernel takes arrays in one piece only")
    found: int = values.__array_interface__["data"][0]
    return found


def line(values: Any, dtype: type[np.generic]) -> NDArray[Any]:
    """Values as an array in one piece of this type."""
    return np.ascontiguousarray(values, dtype=dtype)


@contextmanager
def fallback_only() -> Iterator[None]:
    """Within it the kernels are left alone."""
    global _enabled  # noqa: PLW0603
    before, _enabled = _enabled, False
    try:
        yield
    finally:
        _enabled = before
