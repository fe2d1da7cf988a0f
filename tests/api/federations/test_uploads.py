"""Uploading a file: whole and once, or not at all."""

import gzip
import hashlib
import itertools
import json
import os
import socket
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from benchmarks.served_api import http
from infrastructure.storage import Storage, StorageFullError, StorageWriter
from models.repositories import UnitRepository
from tests.api.service import Api, body_of, running_api, served, settings_for
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


def test_a_file_is_kept_and_waits_for_its_profile(api: Api) -> None:
    made = upload(api)
    stated = {
        **{"status": "profiling", "name": "incomes", "source": "table", "file_name": "incomes.csv"},
        **{"fingerprint": FINGERPRINT, "size_bytes": len(CONTENT)},
        **{"profile": None, "reasons": [], "profiled_at": None},
    }
    assert {name: made[name] for name in stated} == stated
    assert made["registration"]["federation"]["path"] == "incomes.csv"
    assert made["registration"]["federation"]["missing_values"] == [""]
    assert api.get(f"/v1/federations/{made['id']}").json() == made
    [file] = files_of(api)
    assert (file.read_bytes(), file.stat().st_mode & 0o077) == (CONTENT, 0)
    with api.database.write() as session:
        unit = UnitRepository(session).get(str(stored(api, made["id"]).unit_id))
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
    with api.unchanged():
        assert upload(api) == first
        make_ready(api, first["id"])
        again = body_of(api.post("/v1/federations", files=parts(file_name="other-name.csv")))
        assert (again["id"], again["status"]) == (first["id"], "ready")
    assert len(files_of(api)) == 1


def test_after_a_rejection_it_is_stored_again(api: Api) -> None:
    first = upload(api)
    reject(api, first["id"], "/federation/target", "no such column")
    path = f"/v1/federations/{first['id']}"
    assert api.get(path).json()["status"] == "rejected"
    for shown in (api.get(path).json(), api.get(f"{path}/profile").json()):
        assert shown["errors"] == [{"pointer": "/federation/target", "message": "no such column"}]
        assert shown["reasons"] == shown["errors"], "the name that it had first"
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
    assert (second["profile"] is None) == (value is not None)
    assert second["registration"]["federation"]["target"] == ("age" if value else "income")
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
        refusal = body_of(api.post("/v1/federations", files=other, headers=headers), 409)
        assert refusal["type"].endswith("idempotency-mismatch")
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


def _body(*sent: tuple[str, bytes], end: bytes = b"--B--\r\n") -> bytes:
    return b"".join(
        b"--B\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + data + b"\r\n"
        for head, data in sent
    ) + (end)


_TYPE = "multipart/form-data; boundary=B"
_REGISTRATION = ('name="registration"', json.dumps(REGISTRATION).encode())
_FILE = ('name="file"; filename="a.csv"', CONTENT)


_GZIP = 'name="file"; filename="a.gz"'
NO_UPLOADS = (
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
    (b"nonsense", "no multipart/form-data body"),
    (b"--B\r\nX: y\r\n\r\ndata\r\n--B--\r\n", "Content-Disposition"),
    (_body(_REGISTRATION, (_GZIP, b"\x1f\x8bxyz")), "is damaged"),
    (_body(_REGISTRATION, (_GZIP, gzip.compress(CONTENT)[:-9])), "breaks off"),
)


def test_a_body_that_is_no_upload_stores_nothing(api: Api) -> None:
    with api.unchanged():
        for body, message in NO_UPLOADS:
            answer = api.post("/v1/federations", content=body, headers={"Content-Type": _TYPE})
            assert message in body_of(answer, 422)["detail"]
        for name in ("..", "folder/", "c:x", "x" * 201, "~root"):
            answer = api.post("/v1/federations", files=parts(file_name=name))
            assert body_of(answer, 422)["errors"][0]["pointer"] == "/file"
    assert files_of(api) == []


def test_too_large_a_file_is_refused_and_other_bodies_keep_their_limit(sqlite_url, tmp_path):
    with running_api(settings_for(sqlite_url, tmp_path, max_upload_bytes=10_000)) as api:
        # The file itself, what it expands to, and the body.
        for content in (b"x" * 10_001, gzip.compress(bytes(10_001)), b"x" * 3_000_000):
            refusal = body_of(api.post("/v1/federations", files=parts(content)), 413)
            assert refusal["type"].endswith("payload-too-large")
        assert files_of(api) == []
        assert upload(api, b"x" * 10_000)["size_bytes"] == 10_000
        assert upload(api, gzip.compress(b"y" * 10_000))["status"] == "profiling"
        large = b" " * (api.settings.max_body_bytes + 1)
        files = [("registration", (None, large, "application/json"))]
        assert api.post("/v1/federations", files=files).status_code == 413
        for path, type_ in (("federations", "application/json"), ("experiments", _TYPE)):
            headers = {"Content-Type": type_}
            assert api.post(f"/v1/{path}", content=large, headers=headers).status_code == 413


def _full_disk(_writer: StorageWriter, _data: bytes) -> None:
    raise StorageFullError("the storage is full")


def _no_database(*_arguments: Any, **_options: Any) -> None:
    raise OperationalError("INSERT", {}, ConnectionError("gone"))


@pytest.mark.parametrize(
    ("place", "failing", "detail"),
    [
        ("infrastructure.storage.StorageWriter.write", _full_disk, "the storage is full"),
        ("api.services.registrations.UnitRepository", _no_database, "does not answer"),
    ],
    ids=["disk", "database"],
)
def test_what_fails_below_is_a_problem_and_leaves_nothing(api, monkeypatch, place, failing, detail):
    with api.unchanged():
        monkeypatch.setattr(place, failing)
        problem = body_of(api.post("/v1/federations", files=parts()), 503)
        assert problem["type"].endswith("unavailable")
        assert detail in problem["detail"]
        assert files_of(api) == []


def test_an_upload_that_is_cut_off_leaves_no_file_and_no_row(api: Api) -> None:
    before = api.counts()
    file = ('name="file"; filename="a.csv"', CONTENT * 6000)
    body = _body(_REGISTRATION, file)
    head = (
        "POST /v1/federations HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {api.key}\r\nContent-Type: {_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    with served(api) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head + body[: len(body) // 2])
            # Some of it has arrived on the disk.
            wait_until(lambda: files_of(api) != [], "the begun file", seconds=10)
        wait_until(lambda: files_of(api) == [], "its end", seconds=10)
        assert api.counts() == before
        with http(url, api.key) as client:
            assert client.post("/v1/federations", files=parts()).status_code == 202


def test_a_refusal_reaches_a_client_that_is_still_sending(api: Api) -> None:
    wrong = json.dumps(registration(federation={"target": None}))
    large = bytes(20_000_000)
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
    head, tail = _body(_REGISTRATION, ('name="file"; filename="a.csv"', b"CUT")).split(b"CUT")
    rows = b"c1,a,1,2\n" * 11_111
    headers = {"Content-Type": _TYPE}
    with served(api) as url, http(url, api.key) as client:
        tracemalloc.start()
        content = itertools.chain([head], itertools.repeat(rows, 300), [tail])
        answer = client.post("/v1/federations", content=content, headers=headers)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert body_of(answer, 202)["size_bytes"] == 300 * len(rows)
    assert peak < 20e6
