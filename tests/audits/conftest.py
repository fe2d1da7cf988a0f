"""A service for the audits of a file of tests, and its sources folder."""

from pathlib import Path

import pytest

from tests.api.service import Api, running_api, settings_for


@pytest.fixture(scope="module")
def api(sqlite_template, signing_key_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    database_file = folder / "service.db"
    database_file.write_bytes(sqlite_template.read_bytes())
    settings = settings_for(f"sqlite:///{database_file}", folder, signing_key_file=signing_key_file)
    with running_api(settings) as api:
        yield api


@pytest.fixture(scope="module")
def sources(api: Api) -> Path:
    assert api.settings.sources_dir is not None
    return api.settings.sources_dir
