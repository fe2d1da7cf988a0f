"""APIs on fresh databases."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.service import Api, running_api, settings_for


@pytest.fixture
def api(sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    """An API on SQLite."""
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        yield api


@pytest.fixture(scope="module")
def shared_api(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One API for a module whose tests are not disturbed by what the others leave."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copyfile(sqlite_template, folder / "fedaudit.db")
    with running_api(settings_for(f"sqlite:///{folder}/fedaudit.db", folder)) as api:
        yield api


@pytest.fixture
def api_on_both(database_url: str, tmp_path: Path) -> Iterator[Api]:
    """An API; the test runs once on each kind of database."""
    with running_api(settings_for(database_url, tmp_path)) as api:
        yield api
