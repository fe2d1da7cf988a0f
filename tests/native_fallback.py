"""The library without its compiled kernels."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from fedaudit.native import library


@contextmanager
def fallback_only() -> Iterator[None]:
    """Within it the kernels are not used."""
    with patch.object(library, "_enabled", False):
        yield
