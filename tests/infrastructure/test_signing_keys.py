"""The private key's file: its owner's alone, made once, and refused with a remedy."""

import base64
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedaudit.ledger.statements import SigningKey, public_keys_in
from infrastructure.key_files import KeyFileError
from infrastructure.secrets_key import SecretBox
from infrastructure.settings import Settings
from infrastructure.signing_keys import (
    create_key_file,
    ensure_key_file,
    key_file_of,
    public_file,
    read_key_file,
    rotate_key_file,
)
from tests.infrastructure.secrets_keys import secrets_key_in
from tests.models.rows import at_once
from tests.processes import completed


def test_a_key_is_made_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    create_key_file(path)
    content = read_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    key = SigningKey.from_pem(content)
    assert public_keys_in(public_file(path).read_bytes()) == [key.public]
    with pytest.raises(KeyFileError, match="never overwritten"):
        create_key_file(path)
    ensure_key_file(path)
    assert read_key_file(path) == content
    assert sorted(one.name for one in tmp_path.iterdir()) == ["key.pem", "key.pem.pub"]


def test_several_at_once_make_one_key(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    code = "import sys; from infrastructure.signing_keys import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, "ensure", "--file", str(path)]
    assert [one.returncode for one in at_once(lambda _: completed(command), 3)] == [0, 0, 0]
    key = SigningKey.from_pem(read_key_file(path))
    assert public_keys_in(public_file(path).read_bytes()) == [key.public]


def both_keys(folder: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A key that signs and one that encrypts: the file, and what reads it."""
    signing, secret = folder / "key.pem", secrets_key_in(folder)
    create_key_file(signing)
    settings = Settings(secrets_key_file=secret)
    yield signing, lambda: ensure_key_file(signing)
    yield secret, lambda: SecretBox(settings)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o604])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    for path, read in both_keys(tmp_path):
        path.chmod(mode)
        with pytest.raises(KeyFileError, match=f"mode {mode:04o}.*chmod 600"):
            read()


def test_a_mounted_secret_is_read_through_the_group_and_by_no_one_else(tmp_path, monkeypatch):
    keys = list(both_keys(tmp_path))
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    for path, read in keys:
        path.chmod(0o440)
        read()
        path.chmod(0o444)
        with pytest.raises(KeyFileError, match="mode 0444"):
            read()


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match="keys signing"):
        read_key_file(path)


def test_a_damaged_secret_of_an_earlier_key_is_no_new_secret(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    create_key_file(path)
    rotate_key_file(path)
    content = path.read_bytes()
    secret, begins, key = content.partition(b"-----BEGIN PRIVATE")
    before = begins + key + secret  # as earlier versions wrote it
    read_key_file(path)
    cut_off = [before[:size] for size in range(len(before) - len(secret) + 1, len(before) - 1)]
    other = [one.replace(b"=\n-----END FED", b"\n-----END FED") for one in (content, before)]
    for damaged in [*cut_off, *other, before[:-70] + before[-60:]]:
        path.write_bytes(damaged)
        with pytest.raises(KeyFileError, match="damaged; put a copy of the file back"):
            read_key_file(path)
    for size in range(len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(KeyFileError):
            read_key_file(path)


def test_a_missing_file_or_folder_is_named_and_so_must_be_the_key_of_production(tmp_path):
    with pytest.raises(KeyFileError, match="there is no signing key at"):
        read_key_file(tmp_path / "absent")
    with pytest.raises(KeyFileError, match="cannot make the signing key"):
        create_key_file(tmp_path / "no" / "key.pem")
    urls = {"database_url": "postgresql://x/y", "broker_url": "redis://x"}
    with pytest.raises(KeyFileError, match=r"FEDAUDIT_SIGNING_KEY_FILE.*keys signing --out"):
        key_file_of(Settings(data_dir=tmp_path, **urls))
    named = Settings(data_dir=tmp_path, signing_key_file=tmp_path / "k", **urls)
    assert key_file_of(named) == tmp_path / "k"
    assert key_file_of(Settings(data_dir=tmp_path)) == tmp_path / "signing-key.pem"


# -- the key of stored secrets: made once for its owner alone, replaced without losing any --------


def _settings(path: Path | None) -> Settings:
    production = {"database_url": "sqlite:////x.db", "broker_url": "filesystem:///x"}
    return Settings(**production, secrets_key_file=path)


def _write(path: Path, *keys: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(b"".join(base64.b64encode(key) + b"\n" for key in keys))
    return path


def test_the_embedded_service_makes_its_own_key(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    stored = SecretBox(settings).encrypt("whsec_abc")
    assert "whsec_abc" not in stored
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
    with pytest.raises(KeyFileError, match="another key"):
        SecretBox(settings).decrypt(stored)


def test_what_is_no_usable_key_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(KeyFileError, match="FEDAUDIT_SECRETS_KEY_FILE is not set"):
        SecretBox(_settings(None))
    with pytest.raises(KeyFileError, match="openssl rand -base64 32"):
        SecretBox(_settings(path))
    _write(path, b"too short")
    with pytest.raises(KeyFileError, match="something else than keys"):
        SecretBox(_settings(path))
