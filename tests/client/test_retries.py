"""What is repeated, after which pause, and when a refusal is final."""

import httpx
import pytest

from fedaudit_client import Client, ProblemError, Retries, UnreachableError


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


def test_a_download_begins_anew_and_a_broken_one_is_told(slept: list[float]) -> None:
    class Broken(httpx.SyncByteStream):
        def __iter__(self):  # type: ignore[no-untyped-def]
            yield b"half"
            raise httpx.ReadError("broken")

    answers = [_refused(503), httpx.Response(200, stream=Broken()), FINE]
    with _client(answers) as client, pytest.raises(UnreachableError, match="broken"):
        b"".join(client.export("x", "ledger"))
    assert slept == [0.2]
    assert answers == [FINE]
