"""The calls on sweeps against a real service."""

from typing import Any

import pytest

from fedaudit_client import Client
from fedaudit_client.errors import ConflictError, UnreachableError
from tests.api.service import Api, spec
from tests.client.lossy import Faults
from tests.client.test_calls import lossy_client

NU = "privacy.noise_multiplier"


def asked(name: str = "two noises", **changes: Any) -> dict[str, Any]:
    return {"name": name, "base": spec(), "grid": {NU: [1, 3]}, **changes}


def test_a_lost_answer_makes_no_second_sweep(service: tuple[Api, str]) -> None:
    api, url = service
    faults = Faults(["answer lost", "unavailable"])
    before = api.counts()
    with lossy_client(service, faults) as client, Client(url, api.key) as other:
        sweep = client.submit_sweep(asked())
        assert len({request.headers["idempotency-key"] for request in faults.requests}) == 1
        assert other.cancel_sweep(sweep["id"])["status"] == "cancelled"
        faults.ahead.append("answer lost")
        again = client.retry_sweep(sweep["id"])
    assert {one["status"] for one in again["cells"]} == {"queued"}
    assert api.counts()["sweeps"] == before["sweeps"] + 1
    assert api.counts()["experiments"] == before["experiments"] + 4


def test_cancelling_is_never_repeated(service: tuple[Api, str]) -> None:
    api, url = service
    faults = Faults()
    with lossy_client(service, faults) as client, Client(url, api.key) as other:
        sweep = client.submit_sweep(asked())
        faults.ahead.append("answer lost")
        with pytest.raises(UnreachableError):
            client.cancel_sweep(sweep["id"])
        assert len(faults.requests) == 2
        with pytest.raises(ConflictError, match="every cell of the sweep has ended"):
            other.cancel_sweep(sweep["id"])
