"""What is repeated, after which pause, and when a refusal is final."""

import itertools
import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit_client import Client, ProblemError, Retries, UnreachableError
from fedaudit_client.experiments import Event, events_in


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("fedaudit_client.wire.sleep", found.append)
    return found


def _client(answers: list[httpx.Response | Exception], **options: int) -> Client:
    def answer(_request: httpx.Request) -> httpx.Response:
        one = answers.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    transport = httpx.MockTransport(answer)
    return Client("http://service", "k", retries=Retries(**options), http_transport=transport)


def _refused(status: int, retry_after: str | None = None) -> httpx.Response:
    headers = {"Content-Type": "application/problem+json"}
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return httpx.Response(status, headers=headers, json={"type": "/problems/x", "detail": "d"})


FINE = httpx.Response(200, json={"id": "x"})


def test_pauses_double_and_retry_after_goes_before_them(slept: list[float]) -> None:
    away = httpx.ConnectError("refused")
    with _client([away, _refused(503), _refused(429, "7"), FINE], attempts=4) as client:
        assert client.get("x")["id"] == "x"
    assert slept == [0.2, 0.4, 7.0]


@pytest.mark.parametrize("attempts", [1, 2])
def test_the_last_error_is_raised(slept: list[float], attempts: int) -> None:
    answers = [httpx.Response(502), _refused(503), FINE]
    with (
        _client(answers, attempts=attempts) as client,
        pytest.raises(UnreachableError if attempts == 1 else ProblemError),
    ):
        client.get("x")
    assert len(slept) == attempts - 1


@pytest.mark.parametrize(
    "final", [_refused(404), _refused(500), _refused(503, "11"), httpx.Response(200, text="<html>")]
)
def test_what_will_not_pass_soon_is_raised_at_once(slept, final):
    with _client([final]) as client, pytest.raises((ProblemError, UnreachableError)):
        client.get("x")
    assert slept == []


def test_a_download_begins_anew_and_a_broken_one_is_reported(slept: list[float]) -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield b"half"
            raise httpx.ReadError("broken")

    answers = [_refused(503), httpx.Response(200, stream=Broken()), FINE]
    with _client(answers) as client, pytest.raises(UnreachableError, match="broken"):
        b"".join(client.export("x", "ledger"))
    assert slept == [0.2]
    assert answers == [FINE]


# -- reading server-sent events, however the network cuts them ------------------------------------


STREAM = (
    b": ping\n\n"
    b'event: status.changed\ndata: {"status":"queued"}\nid: 1\n\n'
    b'event: round.completed\r\ndata: {"round":1}\r\nid: 2\r\n\r\n'
    b"retry: 100\n\n"
    b'data: {"a":\ndata: 1}\nid: 3\n\n'
    b'event: status.changed\ndata: {"status":"succeeded"}\nid: 4\n\n'
    b'event: cut.off\ndata: {"status"'
)
EVENTS = [
    Event(1, "status.changed", {"status": "queued"}),
    Event(2, "round.completed", {"round": 1}),
    Event(3, "message", {"a": 1}),
    Event(4, "status.changed", {"status": "succeeded"}),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_events_do_not_depend_on_where_the_stream_is_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[begin:end] for begin, end in itertools.pairwise(ends)]
    assert list(events_in(chunks)) == EVENTS


def test_only_an_ended_status_is_the_last() -> None:
    assert [event.is_last for event in EVENTS] == [False, False, False, True]
    assert not Event(5, "gate.evaluated", {"status": "failed"}).is_last


@given(st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False) | st.none()))
def test_data_comes_through_whatever_it_holds(data: dict) -> None:
    # Unescaped, so that JSON carries line and paragraph separators as they are.
    text = json.dumps(data, ensure_ascii=False)
    try:
        stream = f"data: {text}\nid: 7\n\n".encode()
    except UnicodeEncodeError:
        return
    assert list(events_in([stream])) == [Event(7, "message", data)]


@pytest.mark.parametrize("text", ["data: 1\n\n", "data: {\n\n", "data: {}\nid: x\n\n"])
def test_what_is_no_event_of_the_service_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON object|Expecting|base 10"):
        list(events_in([text.encode()]))
