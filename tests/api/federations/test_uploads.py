"""Uploading a file: whole and once, or not at all."""

import gzip
import hashlib
import json
import os
import socket
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from benchmarks.served_api import http
from infrastructure.storage import Storage, StorageFullError, StorageWriter
from models.repositories import UnitRepository
from tests.api.answers import body_of
from tests.api.service import Api, running_api, served, settings_for
from tests.api.uploads import (
    CONTENT,
    REGISTRATION,
    files_of,
    make_ready,
    parts,
    registration,
    reject,
    stored,
    upload,
)
from tests.waiting import wait_until

FINGERPRINT = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def small(sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    """An API that takes files up to 10 kB."""
    with running_api(settings_for(sqlite_url, tmp_path, max_upload_bytes=10_000)) as api:
        yield api


def test_a_file_is_kept_and_waits_for_its_profile(api: Api) -> None:
    made = upload(api)
    assert made["status"] == "profiling"
    assert (made["name"], made["source"]) == ("incomes", "table")
    assert (made["fingerprint"], made["file_name"]) == (FINGERPRINT, "incomes.csv")
    assert made["size_bytes"] == len(CONTENT)
    assert made["registration"]["federation"]["path"] == "incomes.csv"
    assert made["registration"]["federation"]["missing_values"] == [""]
    assert (made["profile"], made["reasons"], made["profiled_at"]) == (None, [], None)
    assert api.get(f"/v1/federations/{made['id']}").json() == made
    [file] = files_of(api)
    assert file.read_bytes() == CONTENT
    assert file.stat().st_mode & 0o077 == 0
    row = stored(api, made["id"])
    with api.database.write() as session:
        unit = UnitRepository(session).get(str(row.unit_id))
    assert (unit.kind, unit.device, unit.state) == ("profile", "auto", "waiting")
    assert unit.published_at is not None


def test_the_fingerprint_is_of_the_content_before_compression(api: Api) -> None:
    middle = len(CONTENT) // 2
    members = gzip.compress(CONTENT[:middle]) + gzip.compress(CONTENT[middle:]) + bytes(7)
    made = upload(api, members)
    assert (made["fingerprint"], made["size_bytes"]) == (FINGERPRINT, len(members))
    assert upload(api)["id"] == made["id"]
    # What was stored first stays.
    assert [file.read_bytes() for file in files_of(api)] == [members]


def test_the_same_upload_again_starts_nothing(api: Api) -> None:
    first = upload(api)
    before = api.counts()
    assert upload(api) == first
    make_ready(api, first["id"])
    again = body_of(api.post("/v1/federations", files=parts(file_name="other-name.csv")))
    assert again["status"] == "ready"
    assert again["id"] == first["id"]
    assert api.counts() == before
    assert len(files_of(api)) == 1


def test_another_registration_is_profiled_anew(api: Api) -> None:
    first = upload(api)
    make_ready(api, first["id"])
    second = upload(api, value=registration(federation={"target": "age"}))
    assert (second["id"], second["status"], second["profile"]) == (first["id"], "profiling", None)
    assert second["registration"]["federation"]["target"] == "age"
    assert len(files_of(api)) == 1


def test_after_a_rejection_it_is_stored_again(api: Api) -> None:
    first = upload(api)
    reject(api, first["id"], "/federation/target", "no such column")
    shown = api.get(f"/v1/federations/{first['id']}").json()
    assert shown["status"] == "rejected"
    assert shown["errors"] == [{"pointer": "/federation/target", "message": "no such column"}]
    # The name that it had first.
    assert shown["reasons"] == shown["errors"]
    profile = api.get(f"/v1/federations/{first['id']}/profile").json()
    assert (profile["errors"], profile["reasons"]) == (shown["errors"], shown["errors"])
    files_of(api)[0].unlink()
    second = upload(api)
    assert (second["id"], second["status"], second["reasons"]) == (first["id"], "profiling", [])
    assert [file.read_bytes() for file in files_of(api)] == [CONTENT]


@pytest.mark.parametrize("value", [None, registration(federation={"target": "age"})])
def test_a_file_that_the_storage_lost_is_stored_again(api: Api, value: Any) -> None:
    first = upload(api)
    make_ready(api, first["id"])
    files_of(api)[0].unlink()
    second = upload(api, value=value)
    assert second["id"] == first["id"]
    assert second["status"] == ("ready" if value is None else "profiling")
    [file] = files_of(api)
    assert file.read_bytes() == CONTENT
    assert str(stored(api, first["id"]).storage_key).endswith(file.name)


def test_what_a_killed_process_left_goes_at_the_next_start(sqlite_url: str, tmp_path: Path) -> None:
    settings = settings_for(sqlite_url, tmp_path)
    Storage(settings.storage_url).writer("federations/project/upload").write(b"as far as it came")
    [left] = (settings.data_dir / "files").rglob(".upload.*")
    os.utime(left, (0, 0))
    with running_api(settings) as api:
        assert files_of(api) == []


def test_an_idempotency_key_covers_registration_and_content(api: Api) -> None:
    headers = {"Idempotency-Key": "one"}
    first = upload(api, headers=headers)
    make_ready(api, first["id"])
    again = api.post("/v1/federations", files=parts(), headers=headers)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    for other in (parts(CONTENT + b"c1,a,1,2\n"), parts(value=registration(name="renamed"))):
        refused = api.post("/v1/federations", files=other, headers=headers)
        assert refused.status_code == 409
        assert refused.json()["type"].endswith("idempotency-mismatch")
    assert len(files_of(api)) == 1
    # On another route it is another key.
    assert api.post("/v1/experiments", json={}, headers=headers).status_code == 422


@pytest.mark.parametrize(
    ("file_name", "shown"),
    [
        ("a folder/incomes.csv", "incomes.csv"),
        ("..\\..\\etc\\passwd", "passwd"),
        ("/etc/passwd", "passwd"),
        ("größe.csv", "größe.csv"),
    ],
)
def test_of_a_path_the_name_is_kept(api: Api, file_name: str, shown: str) -> None:
    made = api.post("/v1/federations", files=parts(file_name=file_name)).json()
    assert made["file_name"] == shown
    [file] = files_of(api)
    assert shown not in file.name


@pytest.mark.parametrize("name", ["..", "folder/", "c:x", "x" * 201, "~root"])
def test_a_file_name_must_be_one(api: Api, name: str) -> None:
    response = api.post("/v1/federations", files=parts(file_name=name))
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/file"
    assert files_of(api) == []


def _body(*sent: tuple[str, bytes], end: bytes = b"--B--\r\n") -> bytes:
    return b"".join(
        b"--B\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + data + b"\r\n"
        for head, data in sent
    ) + (end)


_TYPE = "multipart/form-data; boundary=B"
_REGISTRATION = ('name="registration"', json.dumps(REGISTRATION).encode())
_FILE = ('name="file"; filename="a.csv"', CONTENT)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_body(_FILE, _REGISTRATION), "before the registration"),
        (_body(_REGISTRATION), "lacks a part"),
        (_body(_REGISTRATION, _FILE, _FILE), "came before"),
        (_body(_REGISTRATION, _REGISTRATION, _FILE), "came before"),
        (_body(_REGISTRATION, _FILE, ('name="more"', b"x")), "not expected"),
        (_body(_REGISTRATION, ('name="file"', CONTENT)), "no file name"),
        (_body(_REGISTRATION, ('name="file"; filename="a\x00.csv"', b"x")), ""),
        (_body(_REGISTRATION, ('name="file"; filename="a.csv"', b"")), "is empty"),
        (_body(('name="registration"', b"{"), _FILE), "is not JSON"),
        (_body(('name="registration"', b'{"name": NaN}'), _FILE), "NaN is no JSON number"),
        (_body(_REGISTRATION, _FILE, end=b""), "closing boundary"),
        (_body(_REGISTRATION, _FILE)[:-40], "closing boundary"),
        (b"", "closing boundary"),
        (b"nonsense", "no multipart/form-data body"),
        (b"--B\r\nX: y\r\n\r\ndata\r\n--B--\r\n", "Content-Disposition"),
        (_body(_REGISTRATION, ('name="file"; filename="a.gz"', b"\x1f\x8bxyz")), "is damaged"),
        (
            _body(_REGISTRATION, ('name="file"; filename="a.gz"', gzip.compress(CONTENT)[:-9])),
            "breaks off",
        ),
    ],
)
def test_a_body_that_is_no_upload_stores_nothing(api: Api, body: bytes, message: str) -> None:
    before = api.counts()
    response = api.post("/v1/federations", content=body, headers={"Content-Type": _TYPE})
    assert response.status_code == 422, response.text
    assert message in response.json()["detail"]
    assert api.counts() == before
    assert files_of(api) == []


