"""Stored files: whole or not there at all, in a folder and in an object store alike."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

from infrastructure import settings
from infrastructure.settings import SettingsError
from infrastructure.storage import Storage, StorageError, StorageFullError

KEY = "federations/01890000-0000-7000-8000-000000000000/01890000-0000-7000-8000-000000000001"
OTHER = KEY[:-1] + "2"
PARTS = [b"age,income\n", os.urandom(17 * 2**20), b"the end"]
"""More than one part of a remote file."""


@pytest.fixture(scope="module")
def object_store() -> Iterator[str]:
    """The address of a server that speaks S3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def ask_store(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """The environment is read when the first file system is made."""
    S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "known")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")


def files_in(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in files)


@pytest.fixture(params=["file", "s3"])
def place(request, tmp_path, monkeypatch):
    """A storage's URL, and what lies in it; the test runs once on each kind."""
    if request.param == "file":
        folder = tmp_path / "stored files"
        return f"file://{folder}", lambda: files_in(folder)
    import boto3

    ask_store(monkeypatch, request.getfixturevalue("object_store"))
    client: Any = boto3.client("s3")
    bucket = f"bucket-{tmp_path.name.replace('_', '-').lower()}"
    client.create_bucket(Bucket=bucket)

    def in_bucket() -> list[str]:
        objects = client.list_objects_v2(Bucket=bucket, Prefix="some/").get("Contents", [])
        unfinished = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
        return sorted(
            [found["Key"].removeprefix("some/place/") for found in objects]
            + [f"unfinished {found['Key']}" for found in unfinished]
        )

    return f"s3://{bucket}/some/place", in_bucket


def test_a_file_comes_back_as_it_was_written_and_is_deleted(place):
    url, stored = place
    storage = Storage(url)
    for key in (KEY, OTHER):
        with storage.writer(key) as writer:
            for part in PARTS:
                writer.write(part)
            assert KEY not in stored() or key == OTHER
    assert stored() == [KEY, OTHER]
    with Storage(url).local(KEY) as path:
        assert path.read_bytes() == b"".join(PARTS)
    assert path.exists() == url.startswith("file")
    storage.delete(KEY)
    storage.delete(KEY)
    assert stored() == [OTHER]
    with pytest.raises(StorageError, match="not there"), storage.local(KEY):
        pass


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_an_abort_leaves_nothing_behind(place, parts):
    url, stored = place
    writer = Storage(url).writer(KEY)

    def break_off() -> None:
        with writer:
            for part in PARTS[:parts]:
                writer.write(part)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    writer.abort()
    assert stored() == []


def test_an_object_store_that_is_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    ask_store(monkeypatch, "http://127.0.0.1:1")
    with pytest.raises(StorageError, match="the storage failed"):
        Storage("s3://bucket").delete(KEY)
    S3FileSystem.clear_instance_cache()


def test_a_full_disk_is_recognised_and_leaves_nothing(tmp_path, monkeypatch):
    writer = Storage(f"file://{tmp_path}/files").writer(KEY)
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(writer, "_file", full)
        with pytest.raises(StorageFullError, match="the storage is full"):
            writer.write(b"x" * 100)
    assert files_in(tmp_path) == []

    def no_room(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    # Or full at the end.
    writer = Storage(f"file://{tmp_path}/files").writer(KEY)
    writer.write(b"x")
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(StorageFullError):
        writer.commit()
    assert files_in(tmp_path) == []


def test_keys_are_made_of_ids(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}")
    for key in ("", "a", "/a/b", "a/../b", "a/b/", "a/.b", "a/B", "a/\x00", "a//b"):
        for call in (storage.writer, storage.delete, storage.local):
            with pytest.raises(ValueError, match="no storage key"):
                call(key)


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [("s3://bucket", "s3fs", "extra s3"), ("gs://bucket/x", "gcsfs", "extra gcs")],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, url, package, extra):
    monkeypatch.setattr(settings, "find_spec", lambda _name: None)
    with pytest.raises(SettingsError, match=f"{package}.*{extra}"):
        Storage(url)


@pytest.mark.parametrize("url", ["", "/srv", "ftp://host/x", "file://", "file://host/x", "s3://"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="FEDAUDIT_STORAGE_URL"):
        Storage(url)


def test_what_a_killed_process_left_is_swept_a_day_later(tmp_path: Path) -> None:
    storage = Storage(f"file://{tmp_path}")
    with storage.writer(OTHER) as writer:
        writer.write(b"kept")
    begun = storage.writer(KEY)
    begun.write(b"as far as it came")
    [left] = tmp_path.rglob(f".{KEY[-36:]}.*")
    foreign = left.with_name(".somebody-else")
    foreign.touch()
    assert storage.sweep() == 0
    for path in (left, foreign, tmp_path / OTHER):
        os.utime(path, (0, 0))
    assert storage.sweep() == 1
    assert not left.exists()
    assert foreign.exists()
    assert storage.holds(OTHER)
    begun.abort()
