"""Hypotheses as safetensors: what torch makes of the names, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedaudit.networks.parameter_files import (
    METADATA_KEY,
    ParameterFileError,
    decode_tensors,
    encode_hypotheses,
    hypotheses_of,
    named_tensors,
)
from fedaudit.networks.shape import DenseShape, NetworkShape

DENSE = DenseShape((4, 5, 3), intercept=True)


def drawn(shape: NetworkShape, k: int = 2) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(k, shape.n)).astype(np.float32)


@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=4),
    intercept=st.booleans(),
    k=st.integers(1, 3),
)
def test_what_is_written_is_read_back(sizes: list[int], intercept: bool, k: int) -> None:
    shape = DenseShape(tuple(sizes), intercept)
    theta = drawn(shape, k)
    data = encode_hypotheses(shape, theta, metadata={"a": 1})
    assert np.array_equal(hypotheses_of(decode_tensors(data), shape, hypotheses=k), theta)


def test_equal_hypotheses_have_equal_files_which_say_what_they_are(tmp_path: Any) -> None:
    metadata = {"round": 3, "name": "ä", "more": [1, 2]}
    first, second = (encode_hypotheses(DENSE, drawn(DENSE), metadata=metadata) for _ in range(2))
    assert first == second
    path = tmp_path / "model.safetensors"
    path.write_bytes(first)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert json.loads(file.metadata()[METADATA_KEY]) == metadata


def changed(**changes: Any) -> bytes:
    """A file with tensors replaced, or removed where they are None."""
    tensors: dict[str, Any] = {**named_tensors(DENSE, drawn(DENSE)), **changes}
    return safetensors.numpy.save({n: t for n, t in tensors.items() if t is not None})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no safetensors file"),
        (b"\x80\x04N.", "no safetensors file"),  # a pickle
        (b"\xff" * 100, "no safetensors file"),
        (changed(**{"hypotheses.0.0.bias": None}), r"lacks hypotheses\.0\.0\.bias"),
        (changed(**{"head.weight": np.zeros(1, np.float32)}), r"has head\.weight, which"),
        (
            changed(**{"hypotheses.1.2.weight": np.zeros((5, 3), np.float32)}),
            r"hypotheses\.1\.2\.weight of 5 by 3; the spec's model takes 3 by 5",
        ),
        (changed(**{"hypotheses.0.0.bias": np.zeros(5)}), r"as float64; store it as float32"),
        (
            changed(**{"hypotheses.0.0.bias": np.full(5, np.nan, np.float32)}),
            r"hypotheses\.0\.0\.bias that are not finite",
        ),
        (
            safetensors.numpy.save(named_tensors(DENSE, np.ones((2, DENSE.n), np.float32))),
            "the same parameters for two hypotheses",
        ),
    ],
)
def test_what_does_not_fit_is_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(ParameterFileError, match=message):
        hypotheses_of(decode_tensors(data), DENSE, hypotheses=2)


@given(data=st.binary(max_size=400))
def test_no_bytes_do_anything_but_be_refused(data: bytes) -> None:
    with pytest.raises(ParameterFileError):
        hypotheses_of(decode_tensors(data), DENSE, hypotheses=1)