def test_a_registration_that_is_not_valid_names_the_field(api: Api) -> None:
    value = registration(federation={"source": "synthetic-linear"})
    response = api.post("/v1/federations", files=parts(value=value))
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/federation/source"
    response = api.post(
        "/v1/federations", files=parts(value=registration(federation={"path": "x"}))
    )
    assert response.json()["errors"][0]["pointer"] == "/federation/path"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"x" * 10_001, id="the file"),
        pytest.param(gzip.compress(bytes(10_001)), id="what it expands to"),
        pytest.param(gzip.compress(bytes(50_000_000)), id="a bomb"),
        pytest.param(b"x" * 3_000_000, id="the body"),
    ],
)
def test_too_large_a_file_is_refused(small: Api, content: bytes) -> None:
    response = small.post("/v1/federations", files=parts(content))
    assert response.status_code == 413
    assert response.json()["type"].endswith("payload-too-large")
    assert files_of(small) == []


def test_a_file_may_be_as_large_as_allowed(small: Api) -> None:
    assert upload(small, b"x" * 10_000)["size_bytes"] == 10_000
    assert upload(small, gzip.compress(b"y" * 10_000))["status"] == "profiling"


def test_other_bodies_keep_their_limit(small: Api) -> None:
    large = b" " * (small.settings.max_body_bytes + 1)
    headers = {"Content-Type": "application/json"}
    assert small.post("/v1/federations", content=large, headers=headers).status_code == 413
    files = [("registration", (None, large, "application/json"))]
    assert small.post("/v1/federations", files=files).status_code == 413
    headers = {"Content-Type": _TYPE}
    assert small.post("/v1/experiments", content=large, headers=headers).status_code == 413


