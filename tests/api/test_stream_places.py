"""Event streams of one process: so many, and so many of one key."""

import asyncio
from contextlib import ExitStack
from time import sleep

import httpx
import pytest

from api.http.problems import ProblemError
from api.shared import concurrency
from api.shared.concurrency import StreamPlaces
from benchmarks.served_api import http
from tests.api.service import running_api, served, settings_for


def test_places_are_counted_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "MAX_STREAMS", 3)
    monkeypatch.setattr(concurrency, "MAX_STREAMS_OF_A_KEY", 2)

    async def check() -> None:
        places = StreamPlaces()
        async with places.place("a"), places.place("a"):
            with pytest.raises(ProblemError) as full:
                async with places.place("a"):
                    pass
            assert (full.value.status, full.value.headers) == (429, {"Retry-After": "5"})
            async with places.place("b"):
                with pytest.raises(ProblemError) as full:
                    async with places.place("c"):
                        pass
                assert full.value.status == 503
            assert places.open == 2
            async with places.place("c"):
                assert places.open == 3
        assert places.open == 0

    asyncio.run(check())


def test_a_key_that_holds_too_many_streams_is_asked_to_wait(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr(concurrency, "MAX_STREAMS_OF_A_KEY", 3)
    with (
        running_api(settings_for(sqlite_url, tmp_path)) as api,
        served(api) as url,
        http(url, api.key) as client,
    ):
        id_ = api.submit()["id"]
        path = f"/v1/experiments/{id_}/events"
        with ExitStack() as held:
            readers = []
            for _ in range(3):
                stream = held.enter_context(client.stream("GET", path))
                assert stream.status_code == 200
                # Kept: a reader that is dropped closes its connection.
                readers.append(stream.iter_lines())
                assert next(readers[-1]) == "event: status.changed"
            refused = client.get(path)
            assert refused.status_code == 429
            assert refused.headers["content-type"] == "application/problem+json"
            assert refused.headers["retry-after"] == "5"
            assert "3 event streams open already" in refused.json()["detail"]
            # Other requests of the key are answered.
            assert client.get(f"/v1/experiments/{id_}").status_code == 200
        wait_for_place(client, path)


def wait_for_place(client: httpx.Client, path: str) -> None:
    """A reader who left is noticed when the stream next has something to say, or looks."""
    for _ in range(100):
        with client.stream("GET", path) as stream:
            if stream.status_code == 200:
                return
        sleep(0.1)
    pytest.fail("no place was given back")
