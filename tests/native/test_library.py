"""A compiled library that cannot be used is left alone, and its operator is warned."""

import numpy as np
import pytest
import torch

from fedaudit.native import library, tensors


def _refused(caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    assert library._loaded.__wrapped__() is None
    return caplog.text


def test_a_library_that_cannot_be_used_is_left_alone_with_a_warning(tmp_path, monkeypatch, caplog):
    if library.kernels() is not None:
        with monkeypatch.context() as newer:
            newer.setattr(library, "INTERFACE", library.INTERFACE + 1)
            assert "they are of another version; build them again" in _refused(caplog)
        with monkeypatch.context() as newer:
            newer.setitem(library._ARGUMENTS, "of_tomorrow", [])
            assert "they are of another version; build them again" in _refused(caplog)
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    assert not _refused(caplog)
    (tmp_path / "kernels.compiled").write_bytes(b"of another kind of machine")
    assert "they do not load on this machine" in _refused(caplog)


@pytest.mark.parametrize("make", [np.ones, torch.ones], ids=["array", "tensor"])
def test_numbers_of_another_type_are_refused_and_not_misread(make):
    if (kernels := library.kernels()) is None:
        pytest.skip("needs the compiled kernels")
    types = np if make is np.ones else torch
    rows, squares = make((2, 3), dtype=types.float32), make(2, dtype=types.float64)
    tensors.call(kernels.fedaudit_layer_squares, rows, rows, 2, 3, 3, 1, squares)
    assert squares.tolist() == pytest.approx([13.0, 13.0])
    with pytest.raises(ValueError, match="takes float32 here, and no float64"):
        tensors.call(
            kernels.fedaudit_layer_squares,
            make((2, 3), dtype=types.float64),
            rows,
            2,
            3,
            3,
            1,
            squares,
        )
