"""Server-sent events, however the network cuts them, and experiments that are watched by them."""

import itertools
import json
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit_client import ProblemError, UnreachableError
from fedaudit_client.experiments import Event, events_in
from tests.client.networks import answered, refusal

pytestmark = pytest.mark.usefixtures("slept")
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


# -- watching --------------------------------------------------------------------------------------


class _Stream(httpx.SyncByteStream):
    """Some events, and then a broken connection."""

    def __init__(self, first: int, last: int, *, breaks: bool = False) -> None:
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

    with answered(answer) as client:
        assert [event.id for event in client.watch("x")] == list(range(1, 10))
        assert asked == [0, 3, 3, 6]
        asked.clear()
        assert [event.id for event in client.watch("x", after=8)] == [9]

    # What was seen to its end.
    def ended(request: httpx.Request) -> httpx.Response:
        events = request.url.path.endswith("/events")
        shown = {"stream": _Stream(1, 0)} if events else {"json": {"status": "failed"}}
        return httpx.Response(200, **shown)

    with answered(ended) as client:
        assert list(client.watch("x", after=9)) == []


@pytest.mark.parametrize(
    ("response", "patience", "error"),
    [
        (None, 0.0, UnreachableError),
        (httpx.Response(200, content=b"data: <html>\n\n"), 60.0, UnreachableError),
        (refusal(403, "5"), 60.0, ProblemError),
    ],
    ids=["away for too long", "no event stream", "refused for good"],
)
def test_watching_gives_up(slept, response, patience, error):
    def answer(request: httpx.Request) -> httpx.Response:
        if response is None:
            raise httpx.ConnectError("refused", request=request)
        return response

    with answered(answer) as client, pytest.raises(error, match=r"service|sends no events|^d"):
        list(client.watch("x", patience_seconds=patience))
    assert slept == []


@pytest.mark.parametrize(("status", "asked"), [(429, "7"), (503, "7"), (503, None)])
def test_watching_waits_for_a_place_as_long_as_it_is_asked_to(slept, status, asked):
    refusals = iter(range(2))

    def answer(request: httpx.Request) -> httpx.Response:
        if next(refusals, None) is not None:
            return refusal(status, asked)
        after = int(request.headers["last-event-id"])
        return httpx.Response(200, stream=_Stream(after + 1, 9))

    with answered(answer) as client:
        assert [event.id for event in client.watch("x", after=6)] == [7, 8, 9]
    assert slept == ([7.0, 7.0] if asked else [0.2, 0.4])
