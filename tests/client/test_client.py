"""The client against a real server, and against networks that break."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from fedaudit_client.client import Client
from fedaudit_client.errors import NotConfiguredError, ProblemError, UnreachableError
from tests.api.service import SPEC, Api, finish, running_api, served, settings_for, spec


@pytest.fixture
def live(sqlite_url: str, tmp_path: Path) -> Iterator[tuple[Api, Client]]:
    """An API, and a client of a real server on the same database."""
    with (
        running_api(settings_for(sqlite_url, tmp_path)) as api,
        served(api) as url,
        Client(url, api.key) as client,
    ):
        yield api, client


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedaudit_client.wire.sleep", lambda _seconds: None)


def test_from_submission_to_report(live: tuple[Api, Client]) -> None:
    api, client = live
    assert client.project(SPEC)["projection"]["leakage_worst_case"] == 4.0
    id_ = client.submit(SPEC, idempotency_key="once")["id"]
    assert client.submit(SPEC, idempotency_key="once")["id"] == id_
    assert client.get(id_)["status"] == "queued"
    document = finish(api, id_)
    assert client.wait(id_)["status"] == "succeeded"
    assert client.report(id_) == document
    assert client.report_page(id_).startswith("<!")
    assert client.ask("GET", f"experiments/{id_}/report/verification")["valid"]
    assert client.evaluate_gates(id_)["outcome"] == "pass"
    gate = {
        "figure": "leakage_max",
        "op": "le",
        "value": 0,
        "allow_heuristic": True,
        "allow_simulation": True,
    }
    assert client.evaluate_gates(id_, [gate])["outcome"] == "fail"


def test_lists_run_over_pages(live: tuple[Api, Client]) -> None:
    api, client = live
    ids = [client.submit(spec(name=name))["id"] for name in ("a", "b", "a")]
    assert [item["id"] for item in client.list(limit=1)] == ids[::-1]
    assert [item["id"] for item in client.list(name="a", limit=1, tag=None)] == [ids[2], ids[0]]
    assert list(client.list(**{"leakage_max[lte]": 1})) == []
    [federation] = client.items("federations")
    assert client.federation(federation["id"]) == federation
    [budget] = client.set_budget(
        federation["id"], {"book": "simulation", "figure": "leakage", "total": 21.0}
    )
    assert client.budgets(federation["id"]) == [budget]
    path = f"federations/{federation['id']}/disclosure"
    policy = client.ask("PUT", path, json={"minimum_group_size": 2})
    assert client.ask("GET", path) == policy
    assert policy["minimum_group_size"] == 2
    assert api.submit(spec(name="c"))["name"] == "c"


# -- refusals --------------------------------------------------------------------------------------


def test_a_refusal_gives_status_type_and_fields(live: tuple[Api, Client]) -> None:
    _, client = live
    with pytest.raises(ProblemError) as caught:
        client.submit(spec(seed=-1, surprise=1))
    error = caught.value
    assert (error.status, error.slug) == (422, "validation-error")
    assert error.type.endswith("/validation-error")
    assert {fault.pointer for fault in error.errors} == {"/seed", "/surprise"}
    assert "/surprise: unknown field" in str(error)
    for name in ("../api-keys", "", "a/b", "?x", "\x00", "é"):
        with pytest.raises((ProblemError, UnreachableError)) as caught:
            client.report(name)
        assert getattr(caught.value, "status", 404) == 404


def test_no_service_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "k") as client:
        for call in (
            lambda: client.ask("GET", "api-keys"),
            lambda: client.submit(SPEC),
            lambda: list(client.list()),
        ):
            with pytest.raises(UnreachableError, match=f"127.0.0.1:{port} does not answer"):
                call()


@pytest.mark.parametrize("key", ["caf\xe9", "a\nb", "\x00"])
def test_what_is_no_key(key: str) -> None:
    with pytest.raises(NotConfiguredError, match="copy it anew"):
        Client("http://127.0.0.1:1", key)


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://host", "http://", "http://[", "http://host:port"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UnreachableError, match="address"):
        Client(url, "k")


def test_a_password_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(NotConfiguredError, match="take these out") as refused:
        Client("http://ada:sesame@127.0.0.1:1", "k")
    assert "sesame" not in str(refused.value)


def test_the_environment_configures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDAUDIT_URL", raising=False)
    monkeypatch.setenv("FEDAUDIT_API_KEY", "k")
    with pytest.raises(NotConfiguredError, match="FEDAUDIT_URL"):
        Client()
    monkeypatch.setenv("FEDAUDIT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("FEDAUDIT_API_KEY", " ")
    with pytest.raises(NotConfiguredError, match="FEDAUDIT_API_KEY"):
        Client()
    monkeypatch.setenv("FEDAUDIT_API_KEY", "k")
    Client().close()


def test_a_project_is_named_by_the_environment_or_the_call(live, monkeypatch):
    """A key opens one project: a call meant for another does nothing in this one."""
    api, client = live
    key = api.key_with("experiments:read", project="spät")
    monkeypatch.setenv("FEDAUDIT_PROJECT", "spät ")
    with Client(client.url, key) as named, Client(client.url, key, project="acme") as other:
        assert list(named.list()) == []
        with pytest.raises(ProblemError, match="Fedaudit-Project") as refused:
            list(other.list())
    assert refused.value.status == 422
    with pytest.raises(NotConfiguredError, match="FEDAUDIT_PROJECT"):
        Client(client.url, key, project="a\nb")


# -- networks that break ---------------------------------------------------------------------------


def _client(answer: Callable[[httpx.Request], httpx.Response]) -> Client:
    return Client("http://service", "k", http_transport=httpx.MockTransport(answer))


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(502, text="<html>Bad gateway</html>"),
        httpx.Response(200, text="<html>Welcome</html>"),
        httpx.Response(200, json=["a", "list"]),
        httpx.Response(200, content=b"\xff"),
        httpx.Response(404, json={"detail": "Not Found"}),
    ],
)
def test_another_service_is_recognised(response: httpx.Response) -> None:
    with _client(lambda _: response) as client, pytest.raises(UnreachableError, match="fedaudit"):
        client.get("x")


_CALLS: dict[str, Callable[[Client], object]] = {
    "items": lambda client: list(client.items("reports")),
    "list": lambda client: list(client.list()),
    "budgets": lambda client: client.budgets("f"),
    "profiled": lambda client: client.profiled("f"),
    "parquet": lambda client: client.rounds("e"),
    "gates": lambda client: client.require_gates("e"),
    "wait": lambda client: client.wait("e"),
    "ask": lambda client: client.ask("GET", "reports"),
    "rows": lambda client: list(client.rows("e", "rounds")),
}
_OF_ANY_JSON = ("ask", "rows")


@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b'{"welcome": 1}'])
def test_a_foreign_answer_is_named_with_its_address(name: str, body: bytes) -> None:
    if name in _OF_ANY_JSON:
        body = body.replace(b"{", b"<")
    with (
        _client(lambda _: httpx.Response(200, content=body)) as client,
        pytest.raises(UnreachableError, match=r"http://service/v1/.*elcome"),
    ):
        _CALLS[name](client)


class _Stream(httpx.SyncByteStream):
    """Some events, and then a broken connection."""

    def __init__(self, first: int, last: int, *, breaks: bool) -> None:
        self._numbers = range(first, last + 1)
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        for number in self._numbers:
            type_ = "status.changed" if number == 9 else "round.completed"
            yield f'event: {type_}\ndata: {{"status":"failed"}}\nid: {number}\n\n'.encode()
        if self._breaks:
            yield b"event: half"
            raise httpx.ReadError("broken")


def test_watching_goes_on_where_the_connection_broke() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/events"):
            return httpx.Response(200, json={"status": "running"})
        after = int(request.headers["last-event-id"])
        asked.append(after)
        if len(asked) == 2:
            raise httpx.ConnectError("refused", request=request)
        # The third stream ends well, as when the service is stopped.
        stream = _Stream(after + 1, min(after + 3, 9), breaks=len(asked) != 3)
        return httpx.Response(200, stream=stream)

    with _client(answer) as client:
        assert [event.id for event in client.watch("x")] == list(range(1, 10))
        assert asked == [0, 3, 3, 6]
        asked.clear()
        assert [event.id for event in client.watch("x", after=8)] == [9]


def test_watching_what_was_seen_to_its_end_stops() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return httpx.Response(200, stream=_Stream(1, 0, breaks=False))
        return httpx.Response(200, json={"status": "failed"})

    with _client(answer) as client:
        assert list(client.watch("x", after=9)) == []


def test_watching_gives_up_in_the_end() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with _client(answer) as client, pytest.raises(UnreachableError):
        list(client.watch("x", patience_seconds=0))


def test_a_stream_that_is_no_event_stream_is_recognised() -> None:
    with (
        _client(lambda _: httpx.Response(200, content=b"data: <html>\n\n")) as client,
        pytest.raises(UnreachableError, match="events"),
    ):
        list(client.watch("x", patience_seconds=0))


@pytest.mark.parametrize(("status", "asked"), [(429, "7"), (503, "7"), (503, None)])
def test_watching_waits_for_a_place_as_long_as_it_is_asked_to(monkeypatch, status, asked):
    slept: list[float] = []
    monkeypatch.setattr("fedaudit_client.wire.sleep", slept.append)
    refusals = iter(range(2))

    def answer(request: httpx.Request) -> httpx.Response:
        if next(refusals, None) is not None:
            return _refusal(status, retry_after=asked)
        after = int(request.headers["last-event-id"])
        return httpx.Response(200, stream=_Stream(after + 1, 9, breaks=False))

    with _client(answer) as client:
        assert [event.id for event in client.watch("x", after=6)] == [7, 8, 9]
    assert slept == ([7.0, 7.0] if asked else [0.2, 0.4])


def test_watching_does_not_repeat_what_is_refused_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("fedaudit_client.wire.sleep", slept.append)
    with _client(lambda _: _refusal(403, retry_after="5")) as client, pytest.raises(ProblemError):
        list(client.watch("x"))
    assert slept == []


def _refusal(status: int, *, retry_after: str | None) -> httpx.Response:
    return httpx.Response(
        status,
        headers={
            "Content-Type": "application/problem+json",
            **({} if retry_after is None else {"Retry-After": retry_after}),
        },
        json={"type": "/problems/too-many-streams", "detail": "full"},
    )
