"""Compressed answers, and HEAD."""

import gzip
import json

import pytest

from tests.api.service import Api, finish


@pytest.fixture
def finished(api: Api) -> dict:
    """An experiment with a report."""
    body = api.submit()
    finish(api, body["id"])
    return body


# -- compressed ------------------------------------------------------------------------------------


def test_large_answers_come_compressed(api: Api, finished: dict) -> None:
    path = f"/v1/experiments/{finished['id']}/report"
    plain = api.get(path, headers={"Accept-Encoding": "identity"})
    with api.client.stream(
        "GET", path, headers={"Authorization": f"Bearer {api.key}", "Accept-Encoding": "gzip"}
    ) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert len(sent) < len(plain.content) / 2
    assert json.loads(gzip.decompress(sent)) == plain.json()
    assert "Accept-Encoding" in answer.headers["vary"]


def test_pages_streams_and_bundles_are_not_compressed(api: Api, finished: dict) -> None:
    id_ = finished["id"]
    assert "content-encoding" not in api.get("/sign-in").headers
    for path in (f"/v1/experiments/{id_}/events", f"/v1/experiments/{id_}/bundle"):
        answer = api.get(path, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers


# -- HEAD ------------------------------------------------------------------------------------------


def test_head_answers_as_get_without_a_body(api: Api, finished: dict) -> None:
    below = f"/v1/experiments/{finished['id']}"
    for path in (
        *("/health/live", "/openapi.json", "/sign-in", "/v1/experiments"),
        *(f"{below}/{rest}" for rest in ("report.html", "rounds.csv", "events", "nothing")),
    ):
        got, asked = api.get(path), api.request("HEAD", path)
        assert (asked.status_code, asked.content) == (got.status_code, b""), path
        for name in ("content-type", "content-length", "cache-control"):
            assert asked.headers.get(name) == got.headers.get(name)


def test_head_of_a_stream_that_goes_on_ends(api: Api) -> None:
    id_ = api.submit()["id"]
    asked = api.request("HEAD", f"/v1/experiments/{id_}/events")
    assert asked.headers["content-type"].startswith("text/event-stream")
    assert api.client.app.state.resources.streams.open == 0
