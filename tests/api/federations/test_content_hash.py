"""The fingerprint of a file in pieces is that of its content, however it was cut or compressed."""

import gzip
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.services.uploads import ContentHash, DamagedError, TooLargeError


def _hashed(file: bytes, cut: int, *, largest: int = 10**9) -> str:
    found = ContentHash(largest)
    for start in range(0, len(file), cut):
        found.update(file[start : start + cut])
    return found.finish()


@given(
    members=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    padding=st.integers(0, 5),
    cut=st.integers(1, 40),
)
def test_gzip_is_undone_member_by_member(members: list[bytes], padding: int, cut: int) -> None:
    file = b"".join(gzip.compress(member) + bytes(padding) for member in members)
    assert gzip.decompress(file) == b"".join(members)
    assert _hashed(file, cut) == hashlib.sha256(b"".join(members)).hexdigest()


@given(content=st.binary(max_size=300), cut=st.integers(1, 40))
def test_anything_else_is_hashed_as_it_is(content: bytes, cut: int) -> None:
    if content[:2] != b"\x1f\x8b":
        assert _hashed(content, cut) == hashlib.sha256(content).hexdigest()


@given(content=st.binary(min_size=1, max_size=300), cut=st.integers(1, 40), data=st.data())
def test_a_gzip_file_that_is_cut_or_continued_is_refused(content, cut, data):
    whole = gzip.compress(content)
    kept = data.draw(st.integers(2, len(whole) - 1))
    for file in (whole[:kept], whole + b"more"):
        with pytest.raises(DamagedError):
            _hashed(file, cut)


@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20])
def test_a_bomb_is_stopped_at_the_limit(size: int) -> None:
    bomb = gzip.compress(bytes(size))
    assert _hashed(bomb, 100, largest=size) == hashlib.sha256(bytes(size)).hexdigest()
    with pytest.raises(TooLargeError):
        _hashed(bomb, 100, largest=size - 1)
