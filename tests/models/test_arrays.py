"""Packed arrays come back as they went in, number by number."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray
from sqlalchemy import Column, Integer, MetaData, Table, delete, insert, select

from models.arrays import PackedArray, from_json, to_json
from models.database import Database

Vector = NDArray[Any]
_DTYPES = ("int16", "int32", "int64", "float64")
_TABLE = Table(
    "arrays",
    MetaData(),
    Column("id", Integer, primary_key=True),
    *(Column(dtype, PackedArray(dtype)) for dtype in _DTYPES),
)


@pytest.fixture
def arrays_database(database: Database) -> Iterator[Database]:
    """A database with a column of each type of array."""
    _TABLE.metadata.create_all(database.engine)
    yield database
    _TABLE.metadata.drop_all(database.engine)


def _vectors(dtype: str) -> Any:
    shapes = arrays.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=40)
    return arrays.arrays(dtype, shapes)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shorts=_vectors("int16"),
    integers=_vectors("int32"),
    longs=_vectors("int64"),
    floats=_vectors("float64"),
)
def test_arrays_come_back(arrays_database, shorts, integers, longs, floats):
    if arrays_database.dialect == "sqlite":
        # JSON has no infinity; the ledger never holds one, as what is not finite is withheld.
        floats[np.isinf(floats)] = np.nan
    values = (shorts, integers, longs, floats)
    with arrays_database.write() as session:
        session.execute(delete(_TABLE))
        session.execute(insert(_TABLE), [{"id": 1, **dict(zip(_DTYPES, values, strict=True))}])
        row = session.execute(select(_TABLE)).one()
    for sent, read in zip(values, row[1:], strict=True):
        assert read.dtype == sent.dtype
        assert np.array_equal(read, sent, equal_nan=sent.dtype.kind == "f")


def test_a_missing_array_and_a_strided_one(arrays_database: Database) -> None:
    strided = np.arange(20, dtype=np.int64)[::-3]
    with arrays_database.write() as session:
        session.execute(insert(_TABLE), [{"id": 1, "int32": None, "int16": strided}])
        row = session.execute(select(_TABLE.c.int32, _TABLE.c.int16)).one()
    assert row[0] is None
    assert row[1].tolist() == strided.tolist()


def test_arrays_of_any_layout_come_through_json_and_what_is_no_number_is_null() -> None:
    square = np.arange(6).reshape(2, 3)
    assert from_json(to_json(square)) == square.tolist()
    assert from_json(to_json({"turned": square.T})) == {"turned": square.T.tolist()}
    assert from_json(to_json(square[:, ::2])) == [[0, 2], [3, 5]]

    assert from_json(to_json([np.nan, np.inf, 1.0])) == [None, None, 1.0]
    turned = np.array([[np.nan, 1.0], [2.0, np.inf]]).T
    assert from_json(to_json(turned)) == [[None, 2.0], [1.0, None]]
    with pytest.raises(TypeError, match="not JSON serializable: set"):
        to_json({"a": {1, 2}})
