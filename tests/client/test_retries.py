"""What is repeated, after which pause, when a refusal is final, and what is left early."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing

import httpx
import pytest

from fedaudit_client import Client, ProblemError, UnreachableError
from tests.api.service import Api, spec
from tests.client.networks import Lossy, answered, refusal

FINE = httpx.Response(200, json={"id": "x"})
SWEEP = {"name": "once", "base": spec(), "grid": {"privacy.noise_multiplier": [1, 3]}}


def _in_turn(
    answers: list[httpx.Response | Exception],
) -> Callable[[httpx.Request], httpx.Response]:
    def answer(_request: httpx.Request) -> httpx.Response:
        one = answers.pop(0)
        if isinstance(one, Exception):
            raise one
        return one

    return answer


def test_pauses_double_and_retry_after_goes_before_them(slept: list[float]) -> None:
    away = httpx.ConnectError("refused")
    answers = _in_turn([away, refusal(503), refusal(429, "7"), FINE])
    with answered(answers, attempts=4) as client:
        assert client.get("x")["id"] == "x"
    assert slept == [0.2, 0.4, 7.0]


@pytest.mark.parametrize(("attempts", "error"), [(1, UnreachableError), (2, ProblemError)])
def test_the_last_error_is_raised(slept, attempts, error):
    answers = _in_turn([httpx.Response(502), refusal(503), FINE])
    with answered(answers, attempts=attempts) as client, pytest.raises(error):
        client.get("x")
    assert len(slept) == attempts - 1


@pytest.mark.parametrize(
    "final", [refusal(404), refusal(500), refusal(503, "11"), httpx.Response(200, text="<html>")]
)
def test_what_will_not_pass_soon_is_raised_at_once(slept, final):
    with answered(_in_turn([final])) as client, pytest.raises((ProblemError, UnreachableError)):
        client.get("x")
    assert slept == []


@pytest.mark.parametrize(
    ("call", "body", "stored"), [("submit", spec(name="once"), 1), ("submit_sweep", SWEEP, 2)]
)
def test_a_submission_is_repeated_and_stored_once(service, call, body, stored):
    (api, url), network = service, Lossy("answer lost", "unavailable")
    before = api.counts()["experiments"]
    with answered(network, url, api.key, first_pause_seconds=0.0) as client:
        assert getattr(client, call)(body)["name"] == "once"
    assert api.counts()["experiments"] == before + stored
    keys = {request.headers["idempotency-key"] for request in network.requests}
    assert (len(network.requests), len(keys)) == (3, 1)
    assert network.requests[0].headers["user-agent"].startswith("fedaudit-client/")


@pytest.mark.parametrize("fault", ["unavailable", "answer lost"])
@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.cancel("x"),
        lambda client: client.delete_federation("x"),
        lambda client: client.ask("POST", "sweeps/x/cancel"),
    ],
    ids=["cancel", "delete", "ask"],
)
def test_what_does_more_when_repeated_is_not(
    service: tuple[Api, str], slept: list[float], call: Callable[[Client], object], fault: str
) -> None:
    (api, url), network = service, Lossy(fault)
    error = ProblemError if fault == "unavailable" else UnreachableError
    with answered(network, url, api.key) as client, pytest.raises(error):
        call(client)
    assert (len(network.requests), slept) == (1, [])


def test_a_download_begins_anew_and_a_broken_one_is_reported(slept: list[float]) -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield b"half"
            raise httpx.ReadError("broken")

    answers = [refusal(503), httpx.Response(200, stream=Broken()), FINE]
    with answered(_in_turn(answers)) as client, pytest.raises(UnreachableError, match="broken"):
        b"".join(client.export("x", "ledger"))
    assert slept == [0.2]
    assert answers == [FINE]


class _Endless(httpx.SyncByteStream):
    """An answer without end, and whether a client still listens."""

    def __init__(self, part: bytes) -> None:
        self._part = part
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return itertools.repeat(self._part)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("call", "arguments", "part"),
    [
        ("watch", ("x",), b"data: {}\nid: 1\n\n"),
        ("rows", ("x", "ledger"), b'{"round": 1}\n'),
        ("export", ("x", "ledger"), b"any"),
    ],
)
def test_a_stream_that_is_left_early_is_closed(call, arguments, part):
    stream = _Endless(part)
    with (
        answered(lambda _: httpx.Response(200, stream=stream)) as client,
        closing(getattr(client, call)(*arguments)) as found,
    ):
        assert next(found)
        assert not stream.closed
        found.close()
        assert stream.closed
