"""The private key's file: its owner's alone, made once, and refused with a remedy."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedaudit.ledger.statements import SigningKey, public_keys_in
from infrastructure.settings import Settings
from infrastructure.signing_keys import (
    SigningKeyError,
    create_key_file,
    ensure_key_file,
    key_file_of,
    public_file,
    read_key_file,
)


def test_a_key_is_made_for_its_owner_alone_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    create_key_file(path)
    content = read_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    key = SigningKey.from_pem(content)
    assert public_keys_in(public_file(path).read_bytes()) == [key.public]
    with pytest.raises(SigningKeyError, match="never overwritten"):
        create_key_file(path)
    ensure_key_file(path)
    assert read_key_file(path) == content
    assert sorted(one.name for one in tmp_path.iterdir()) == ["key.pem", "key.pem.pub"]


def test_several_at_once_make_one_key(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    code = "import sys; from infrastructure.signing_keys import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", code, "ensure", "--file", str(path)]
    ended: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: ended.append(
                subprocess.run(command, check=False, capture_output=True).returncode
            )
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [0, 0, 0]
    key = SigningKey.from_pem(read_key_file(path))
    assert public_keys_in(public_file(path).read_bytes()) == [key.public]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o604])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.pem"
    create_key_file(path)
    path.chmod(mode)
    with pytest.raises(SigningKeyError, match=f"mode {mode:04o}.*chmod 600"):
        ensure_key_file(path)


def test_a_mounted_secret_is_read_through_the_group_and_by_nobody_else(tmp_path, monkeypatch):
    path = tmp_path / "key.pem"
    create_key_file(path)
    owner = path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    path.chmod(0o440)
    ensure_key_file(path)
    path.chmod(0o444)
    with pytest.raises(SigningKeyError, match="mode 0444"):
        ensure_key_file(path)


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN PRIVATE KEY-----\nAAAA\n"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(SigningKeyError, match="keys signing"):
        read_key_file(path)


def test_a_missing_file_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyError, match="there is no signing key at"):
        read_key_file(tmp_path / "absent")
    with pytest.raises(SigningKeyError, match="cannot make the signing key"):
        create_key_file(tmp_path / "no" / "key.pem")


def test_production_must_name_its_key(tmp_path: Path) -> None:
    urls = {"database_url": "postgresql://x/y", "broker_url": "redis://x"}
    with pytest.raises(SigningKeyError, match=r"FEDAUDIT_SIGNING_KEY_FILE.*keys signing --out"):
        key_file_of(Settings(data_dir=tmp_path, **urls))
    named = Settings(data_dir=tmp_path, signing_key_file=tmp_path / "k", **urls)
    assert key_file_of(named) == tmp_path / "k"
    assert key_file_of(Settings(data_dir=tmp_path)) == tmp_path / "signing-key.pem"
