"""A service whose worker the tests are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.worker import state as celery_state

from tests.api.service import Api, running_api, settings_for
from tests.attacks.doubles import Looks, offer_looks


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Every kind of attack is a double."""
    return offer_looks(monkeypatch)


@pytest.fixture
def api(sqlite_url: str, tmp_path: Path, signing_key_file: Path) -> Iterator[Api]:
    """A service of its own for each test."""
    settings = settings_for(
        sqlite_url, tmp_path, signing_key_file=signing_key_file, webhooks_allow_private=True
    )
    with running_api(settings) as found:
        yield found
    celery_state.should_stop = None
