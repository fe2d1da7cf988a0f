"""The calls on sweeps, by both clients and against a real service."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedaudit_client import Client, Retries
from fedaudit_client.errors import ConflictError, ProblemError, UnreachableError
from tests.api.service import Api, running_api, served, settings_for, spec
from tests.client.lossy import Faults, LossyTransport
from tests.client.test_both_clients import BOTH, QUICK, blocking

NU = "privacy.noise_multiplier"


@pytest.fixture(scope="module")
def service(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, str]]:
    folder = tmp_path_factory.mktemp("service")
    (folder / "fedaudit.db").write_bytes(sqlite_template.read_bytes())
    settings = settings_for(f"sqlite:///{folder / 'fedaudit.db'}", folder)
    with running_api(settings) as api, served(api) as url:
        yield api, url


def asked(name: str = "two noises", **changes: Any) -> dict[str, Any]:
    return {"name": name, "base": spec(), "grid": {NU: [1, 3]}, **changes}


@BOTH
def test_a_lost_answer_makes_no_second_sweep(service: tuple[Api, str], made: Any) -> None:
    api, url = service
    faults = Faults(["answer lost", "unavailable"])
    before = api.counts()
    sweep = made(url, api.key, faults)("submit_sweep", asked())
    cancelled = made(url, api.key)("cancel_sweep", sweep["id"])
    assert cancelled["status"] == "cancelled"
    again = made(url, api.key, Faults(["answer lost"]))("retry_sweep", sweep["id"])
    assert {one["status"] for one in again["cells"]} == {"queued"}
    assert api.counts()["sweeps"] == before["sweeps"] + 1
    assert api.counts()["experiments"] == before["experiments"] + 4
    assert len({request.headers["idempotency-key"] for request in faults.requests}) == 1
    mine = {"idempotency_key": f"mine {made.__name__}"}
    first, second = (made(url, api.key)("submit_sweep", asked(), **mine) for _ in range(2))
    assert first["id"] == second["id"]


def test_cancelling_is_never_repeated(service: tuple[Api, str]) -> None:
    api, url = service
    sweep = blocking(url, api.key)("submit_sweep", asked())
    faults = Faults(["answer lost"])
    with pytest.raises(UnreachableError):
        blocking(url, api.key, faults)("cancel_sweep", sweep["id"])
    assert len(faults.requests) == 1
    with pytest.raises(ConflictError, match="every cell of the sweep has ended"):
        blocking(url, api.key)("cancel_sweep", sweep["id"])


def test_waiting_outlasts_a_service_that_is_away(
    service: tuple[Api, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedaudit_client.wire._FIRST_WAIT_SECONDS", 0.0)
    api, url = service
    ask = blocking(url, api.key)
    sweep = ask("submit_sweep", asked())
    ask("cancel_sweep", sweep["id"])

    def impatient() -> Client:
        transport = LossyTransport(Faults(["unavailable", "answer lost"] * 2))
        return Client(url, api.key, retries=Retries(attempts=1), http_transport=transport)

    with impatient() as client:
        assert client.wait_sweep(sweep["id"])["status"] == "cancelled"
    with impatient() as client, pytest.raises(ProblemError):
        client.wait_sweep(sweep["id"], patience_seconds=-1.0)
    with Client(url, api.key, retries=QUICK) as client:
        watched = client.watch_sweep(sweep["id"])
        assert inspect.isgenerator(watched)
        assert [one["status"] for one in watched] == ["cancelled"]
