"""Which mode the service runs in, and that it never steps from one to the other by itself."""

import pytest
from pydantic import ValidationError

from infrastructure.settings import Settings, SettingsError, load_settings

VARIABLES = ("DATABASE_URL", "BROKER_URL", "STORAGE_URL", "DATA_DIR", "SOURCES_DIR")
POSTGRES = "postgresql://u@localhost/fedaudit"
REDIS = "redis://localhost:6379/0"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(f"FEDAUDIT_{name}", raising=False)


def test_without_urls_everything_lives_below_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDAUDIT_DATA_DIR", str(tmp_path))
    settings = Settings()
    assert settings.embedded
    assert settings.database_url == f"sqlite:///{tmp_path}/fedaudit.db"
    assert settings.broker_url == f"filesystem://{tmp_path}/queue"
    assert settings.storage_url == f"file://{tmp_path}/files"


@pytest.mark.parametrize(
    ("given", "missing", "url"), [("DATABASE", "BROKER", POSTGRES), ("BROKER", "DATABASE", REDIS)]
)
@pytest.mark.parametrize("other", [None, ""])
def test_one_url_alone_is_refused_naming_the_other(monkeypatch, given, missing, url, other):
    monkeypatch.setenv(f"FEDAUDIT_{given}_URL", url)
    if other is not None:
        monkeypatch.setenv(f"FEDAUDIT_{missing}_URL", other)
    with pytest.raises(ValidationError, match=f"FEDAUDIT_{missing}_URL is not"):
        Settings()


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("database_url", "mysql://localhost/x"),
        ("broker_url", "amqp://localhost"),
        ("storage_url", "ftp://host/folder"),
    ],
)
def test_unknown_schemes_are_refused_naming_the_setting(name: str, url: str) -> None:
    urls = {"database_url": POSTGRES, "broker_url": REDIS, name: url}
    with pytest.raises(ValidationError, match=f"FEDAUDIT_{name.upper()} must"):
        Settings(**urls)


def test_people_are_told_which_variable_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDAUDIT_LEASE_SECONDS", "soon")
    with pytest.raises(
        SettingsError, match="FEDAUDIT_LEASE_SECONDS: Input should be a valid number"
    ):
        load_settings()
    monkeypatch.setenv("FEDAUDIT_LEASE_SECONDS", "30")
    monkeypatch.setenv("FEDAUDIT_BROKER_URL", REDIS)
    with pytest.raises(SettingsError, match=r"^FEDAUDIT_BROKER_URL is set and"):
        load_settings()
