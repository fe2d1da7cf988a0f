"""`Client` and `AsyncClient` against one real service: the same answers, errors and repetitions."""

import asyncio
import inspect
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import httpx
import pytest

from fedaudit_client import AsyncClient, Client, Retries
from fedaudit_client.errors import ProblemError, ValidationError
from tests.api.service import ROUNDS, SPEC, SUBJECTS, Api, fail, finish, spec
from tests.client.lossy import Faults, LossyAsyncTransport, LossyTransport

# What is done with a client: calls a method by its name, and gives what it gives.
Ask = Callable[..., Any]
QUICK = Retries(first_pause_seconds=0.0)


def blocking(url: str, key: str, faults: Faults | None = None) -> Ask:
    def ask(name: str, *arguments: Any, **named: Any) -> Any:
        transport = None if faults is None else LossyTransport(faults)
        with Client(url, key, retries=QUICK, http_transport=transport) as client:
            found = getattr(client, name)(*arguments, **named)
            return list(found) if inspect.isgenerator(found) else found

    return ask


def awaiting(url: str, key: str, faults: Faults | None = None) -> Ask:
    async def asked(name: str, *arguments: Any, **named: Any) -> Any:
        transport = None if faults is None else LossyAsyncTransport(faults)
        async with AsyncClient(url, key, retries=QUICK, http_transport=transport) as client:
            found = getattr(client, name)(*arguments, **named)
            return [one async for one in found] if inspect.isasyncgen(found) else await found

    return lambda *arguments, **named: asyncio.run(asked(*arguments, **named))


BOTH = pytest.mark.parametrize("made", [blocking, awaiting], ids=["blocking", "awaiting"])


def test_both_have_every_call_with_the_same_parameters() -> None:
    calls = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"]
    assert {"submit", "watch", "list", "privacy_ledger", "close"} <= set(calls)
    for name in calls:
        ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
        assert ours.__doc__


def test_calls_name_their_parameters() -> None:
    with Client("http://127.0.0.1:9", "key") as client:
        for name, taken in (
            ("get", "(experiment_id)"),
            ("download_bundle", "(experiment_id, file: IO[bytes])"),
            ("webhook_deliveries", "(webhook_id, *, limit: int | None = None)"),
            ("reports", "(*, limit: int | None = None, **filters: Any)"),
        ):
            found = str(inspect.signature(getattr(client, name))).replace("typing.", "")
            assert found == taken
        assert next(iter(inspect.signature(client.submit).parameters)) == "spec"
        for wrong in (
            lambda: client.get(federation_id="x"),
            lambda: client.webhooks(status="enabled"),
        ):
            with pytest.raises(TypeError):
                wrong()


def test_both_give_the_same(service: tuple[Api, str]) -> None:
    api, url = service
    one, other = blocking(url, api.key), awaiting(url, api.key)
    submitted = one("submit", SPEC, idempotency_key="same")
    assert other("submit", SPEC, idempotency_key="same")["id"] == submitted["id"]
    id_ = submitted["id"]
    finish(api, id_)
    federation = submitted["federation_id"]
    for name, *arguments in (
        ("get", id_),
        ("wait", id_),
        ("project", SPEC),
        ("list",),
        ("watch", id_),
        ("report", id_),
        ("report_page", id_),
        ("reading", id_, "model-card"),
        ("reports",),
        ("evaluate_gates", id_),
        ("federations",),
        ("profiled", federation),
        ("budgets", federation),
        ("keys",),
        ("signing_keys",),
        ("sign_offs", id_),
        ("rows", id_, "ledger"),
    ):
        found = one(name, *arguments)
        assert found or name in ("signing_keys", "sign_offs")
        assert other(name, *arguments) == found, name


@BOTH
def test_a_submission_is_repeated_and_stored_once(service: tuple[Api, str], made: Any) -> None:
    api, url = service
    faults = Faults(["answer lost", "unavailable"])
    before = api.counts()["experiments"]
    submitted = made(url, api.key, faults)("submit", spec(name="once"))
    assert api.counts()["experiments"] == before + 1
    assert submitted["name"] == "once"
    keys = {request.headers["idempotency-key"] for request in faults.requests}
    assert (len(faults.requests), len(keys)) == (3, 1)
    assert faults.requests[0].headers["user-agent"].startswith("fedaudit-client/")


