"""One real service for the tests of a module, and pauses that are not waited for."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.service import Api, running_api, served, settings_for


@pytest.fixture(scope="module")
def service(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, str]]:
    """An API on SQLite, and its address."""
    folder = tmp_path_factory.mktemp("service")
    shutil.copyfile(sqlite_template, folder / "fedaudit.db")
    settings = settings_for(f"sqlite:///{folder / 'fedaudit.db'}", folder)
    with running_api(settings) as api, served(api) as url:
        yield api, url


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the client."""
    found: list[float] = []
    monkeypatch.setattr("fedaudit_client.wire.sleep", found.append)
    return found
