"""Attacks that a worker carries out are doubles."""

import pytest

from tests.attacks.doubles import Looks, offer_looks


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Every kind of attack is a double."""
    return offer_looks(monkeypatch)
