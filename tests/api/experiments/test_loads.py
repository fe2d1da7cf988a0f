"""Loading data: apart from what else is served, a project at a time, and bounded."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from api.shared.federation_data import FederationCache
from tests.api.service import Api, body_of, running_api, served, settings_for, spec
from tests.spec.documents import BY_RECORD
from tests.waiting import wait_until

SLOW = "slow"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Loads of specs named SLOW, held until they are let go."""
    loads, load = SimpleNamespace(go_on=threading.Event(), begun=0), FederationCache.load

    def held(cache: FederationCache, asked: Any, **options: Any) -> Any:
        if asked.name == SLOW:
            loads.begun += 1
            assert loads.go_on.wait(60)
        return load(cache, asked, **options)

    monkeypatch.setattr(FederationCache, "load", held)
    yield loads
    loads.go_on.set()


def validate(url: str, key: str, **changes: Any) -> httpx.Response:
    return httpx.post(
        f"{url}/v1/experiments?validate_only=true",
        json=spec(**changes),
        headers={"Authorization": f"Bearer {key}"},
        timeout=90,
        trust_env=False,
    )


def test_slow_loads_of_a_project_keep_no_other_waiting(api: Api, slow: SimpleNamespace) -> None:
    theirs = api.key_with("experiments:read", "experiments:write", project="another")
    headers = {"Authorization": f"Bearer {theirs}"}
    with served(api) as url, ThreadPoolExecutor(50) as callers:
        held = [callers.submit(validate, url, api.key, name=SLOW) for _ in range(45)]
        try:
            wait_until(lambda: slow.begun == 1)
            for path in ("/v1/experiments", "/health/ready"):
                answer = httpx.get(url + path, headers=headers, timeout=30, trust_env=False)
                assert answer.status_code == 200
            assert validate(url, theirs, name="quick").status_code == 200
            # A project has one thread: the others are free, and no second load has begun.
            assert slow.begun == 1
            assert not any(one.done() for one in held)
        finally:
            slow.go_on.set()
        assert {one.result().status_code for one in held} == {200}


def test_a_project_cannot_queue_without_end(api, slow, monkeypatch):
    monkeypatch.setattr("api.shared.concurrency._MAX_WAITING", 2)
    with served(api) as url, ThreadPoolExecutor(5) as callers:
        held = [callers.submit(validate, url, api.key, name=SLOW) for _ in range(4)]
        try:
            wait_until(lambda: any(one.done() for one in held))
            [refused] = [one.result() for one in held if one.done()]
        finally:
            slow.go_on.set()
        assert refused.status_code == 429
        assert refused.json()["type"].endswith("rate-limited")
        assert int(refused.headers["Retry-After"]) > 0
        assert sorted(one.result().status_code for one in held) == [200, 200, 200, 429]


RECORDS = {
    "training": {
        "loss": "mse",
        "hypotheses": 1,
        "cohort": {"sampling": "poisson", "rate": 0.5},
        "local": {"steps": 2},
    },
    "privacy": {**BY_RECORD, "epsilon_min": 0.5, "epsilon_max": 2},
}
LARGE = {"model": {"kind": "mlp", "hidden": [1000, 1000]}}


@pytest.mark.parametrize(
    ("setting", "value", "changes", "where"),
    [
        ("max_model_bytes", 4_000_000, LARGE, "/training/hypotheses"),
        ("max_planned_records", 119, RECORDS, "/privacy/mechanism"),
    ],
)
def test_what_is_too_much_is_refused_before_it_is_planned(
    sqlite_url: str, tmp_path: Path, setting: str, value: int, changes: dict[str, Any], where: str
) -> None:
    asked = {**spec(), **changes, "gates": []}
    asked["training"] = {"rounds": 2, **spec()["training"], **asked["training"]}
    for bound, status in ((value, 422), (20 * value, 200)):
        with running_api(settings_for(sqlite_url, tmp_path, **{setting: bound})) as api:
            answer = body_of(api.check(asked), status)
        if status == 422:
            [fault] = answer["errors"]
            assert fault["pointer"] == where
            assert f"FEDAUDIT_{setting.upper()}" in fault["message"]
            assert str(bound) in fault["message"]
