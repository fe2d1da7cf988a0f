"""The event stream of a real server: replay, following, its end, and how many there may be."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import sleep

import httpx
import pytest
import structlog
from sqlalchemy.exc import OperationalError

from api.http.problems import ProblemError
from api.routers import experiments
from api.shared import concurrency
from api.shared.concurrency import StreamPlaces
from api.shared.security import Call
from benchmarks.served_api import http
from models.repositories import ApiKeyRepository, EventRepository
from models.repositories.accounts import hash_of_key
from models.tables.experiments import Event
from tests.api.service import ROUNDS, Api, fail, finished, play, running_api, served, settings_for

TYPES = ["status.changed"] * 2 + ["round.completed"] * ROUNDS + ["status.changed"]
"""Of an experiment from its submission to its end."""


@pytest.fixture
def live(sqlite_url: str, tmp_path: Path) -> Iterator[tuple[Api, httpx.Client]]:
    with (
        running_api(settings_for(sqlite_url, tmp_path)) as api,
        served(api) as url,
        http(url, api.key) as client,
    ):
        yield api, client


def path_of(experiment_id: str) -> str:
    return f"/v1/experiments/{experiment_id}/events"


def _events(client: httpx.Client, experiment_id: str, after: int = 0) -> list[dict[str, str]]:
    """Every event until the stream ends: its fields."""
    headers = {"Last-Event-ID": str(after)} if after else {}
    with client.stream("GET", path_of(experiment_id), headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        blocks = "".join(response.iter_text()).strip().split("\n\n")
    shown = [block.splitlines() for block in blocks if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in lines) for lines in shown]


def test_a_finished_experiment_is_replayed_and_ends(live: tuple[Api, httpx.Client]) -> None:
    api, client = live
    id_ = finished(api)
    events = _events(client, id_)
    assert [event["event"] for event in events] == TYPES
    assert [int(event["id"]) for event in events] == list(range(1, len(events) + 1))
    assert '"status":"succeeded"' in events[-1]["data"]
    for after in (4, len(events), 10_000):
        assert _events(client, id_, after=after) == events[after:]


def test_a_client_that_leaves_is_no_failure(live, caplog):
    api, client = live
    id_ = api.submit()["id"]
    # More than a connection holds, so that messages are under way when the client leaves.
    past = [("round.completed", {"round": number}) for number in range(20_000)]
    with api.database.write() as session:
        EventRepository(session, api.project_id).append(id_, past)
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            with client.stream("GET", path_of(id_)) as response:
                assert next(response.iter_lines()) == "event: status.changed"
        fail(api, id_)
        ids = [int(event["id"]) for event in _events(client, id_, after=18_000)]
        assert ids == list(range(18_001, 20_004))
    assert [entry for entry in logged if entry["log_level"] == "error"] == []
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_events_come_as_they_happen_and_silence_is_kept_alive(live, monkeypatch):
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.05)
    api, client = live
    id_ = api.submit()["id"]
    with client.stream("GET", path_of(id_)) as response:
        lines = response.iter_lines()
        found = [next(lines)]
        assert next(line for line in lines if line.startswith(":")).startswith(": ")
        play(api, id_)
        fail(api, id_)
        found += [line for line in lines if line.startswith("event: ")]
    assert found == [f"event: {one}" for one in TYPES]


def test_a_stream_ends_with_its_key(live: tuple[Api, httpx.Client]) -> None:
    api, client = live
    id_, key = api.submit()["id"], api.key_with("experiments:read")
    headers = {"Authorization": f"Bearer {key}"}
    with client.stream("GET", path_of(id_), headers=headers) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("event: ")
        with api.database.write() as session:
            found = ApiKeyRepository(session).find(hash_of_key(key))
            assert found is not None
            ApiKeyRepository(session).revoke(api.project_id, found.id)
        list(lines)


def test_a_stream_ends_quietly_where_the_database_goes_away(live, monkeypatch):
    api, client = live
    id_, read = api.submit()["id"], experiments._after

    def away(call: Call, experiment_id: str, sequence: int) -> tuple[list[Event], bool]:
        if sequence:
            raise OperationalError("SELECT", {}, ConnectionError("away"))
        return read(call, experiment_id, sequence)

    monkeypatch.setattr(experiments, "_after", away)
    with structlog.testing.capture_logs() as logs:
        assert len(_events(client, id_)) == 1
    found = [line for line in logs if line["log_level"] == "error"]
    assert [(line["event"], line["detail"]) for line in found] == [("database away", "away")]


# -- so many streams of one process, and so many of one key ---------------------------------------


def test_places_of_a_process_are_counted_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "MAX_STREAMS", 2)
    places = StreamPlaces()

    async def check() -> None:
        async with places.place("a"):
            async with places.place("b"):
                with pytest.raises(ProblemError) as full:
                    async with places.place("c"):
                        pass
                assert (full.value.status, places.open) == (503, 2)
            async with places.place("c"):
                assert places.open == 2
        assert places.open == 0

    asyncio.run(check())


def test_a_key_that_holds_too_many_streams_is_asked_to_wait(live, monkeypatch):
    monkeypatch.setattr(concurrency, "MAX_STREAMS_OF_A_KEY", 3)
    api, client = live
    id_ = api.submit()["id"]
    with ExitStack() as held:
        streams = [held.enter_context(client.stream("GET", path_of(id_))) for _ in range(3)]
        # Kept: a reader that is dropped closes its connection.
        readers = [stream.iter_lines() for stream in streams]
        assert [next(one) for one in readers] == ["event: status.changed"] * 3
        with client.stream("GET", path_of(id_)) as refused:
            assert refused.status_code == 429
            refused.read()
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.headers["retry-after"] == "5"
        assert "3 event streams open already" in refused.json()["detail"]
        # Other requests of the key are answered.
        assert client.get(f"/v1/experiments/{id_}").status_code == 200
    # A reader who left is noticed when the stream next has something to say, or looks.
    for _ in range(100):
        with client.stream("GET", path_of(id_)) as stream:
            if stream.status_code == 200:
                return
        sleep(0.1)
    pytest.fail("no place was given back")