def test_a_full_disk_is_a_problem_and_leaves_nothing(api, monkeypatch):
    def full(_writer: StorageWriter, _data: bytes) -> None:
        raise StorageFullError("the storage is full")

    before = api.counts()
    monkeypatch.setattr(StorageWriter, "write", full)
    problem = body_of(api.post("/v1/federations", files=parts()), 503)
    assert problem["type"].endswith("unavailable")
    assert problem["detail"] == "the storage is full"
    assert files_of(api) == []
    assert api.counts() == before


def test_a_database_that_fails_leaves_no_file(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_arguments: Any, **_options: Any) -> None:
        raise OperationalError("INSERT", {}, ConnectionError("gone"))

    monkeypatch.setattr("api.services.registrations.UnitRepository", away)
    assert api.post("/v1/federations", files=parts()).status_code == 503
    assert files_of(api) == []


def _requested(api: Api, *, length: int) -> bytes:
    return (
        "POST /v1/federations HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {api.key}\r\nContent-Type: {_TYPE}\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def test_an_upload_that_is_cut_off_leaves_no_file_and_no_row(api: Api) -> None:
    before = api.counts()
    file = ('name="file"; filename="a.csv"', CONTENT * 6000)
    body = _body(_REGISTRATION, file)
    with served(api) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(_requested(api, length=len(body)) + body[: len(body) // 2])
            # Some of it has arrived on the disk.
            wait_until(lambda: files_of(api) != [], "the begun file", seconds=10)
        wait_until(lambda: files_of(api) == [], "its end", seconds=10)
        assert api.counts() == before
        with http(url, api.key) as client:
            assert client.post("/v1/federations", files=parts()).status_code == 202


def test_a_refusal_reaches_a_client_that_is_still_sending(api: Api) -> None:
    wrong = json.dumps(registration(federation={"target": None}))
    large = bytes(40_000_000)
    with served(api) as url, http(url, api.key) as client:
        for key, value, status in ((api.key, wrong, 422), ("fa_made-up", "{}", 401)):
            files = [
                ("registration", (None, value, "application/json")),
                ("file", ("a.csv", large, "text/csv")),
            ]
            headers = {"Authorization": f"Bearer {key}"}
            response = client.post("/v1/federations", files=files, headers=headers)
            assert response.status_code == status
    assert files_of(api) == []


def test_memory_does_not_grow_with_the_file(api: Api) -> None:
    """30 MB pass through; what is held at once is a few blocks of 1 MiB."""

    def content() -> Iterator[bytes]:
        body = _body(_REGISTRATION, ('name="file"; filename="a.csv"', b"CUT"))
        head, tail = body.split(b"CUT")
        yield head
        for _ in range(300):
            yield b"c1,a,1,2\n" * 11_111
        yield tail

    with served(api) as url, http(url, api.key) as client:
        tracemalloc.start()
        response = client.post(
            "/v1/federations", content=content(), headers={"Content-Type": _TYPE}
        )
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert response.status_code == 202
    assert response.json()["size_bytes"] == 300 * 99_999
    assert peak < 20e6
