"""A real service that adapters declare to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedaudit_client import Client
from tests.api.service import Api, running_api, served, settings_for


@pytest.fixture
def api(sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        yield api


@pytest.fixture
def client(api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Its client, which `Client()` makes too."""
    with served(api) as url, Client(url, api.key) as client:
        monkeypatch.setenv("FEDAUDIT_URL", url)
        monkeypatch.setenv("FEDAUDIT_API_KEY", api.key)
        yield client
