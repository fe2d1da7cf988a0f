"""The calls on sweeps, by both clients and against a real service."""

from typing import Any

import pytest

from fedaudit_client.errors import ConflictError, UnreachableError
from tests.api.service import Api, spec
from tests.client.lossy import Faults
from tests.client.test_both_clients import BOTH, blocking

NU = "privacy.noise_multiplier"


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
