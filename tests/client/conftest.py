"""One real service for the tests of a module."""

import shutil

import pytest

from tests.api.service import running_api, served, settings_for


@pytest.fixture(scope="module")
def service(sqlite_template, tmp_path_factory):
    """An API on SQLite, and its address."""
    folder = tmp_path_factory.mktemp("service")
    shutil.copyfile(sqlite_template, folder / "fedaudit.db")
    settings = settings_for(f"sqlite:///{folder / 'fedaudit.db'}", folder)
    with running_api(settings) as api, served(api) as url:
        yield api, url
