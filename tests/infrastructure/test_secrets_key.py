"""The key of stored secrets: made once for its owner alone, replaced without losing any."""

import base64
from pathlib import Path

import pytest

from infrastructure.secrets_key import SecretBox, SecretsKeyError
from infrastructure.settings import Settings


def _settings(path: Path | None, **values: object) -> Settings:
    production = {"database_url": "sqlite:////x.db", "broker_url": "filesystem:///x"}
    return Settings(**production, secrets_key_file=path, **values)


def _write(path: Path, *keys: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(b"".join(base64.b64encode(key) + b"\n" for key in keys))
    return path


def test_the_embedded_service_makes_its_own_key(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    stored = SecretBox(settings).encrypt("whsec_abc")
    assert "abc" not in stored
    assert SecretBox(settings).decrypt(stored) == "whsec_abc"
    assert (tmp_path / "secrets-key").stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["secrets-key"]


def test_a_key_is_replaced_by_one_above_it(tmp_path: Path) -> None:
    old, new = bytes(32), bytes(range(32))
    settings = _settings(_write(tmp_path / "key", old))
    stored = SecretBox(settings).encrypt("whsec_abc")
    _write(tmp_path / "key", new, old)
    assert SecretBox(settings).decrypt(stored) == "whsec_abc"
    again = SecretBox(settings).encrypt("whsec_abc")
    _write(tmp_path / "key", new)
    assert SecretBox(settings).decrypt(again) == "whsec_abc"
    with pytest.raises(SecretsKeyError, match="another key"):
        SecretBox(settings).decrypt(stored)


def test_what_is_no_usable_key_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(SecretsKeyError, match="FEDAUDIT_SECRETS_KEY_FILE is not set"):
        SecretBox(_settings(None))
    with pytest.raises(SecretsKeyError, match="openssl rand -base64 32"):
        SecretBox(_settings(path))
    _write(path, b"too short")
    with pytest.raises(SecretsKeyError, match="something else than keys"):
        SecretBox(_settings(path))
    _write(path, bytes(32)).chmod(0o640)
    with pytest.raises(SecretsKeyError, match="chmod 600"):
        SecretBox(_settings(path))
