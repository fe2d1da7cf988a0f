"""JSON columns: numpy arrays whatever their layout, and no NaN."""

import numpy as np
import pytest

from models.arrays import from_json, to_json


def test_arrays_of_any_layout() -> None:
    square = np.arange(6).reshape(2, 3)
    assert from_json(to_json(square)) == square.tolist()
    assert from_json(to_json({"turned": square.T})) == {"turned": square.T.tolist()}
    assert from_json(to_json(square[:, ::2])) == [[0, 2], [3, 5]]


def test_what_is_no_number_is_null() -> None:
    assert from_json(to_json([np.nan, np.inf, 1.0])) == [None, None, 1.0]
    assert from_json(to_json(np.array([[np.nan, 1.0], [2.0, np.inf]]).T)) == [
        [None, 2.0],
        [1.0, None],
    ]


def test_anything_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="not JSON serializable: set"):
        to_json({"a": {1, 2}})
