"""A compiled library that cannot be used is left alone, and its operator is told."""

import pytest

from fedaudit.native import library


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
