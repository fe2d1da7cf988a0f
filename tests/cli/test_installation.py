"""Which service the commands speak of."""

import pytest

from fedaudit.cli.installation import Installation
from fedaudit.cli.output import CommandError
from infrastructure.settings import Settings
from models.database import HEAD
from tests.cli.conftest import assert_refused


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for name in ("DATABASE_URL", "BROKER_URL", "DATA_DIR", "SOURCES_DIR"):
        monkeypatch.delenv(f"FEDAUDIT_{name}", raising=False)


def test_without_urls_everything_lives_below_the_data_folder(tmp_path, monkeypatch):
    installation = Installation.choose(tmp_path / "data", sources_dir=tmp_path)
    assert installation.embedded
    assert installation.database_url == f"sqlite:///{tmp_path}/data/fedaudit.db"
    given = {"FEDAUDIT_DATA_DIR": f"{tmp_path}/data", "FEDAUDIT_SOURCES_DIR": str(tmp_path)}
    assert given.items() <= installation.environment.items()
    assert "FEDAUDIT_DATABASE_URL" not in installation.environment
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    chosen, settings = Installation.choose(), Settings()
    assert (chosen.data_dir, chosen.database_url) == (settings.data_dir, settings.database_url)


@pytest.mark.parametrize(("given", "missing"), [("DATABASE", "BROKER"), ("BROKER", "DATABASE")])
def test_one_url_without_the_other_is_refused(monkeypatch, given, missing):
    monkeypatch.setenv(f"FEDAUDIT_{given}_URL", "sqlite:////tmp/x.db")
    with pytest.raises(CommandError, match=f"FEDAUDIT_{missing}_URL is not") as refused:
        Installation.choose()
    assert refused.value.code == 2


def test_migrating_and_making_a_key(command, tmp_path):
    data = ("--data-dir", tmp_path / "data")
    first = command("migrate", *data)
    place = tmp_path / "data" / "fedaudit.db"
    assert (first.returncode, first.stdout) == (0, f"{HEAD}  {place}, made now\n")
    assert (tmp_path / "data" / "fedaudit.db").exists()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert command("migrate", *data).stdout == f"{HEAD}  {place}, was at {HEAD}\n"
    scopes = ("--scopes", "experiments:read, admin")
    created = command("keys", "create", "--project", "p", *scopes, *data)
    assert (created.returncode, created.stdout[:3]) == (0, "fa_")
    assert "not shown again" in created.stderr


def test_a_database_that_is_away_is_said_in_a_line(command):
    away = {
        "FEDAUDIT_DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none",
        "FEDAUDIT_BROKER_URL": "redis://127.0.0.1:9/0",
    }
    assert_refused(command("migrate", env=away), "the database could not be migrated", code=1)
