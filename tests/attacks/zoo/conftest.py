"""What violations change is what runs, and nothing that they computed is remembered."""

import sys
from collections.abc import Iterator

import pytest

from tests.native_fallback import fallback_only


@pytest.fixture(autouse=True)
def _no_memory() -> Iterator[None]:
    """Accountants keep what they computed once: of sabotaged code that would outlive it."""
    forget()
    yield
    forget()


@pytest.fixture(autouse=True)
def _no_kernels() -> Iterator[None]:
    """Code in Python is changed, which compiled kernels would stand in for; that both give the same
    is tested elsewhere."""
    with fallback_only():
        yield


def forget() -> None:
    """Empties the caches of every function of the library that is imported."""
    for name, module in list(sys.modules.items()):
        if name.startswith("fedaudit."):
            for found in list(vars(module).values()):
                if hasattr(found, "cache_clear"):
                    found.cache_clear()
