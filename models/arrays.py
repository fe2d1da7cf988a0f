"""JSON columns go through orjson: numpy arrays are accepted and NaN becomes null.

The standard library writes NaN, which is not JSON and which SQLite cannot read back.
"""

from collections.abc import Callable, Mapping
from functools import cache
from struct import pack, unpack_from
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader, PyFormat
from psycopg.pq import Format
from sqlalchemy import JSON, BigInteger, Dialect, Double, Integer, SmallInteger
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeDecorator, TypeEngine


def to_json(value: Any) -> str:
    """Text rather than bytes: SQLite would store bytes as a BLOB, which its `->>` refuses."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def from_json(text: str | bytes) -> Any:
    """The value that `to_json` wrote."""
    return orjson.loads(text)


def _plain(value: object) -> Any:
    """What orjson hands back: an array in another layout than C's, or a mapping that is no dict.
    Raises TypeError otherwise."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError  # orjson says of what


Packed = NDArray[Any]

BINARY_RESULTS = {"binary_results": True}
"""Execution options of statements that read many packed columns: Postgres sends binary values."""

# numpy's kind of number -> the column's type, Postgres' oids of the element and of its array.
_ELEMENTS: dict[np.dtype[Any], tuple[TypeEngine[Any], int, int]] = {
    np.dtype("int16"): (SmallInteger(), 21, 1005),
    np.dtype("int32"): (Integer(), 23, 1007),
    np.dtype("int64"): (BigInteger(), 20, 1016),
    np.dtype("float64"): (Double(), 701, 1022),
}
_DTYPES = {oid: dtype for dtype, (_, oid, _) in _ELEMENTS.items()}


class PackedArray(TypeDecorator[Packed]):
    """A one-dimensional numpy array of `int16`, `int32`, `int64` or `float64`."""

    impl = JSON
    cache_ok = True

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.dtype = dtype

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.ARRAY(_ELEMENTS[np.dtype(self.dtype)][0]))
        return dialect.type_descriptor(JSON())

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        """Replaces the implementation's own: ARRAY's would walk through every element."""
        dtype = np.dtype(self.dtype)
        if dialect.name == "postgresql":
            return lambda value: None if value is None else np.asarray(value, dtype)
        return lambda value: None if value is None else to_json(np.ascontiguousarray(value, dtype))

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Packed | None]:
        dtype = np.dtype(self.dtype)
        if dialect.name == "postgresql":
            return lambda value: None if value is None else np.asarray(value, dtype)
        # numpy reads the None of a JSON null as NaN where the array is of floats, and integers that
        # it is asked to go through one by one several times as fast.
        read = np.array if dtype.kind == "f" else np.fromiter
        return lambda value: None if value is None else read(from_json(value), dtype)


class ArrayDumper(Dumper):
    """A numpy array as Postgres' binary array: a header, then length and value of each element."""

    format = Format.BINARY

    def get_key(self, obj: Packed, format: PyFormat) -> Any:
        """Arrays of different types are dumped under different oids."""
        return (self.cls, obj.dtype)

    def upgrade(self, obj: Packed, format: PyFormat) -> "ArrayDumper":
        return _DUMPERS[obj.dtype](self.cls)

    def dump(self, obj: Packed) -> bytes:
        element_oid = _ELEMENTS[obj.dtype][1]
        body = np.empty(obj.size, _elements(obj.dtype))
        body["length"] = obj.dtype.itemsize
        body["value"] = obj
        return pack(">5i", 1, 0, element_oid, obj.size, 1) + body.tobytes()


_DUMPERS: dict[np.dtype[Any], type[ArrayDumper]] = {
    dtype: type("ArrayDumper", (ArrayDumper,), {"oid": oid})
    for dtype, (_, _, oid) in _ELEMENTS.items()
}


@cache
def _elements(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype([("length", ">i4"), ("value", dtype.newbyteorder(">"))])


class ArrayLoader(Loader):
    """The other way round, of arrays of one dimension without nulls."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Packed:
        """Raises ValueError for a null."""
        dimensions, nulls, element_oid = unpack_from(">3i", data)
        dtype = _DTYPES[element_oid]
        if dimensions == 0:
            return np.zeros(0, dtype)
        if dimensions != 1 or nulls:
            raise ValueError("an array of one dimension without nulls was expected")
        return np.frombuffer(data, _elements(dtype), offset=20)["value"].astype(dtype)


def register_arrays(connection: Connection[Any]) -> None:
    """Lets this connection bind numpy arrays, and read them where results are binary. Lists of
    numbers would take four times as long."""
    for _, _, oid in _ELEMENTS.values():
        connection.adapters.register_loader(oid, ArrayLoader)
    # Each by its own oid, and the last one of arrays whose type is still to be seen.
    dumpers: list[type[ArrayDumper]] = [*_DUMPERS.values(), ArrayDumper]
    for dumper in dumpers:
        connection.adapters.register_dumper(np.ndarray, dumper)
