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
from models.repositories import ProjectUsageRepository
from tests.api.budgets.test_epsilon_budgets import by_record
from tests.api.service import SPEC, Api, body_of, running_api, served, settings_for, spec
from tests.api.uploads import CONTENT, parts
from tests.models.rows import at_once
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
        assert body_of(refused, 429)["type"].endswith("rate-limited")
        assert int(refused.headers["Retry-After"]) > 0
        assert sorted(one.result().status_code for one in held) == [200, 200, 200, 429]


LARGE = spec(model={"kind": "mlp", "hidden": [1000, 1000]})


@pytest.mark.parametrize(
    ("setting", "value", "asked", "where"),
    [
        ("max_model_bytes", 4_000_000, LARGE, "/training/hypotheses"),
        ("max_planned_records", 119, by_record(), "/privacy/mechanism"),
    ],
)
def test_what_is_too_much_is_refused_before_it_is_planned(
    sqlite_url: str, tmp_path: Path, setting: str, value: int, asked: dict[str, Any], where: str
) -> None:
    for bound, status in ((value, 422), (20 * value, 200)):
        with running_api(settings_for(sqlite_url, tmp_path, **{setting: bound})) as api:
            answer = body_of(api.check(asked), status)
        if status == 422:
            [fault] = answer["errors"]
            assert fault["pointer"] == where
            assert f"FEDAUDIT_{setting.upper()}" in fault["message"]
            assert str(bound) in fault["message"]


# -- quotas of a project: no caller slips past one, and a refusal names it ------------------------


def test_experiments_sent_at_once_do_not_pass_the_quota(database_url: str, tmp_path: Path) -> None:
    with running_api(settings_for(database_url, tmp_path, quota_running=2)) as api:

        def submit(number: int) -> Any:
            # A project loads one spec at a time, and few wait: that is another 429.
            answer = api.post("/v1/experiments", json=SPEC)
            is_of_quota = answer.status_code == 202 or "quota" in answer.json()
            return answer if is_of_quota else submit(number)

        found = at_once(submit, 5)
        accepted = [one.json()["id"] for one in found if one.status_code == 202]
        refused = [one for one in found if one.status_code == 429]
        assert (len(accepted), len(refused)) == (2, 3)
        problem = refused[0].json()
        assert problem["type"].endswith("/rate-limited")
        assert (problem["quota"], problem["limit"]) == ("running", 2)
        assert int(refused[0].headers["retry-after"]) > 0
        # What was refused left nothing: no deed, no reservation.
        deeds = api.get("/v1/audit-log?action=experiment.submitted").json()["items"]
        assert sorted(one["subject"] for one in deeds) == sorted(accepted)
        assert api.post("/v1/experiments", json=SPEC, key=_other(api)).status_code == 202
        api.post(f"/v1/experiments/{accepted[0]}/cancel")
        assert api.post("/v1/experiments", json=SPEC).status_code == 202


def test_a_file_beyond_the_quota_is_not_kept(sqlite_url: str, tmp_path: Path) -> None:
    with running_api(
        settings_for(sqlite_url, tmp_path, quota_stored_bytes=len(CONTENT) + 9)
    ) as api:
        assert api.post("/v1/federations", files=parts()).status_code == 202
        # The same content again needs no room.
        assert api.post("/v1/federations", files=parts()).status_code == 202
        refused = api.post("/v1/federations", files=parts(CONTENT + b"c1,a,1,11\n"))
        assert body_of(refused, 429)["quota"] == "stored-bytes"
        assert len(api.get("/v1/federations").json()["items"]) == 1
        kept = [path for path in (tmp_path / "data" / "files").rglob("*") if path.is_file()]
        assert len(kept) == 1


def test_requests_are_counted_over_the_projects_keys(database_url, tmp_path, monkeypatch):
    with running_api(settings_for(database_url, tmp_path, quota_requests_per_minute=2)) as api:
        monkeypatch.setattr("api.shared.security.time.time", lambda: 1_800_000_010.0)
        second = api.key_with("reports:read")
        first = api.get("/v1/experiments")
        assert first.headers["ratelimit-policy"] == '"requests";q=2;w=60'
        assert first.headers["ratelimit"] == '"requests";r=1;t=50'
        assert api.get("/v1/reports", key=second).status_code == 200
        refused = api.get("/v1/experiments")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "50")
        assert refused.headers["ratelimit"] == '"requests";r=0;t=50'
        assert refused.json()["quota"] == "requests-per-minute"
        assert api.get("/v1/experiments", key=_other(api)).status_code == 200
        # Keys that do not exist are not counted on anybody.
        assert api.get("/v1/experiments", key="fa_made-up").status_code == 401
        monkeypatch.setattr("api.shared.security.time.time", lambda: 1_800_000_300.0)
        assert api.get("/v1/experiments").status_code == 200
        with api.database.read() as session:
            assert ProjectUsageRepository(session, api.project_id).running() == 0


def _other(api: Api) -> str:
    """A key of another project, whose use is its own."""
    return api.key_with("experiments:read", "experiments:write", project="elsewhere")