@BOTH
@pytest.mark.parametrize("call", [("cancel", "x"), ("delete_federation", "x")])
def test_what_does_more_when_repeated_is_not(service, made, call):
    api, url = service
    faults = Faults(["unavailable"])
    with pytest.raises(ProblemError) as caught:
        made(url, api.key, faults)(*call)
    assert (caught.value.status, len(faults.requests)) == (503, 1)


@BOTH
def test_events_go_on_where_the_connection_broke(service, made, monkeypatch):
    monkeypatch.setattr("fedaudit_client.wire._FIRST_WAIT_SECONDS", 0.0)
    api, url = service
    id_ = api.submit(spec(name="watched"))["id"]
    fail(api, id_)
    faults = Faults(["cut", "answer lost"])
    events = made(url, api.key, faults)("watch", id_)
    assert [event.id for event in events] == [1, 2, 3]
    asked = [request.headers["last-event-id"] for request in faults.requests]
    assert asked == ["0", "1", "1"]


@BOTH
def test_a_refusal_keeps_fields_and_request(service: tuple[Api, str], made: Any) -> None:
    api, url = service
    with pytest.raises(ValidationError) as caught:
        made(url, api.key)("submit", spec(seed=-1, surprise=1))
    error = caught.value
    assert {fault.pointer for fault in error.errors} == {"/seed", "/surprise"}
    assert error.request_id
    assert error.slug == "validation-error"


@BOTH
def test_a_ledger_becomes_a_table(service, made, monkeypatch):
    api, url = service
    id_ = api.submit(spec(name="ledger"))["id"]
    finish(api, id_)
    ask = made(url, api.key)
    ledger = ask("privacy_ledger", id_)
    table = ledger.to_arrow()
    assert table.num_rows == ROUNDS * len(SUBJECTS)
    assert list(ledger.to_pandas()["outcome"]) == table["outcome"].to_pylist()
    assert ask("privacy_ledger", id_, round_from=2, round_to=2).to_arrow().num_rows == len(SUBJECTS)
    assert ask("rounds", id_).to_arrow().num_rows == ROUNDS
    assert ask("fairness", id_).to_arrow().num_rows == 6 * ROUNDS
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        ledger.to_arrow()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas pyarrow"):
        ledger.to_pandas()


class _Endless(httpx.SyncByteStream, httpx.AsyncByteStream):
    """An answer without end, and whether somebody still listens."""

    def __init__(self, part: bytes) -> None:
        self._part = part
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return itertools.repeat(self._part)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in iter(self):
            yield chunk

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("call", ["watch", "rows", "export"])
def test_a_stream_that_is_left_early_is_closed(call: str) -> None:
    def transport(stream: _Endless) -> httpx.MockTransport:
        return httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))

    arguments = ("x",) if call == "watch" else ("x", "ledger")
    part = b"data: {}\nid: 1\n\n" if call == "watch" else b'{"round": 1}\n'
    one, other = _Endless(part), _Endless(part)
    with (
        Client("http://service", "k", http_transport=transport(one)) as client,
        closing(getattr(client, call)(*arguments)) as found,
    ):
        assert next(found)
        assert not one.closed
        found.close()
        assert one.closed

    async def left() -> None:
        async with (
            AsyncClient("http://service", "k", http_transport=transport(other)) as client,
            aclosing(getattr(client, call)(*arguments)) as found,
        ):
            await anext(found)
            assert not other.closed
            await found.aclose()
            assert other.closed

    asyncio.run(left())


def test_an_iterator_that_is_left_early_closes_its_connection(service: tuple[Api, str]) -> None:
    api, url = service
    for number in range(3):
        api.submit(spec(name=f"page {number}"))
    with Client(url, api.key) as client:
        first = client.list(limit=1)
        next(first)
        first.close()
        id_ = next(client.list())["id"]
        assert client.get(id_)["id"] == id_
