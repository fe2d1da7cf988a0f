"""The event stream of a real server: replay, following, and its end."""

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog

from benchmarks.served_api import http
from models.repositories import ApiKeyRepository, EventRepository
from models.repositories.accounts import hash_of_key
from tests.api.service import ROUNDS, Api, fail, finished, play, running_api, served, settings_for


@pytest.fixture
def live(sqlite_url: str, tmp_path: Path) -> Iterator[tuple[Api, httpx.Client]]:
    """An API, and a client of a real server on the same database."""
    with (
        running_api(settings_for(sqlite_url, tmp_path)) as api,
        served(api) as url,
        http(url, api.key) as client,
    ):
        yield api, client


def _events(client: httpx.Client, experiment_id: str, after: int | None = None) -> list[dict]:
    """Every event until the stream ends: its fields."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    path = f"/v1/experiments/{experiment_id}/events"
    with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        blocks = "".join(response.iter_text()).strip().split("\n\n")
    return [
        dict(line.split(": ", 1) for line in block.splitlines())
        for block in blocks
        if block and not block.startswith(":")
    ]


def test_a_finished_experiment_is_replayed_and_ends(live: tuple[Api, httpx.Client]) -> None:
    api, client = live
    id_ = finished(api)
    events = _events(client, id_)
    types = [event["event"] for event in events]
    assert types == ["status.changed"] * 2 + ["round.completed"] * ROUNDS + ["status.changed"]
    assert [int(event["id"]) for event in events] == list(range(1, len(events) + 1))
    assert '"status":"succeeded"' in events[-1]["data"]
    assert _events(client, id_, after=4) == events[4:]
    assert _events(client, id_, after=len(events)) == []
    assert _events(client, id_, after=10_000) == []


def test_a_client_that_leaves_is_no_failure(live, caplog):
    api, client = live
    id_ = api.submit()["id"]
    # More than a connection holds, so that messages are under way when the client leaves.
    past = [("round.completed", {"round": number}) for number in range(20_000)]
    with api.database.write() as session:
        EventRepository(session, api.project_id).append(id_, past)
    path = f"/v1/experiments/{id_}/events"
    with structlog.testing.capture_logs() as logged:
        for _ in range(5):
            with client.stream("GET", path) as response:
                assert next(response.iter_lines()) == "event: status.changed"
        fail(api, id_)
        ids = [int(event["id"]) for event in _events(client, id_, after=18_000)]
        assert ids == list(range(18_001, 20_004))
    assert [entry for entry in logged if entry["log_level"] == "error"] == []
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_events_come_as_they_happen(live: tuple[Api, httpx.Client]) -> None:
    api, client = live
    id_ = api.submit()["id"]
    found: list[dict] = []
    seen_first = threading.Event()

    def follow() -> None:
        with client.stream("GET", f"/v1/experiments/{id_}/events") as response:
            for line in response.iter_lines():
                if line.startswith("event: "):
                    found.append({"event": line.removeprefix("event: ")})
                    seen_first.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert seen_first.wait(20)
    play(api, id_)
    fail(api, id_)
    thread.join(20)
    assert not thread.is_alive()
    types = [event["event"] for event in found]
    assert types == ["status.changed"] * 2 + ["round.completed"] * ROUNDS + ["status.changed"]


def test_a_silent_stream_is_kept_alive(live, monkeypatch):
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.05)
    api, client = live
    id_ = api.submit()["id"]
    with client.stream("GET", f"/v1/experiments/{id_}/events") as response:
        lines = response.iter_lines()
        assert next(line for line in lines if line.startswith(":")).startswith(": ")


def test_a_stream_ends_with_its_key(live: tuple[Api, httpx.Client]) -> None:
    api, client = live
    id_, key = api.submit()["id"], api.key_with("experiments:read")
    with client.stream(
        "GET", f"/v1/experiments/{id_}/events", headers={"Authorization": f"Bearer {key}"}
    ) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("event: ")
        with api.database.write() as session:
            found = ApiKeyRepository(session).find(hash_of_key(key))
            ApiKeyRepository(session).revoke(api.project_id, found.id)
        list(lines)
