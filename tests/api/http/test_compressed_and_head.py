"""Compressed answers, HEAD and OPTIONS."""

import gzip
import json
import re

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


def test_options_names_the_methods_of_every_path(api: Api) -> None:
    paths = api.get("/openapi.json", key=None).json()["paths"]
    pages = {"/": ["get"], "/federations/new": ["get", "post"], "/docs/assets/x.js": ["get"]}
    for path, methods in {**paths, **pages}.items():
        answer = api.request("OPTIONS", re.sub(r"{\w+}", "0", path), key=None)
        expected = {*map(str.upper, methods), "OPTIONS", *(["HEAD"] if "get" in methods else [])}
        assert set(answer.headers["allow"].split(", ")) == expected, path
        assert (answer.status_code, answer.content) == (204, b"")
    assert api.request("OPTIONS", "/v1/nowhere").status_code == 404


def test_head_of_a_stream_that_goes_on_ends(api: Api) -> None:
    id_ = api.submit()["id"]
    asked = api.request("HEAD", f"/v1/experiments/{id_}/events")
    assert asked.headers["content-type"].startswith("text/event-stream")
    assert api.client.app.state.resources.streams.open == 0
