"""What violations change is what runs."""

from collections.abc import Iterator

import pytest

from tests.native_fallback import fallback_only


@pytest.fixture(autouse=True)
def _no_kernels() -> Iterator[None]:
    """Code in Python is changed, which compiled kernels would stand in for; that both give the same
    is tested elsewhere. What accountants remember stays: no violation changes an accountant."""
    with fallback_only():
        yield
