"""Calls against a real service: their parameters, what is repeated, and what is left early."""

import io
import itertools
from collections.abc import Iterator
from contextlib import closing

import httpx
import pyarrow as pa
import pytest
from pyarrow import parquet

from fedaudit_client import Client, Retries
from fedaudit_client.errors import ConflictError, ProblemError, UnreachableError
from fedaudit_client.reports import ExportedTable
from tests.api.service import ROUNDS, SUBJECTS, Api, finish, spec
from tests.client.lossy import Faults, LossyTransport

QUICK = Retries(first_pause_seconds=0.0)


def lossy_client(service: tuple[Api, str], faults: Faults) -> Client:
    """A client of the service over a network with faults."""
    api, url = service
    return Client(url, api.key, retries=QUICK, http_transport=LossyTransport(faults))


SWEEP = {"name": "once", "base": spec(), "grid": {"privacy.noise_multiplier": [1, 3]}}


@pytest.mark.parametrize(
    ("call", "body", "stored"), [("submit", spec(name="once"), 1), ("submit_sweep", SWEEP, 2)]
)
def test_a_submission_is_repeated_and_stored_once(service, call, body, stored):
    api, _ = service
    faults = Faults(["answer lost", "unavailable"])
    before = api.counts()["experiments"]
    with lossy_client(service, faults) as client:
        submitted = getattr(client, call)(body)
    assert api.counts()["experiments"] == before + stored
    assert submitted["name"] == "once"
    keys = {request.headers["idempotency-key"] for request in faults.requests}
    assert (len(faults.requests), len(keys)) == (3, 1)
    assert faults.requests[0].headers["user-agent"].startswith("fedaudit-client/")


@pytest.mark.parametrize("call", [("cancel", "x"), ("delete_federation", "x")])
def test_what_does_more_when_repeated_is_not(service, call):
    faults = Faults(["unavailable"])
    name, id_ = call
    with lossy_client(service, faults) as client, pytest.raises(ProblemError) as caught:
        getattr(client, name)(id_)
    assert (caught.value.status, len(faults.requests)) == (503, 1)


def test_a_ledger_becomes_a_table(service):
    api, url = service
    id_ = api.submit(spec(name="ledger"))["id"]
    finish(api, id_)
    with Client(url, api.key) as client:
        ledger = client.privacy_ledger(id_)
        some = client.privacy_ledger(id_, round_from=2, round_to=2)
        assert client.rounds(id_).to_arrow().num_rows == ROUNDS
        assert client.fairness(id_).to_arrow().num_rows == 6 * ROUNDS
    assert some.to_arrow().num_rows == len(SUBJECTS)
    table = ledger.to_arrow()
    assert table.num_rows == ROUNDS * len(SUBJECTS)
    assert list(ledger.to_pandas()["outcome"]) == table["outcome"].to_pylist()
    # The epsilon of metric privacy is another figure, and only in the files of the same name.
    stated = parquet.read_table(io.BytesIO(ledger.parquet))["epsilon"]
    assert table["epsilon"].null_count == table.num_rows
    assert table["metric_epsilon"] == stated
    assert stated.null_count < table.num_rows
    both = pa.table({"epsilon": [1.0, 2.0], "delta": [1e-5, None]})
    parquet.write_table(both, file := io.BytesIO())
    assert ExportedTable(file.getvalue()).to_arrow().to_pydict() == {
        "epsilon": [1.0, None],
        "metric_epsilon": [None, 2.0],
        "delta": [1e-5, None],
    }


class _Endless(httpx.SyncByteStream):
    """An answer without end, and whether a client still listens."""

    def __init__(self, part: bytes) -> None:
        self._part = part
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return itertools.repeat(self._part)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("call", ["watch", "rows", "export"])
def test_a_stream_that_is_left_early_is_closed(call: str) -> None:
    arguments = ("x",) if call == "watch" else ("x", "ledger")
    part = b"data: {}\nid: 1\n\n" if call == "watch" else b'{"round": 1}\n'
    stream = _Endless(part)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))
    with (
        Client("http://service", "k", http_transport=transport) as client,
        closing(getattr(client, call)(*arguments)) as found,
    ):
        assert next(found)
        assert not stream.closed
        found.close()
        assert stream.closed


def test_cancelling_is_never_repeated(service: tuple[Api, str]) -> None:
    api, url = service
    faults = Faults()
    with lossy_client(service, faults) as client, Client(url, api.key) as other:
        sweep = client.submit_sweep(SWEEP)
        path = f"sweeps/{sweep['id']}/cancel"
        faults.ahead.append("answer lost")
        with pytest.raises(UnreachableError):
            client.ask("POST", path)
        assert len(faults.requests) == 2
        with pytest.raises(ConflictError, match="every cell of the sweep has ended"):
            other.ask("POST", path)
