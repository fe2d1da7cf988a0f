"""Reading server-sent events, however the network cuts them."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit_client.experiments import Event, EventReader

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
    reader = EventReader()
    assert [event for chunk in chunks for event in reader.read(chunk)] == EVENTS


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
    assert EventReader().read(stream) == [Event(7, "message", data)]


@pytest.mark.parametrize("text", ["data: 1\n\n", "data: {\n\n", "data: {}\nid: x\n\n"])
def test_what_is_no_event_of_the_service_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON object|Expecting|base 10"):
        EventReader().read(text.encode())
