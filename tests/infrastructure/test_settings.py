"""Which mode the service runs in, and that it never steps from one to the other by itself."""

import pytest
from pydantic import ValidationError

from api.shared.identities import read_groups_map
from infrastructure.settings import Settings, SettingsError, load_settings, unread_variables

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
def test_one_url_alone_is_refused_naming_the_other(monkeypatch, given, missing, url):
    monkeypatch.setenv(f"FEDAUDIT_{given}_URL", url)
    for _ in range(2):  # not set, and then empty
        with pytest.raises(ValidationError, match=f"FEDAUDIT_{missing}_URL is not"):
            Settings()
        monkeypatch.setenv(f"FEDAUDIT_{missing}_URL", "")


def test_unknown_schemes_are_refused_naming_the_setting() -> None:
    urls = {"database_url": POSTGRES, "broker_url": REDIS}
    for name, url in (
        ("database_url", "mysql://localhost/x"),
        ("broker_url", "amqp://localhost"),
        ("storage_url", "ftp://host/folder"),
    ):
        with pytest.raises(ValidationError, match=f"(?i){name}( must|\\n.*should match)"):
            Settings(**{**urls, name: url})


def test_the_variable_at_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDAUDIT_LEASE_SECONDS", "soon")
    with pytest.raises(SettingsError, match="FEDAUDIT_LEASE_SECONDS: Input should be a valid num"):
        load_settings()
    monkeypatch.setenv("FEDAUDIT_LEASE_SECONDS", "30")
    monkeypatch.setenv("FEDAUDIT_BROKER_URL", REDIS)
    with pytest.raises(SettingsError, match=r"^FEDAUDIT_BROKER_URL is set and"):
        load_settings()


_PROVIDER = {"oidc_issuer": "https://login.example.org", "oidc_client_id": "c", "groups_map": "g"}
_PROXY = {
    "proxy_user_header": "X-User",
    "proxy_groups_header": "X-Groups",
    "proxy_addresses": "10.0.0.1",
    "groups_map": "g",
}


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"oidc_audience": "a"}, "FEDAUDIT_OIDC_AUDIENCE needs FEDAUDIT_OIDC_ISSUER"),
        ({**_PROVIDER, "groups_map": None}, "FEDAUDIT_OIDC_ISSUER needs FEDAUDIT_GROUPS_MAP"),
        ({**_PROVIDER, "oidc_issuer": "http://localhost@evil.org/"}, "ISSUER must begin with"),
        ({**_PROXY, "proxy_addresses": ""}, "FEDAUDIT_PROXY_USER_HEADER needs .*PROXY_ADDRESSES"),
        ({**_PROXY, "proxy_addresses": "*"}, r"proxy_addresses\s.*'\*' does not appear to be"),
    ],
)
def test_a_way_to_sign_in_that_is_not_whole_or_not_safe_is_refused(values, fault):
    with pytest.raises(ValidationError, match=fault):
        Settings(**values)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("g: {acme: [reports:raed]}", "/g/acme/0: Input should be 'experiments:read'"),
        ("g: {acme: []}", "/g/acme: List should have at least 1 item"),
        ("g: [acme]", "/g: Input should be a valid dictionary"),
        ("g: {acme: [", "while parsing"),
        ("g: {a: [admin]}\nh: {a: [admin]}\ng: {b: [admin]}", "line 3: 'g' is given twice"),
        ('{"g": {"a": ["admin"]}, "g": {}}', "'g' is given twice"),
    ],
)
def test_a_fault_in_the_map_of_groups_is_named_at_start(tmp_path, text, fault):
    path = tmp_path / "groups.yaml"
    with pytest.raises(SettingsError, match=r"groups.yaml: .*No such file"):
        read_groups_map(path)
    path.write_text(text)
    with pytest.raises(SettingsError, match=f"FEDAUDIT_GROUPS_MAP: .*groups.yaml: .*{fault}"):
        read_groups_map(path)


def test_variables_that_nothing_reads_are_known(monkeypatch):
    for name in ("FEDAUDIT_LEASE_SECOND", "FEDAUDIT_LEASE_SECONDS", "FEDAUDIT_URL"):
        monkeypatch.setenv(name, "30")
    found = [name for name in unread_variables() if "_TEST_" not in name]
    assert found == ["FEDAUDIT_LEASE_SECOND"]
