"""Submissions that come at once: queued together, and each answered as if it had come alone."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx

from models.repositories import Budgets
from tests.api.experiments.test_statements import counted
from tests.api.service import SPEC, Api, spec
from tests.waiting import wait_until

WORST_CASE = 4.0
"""Of SPEC: a release in each of 4 rounds, at n / nu = 3 / 3."""


@contextmanager
def held_up(api: Api, federation_id: str) -> Iterator[str]:
    """Nothing is queued on a federation meanwhile; gives its fingerprint."""
    with api.database.write() as session:
        held = Budgets(session, api.project_id).hold(federation_id)
        yield held.fingerprint


def at_once(
    api: Api, federation_id: str, requests: Sequence[dict[str, Any]]
) -> list[httpx.Response]:
    """The answers to requests, of which the first is under way while all others wait."""
    groups = api.client.app.state.resources.groups  # type: ignore[attr-defined]

    def post(request: dict[str, Any]) -> Any:
        return api.post("/v1/experiments", **{"json": SPEC, **request})

    with ThreadPoolExecutor(len(requests)) as pool:
        sent: list[Future[Any]] = []
        with held_up(api, federation_id) as fingerprint:
            same = ("submit", api.project_id, fingerprint)
            sent.append(pool.submit(post, requests[0]))
            wait_until(lambda: same in groups.at_work and not groups.waiting(same))
            sent += [pool.submit(post, one) for one in requests[1:]]
            wait_until(lambda: groups.waiting(same) == len(requests) - 1)
        return [one.result() for one in sent]


def test_what_waits_goes_into_one_transaction(api_on_both: Api) -> None:
    api = api_on_both
    federation_id = api.submit()["federation_id"]
    other_key = api.key_with("experiments:write", "federations:read")
    requests: list[dict[str, Any]] = [
        {"json": spec(tags=[f"tag {place}"], name=f"number {place}")} for place in range(6)
    ]
    requests[3]["key"] = other_key
    with counted(api) as statements:
        answers = at_once(api, federation_id, requests)
    assert sum(one.startswith("UPDATE audit_heads") for one in statements) == 2
    assert [one.status_code for one in answers] == [202] * 6
    for place, answer in enumerate(answers):
        body = api.get(f"/v1/experiments/{answer.json()['id']}").json()
        assert (body["name"], body["tags"]) == (f"number {place}", [f"tag {place}"])
        assert body["created_by"] == answer.json()["created_by"]
    creators = {one.json()["created_by"]["key_id"] for one in answers}
    assert len(creators) == 2
    assert answers[3].json()["created_by"] != answers[2].json()["created_by"]
    counts = api.counts()
    assert (counts["units"], counts["outbox"], counts["audit_entries"]) == (7, 7, 7)


def test_one_that_is_refused_takes_nobody_along(api_on_both: Api) -> None:
    api = api_on_both
    federation_id = api.submit()["federation_id"]
    total = {"book": "simulation", "figure": "leakage", "total": 4 * WORST_CASE}
    path = f"/v1/federations/{federation_id}/budget"
    assert api.request("PUT", path, json=total).status_code == 200
    answers = at_once(api, federation_id, [{}] * 6)
    assert sorted(one.status_code for one in answers) == [202, 202, 202, 409, 409, 409]
    problems = [one.json() for one in answers if one.status_code == 409]
    assert {one["detail"] for one in problems} == {
        api.post("/v1/experiments", json=SPEC).json()["detail"]
    }
    reserved = [one for one in api.get(path).json()["items"] if one["figure"] == "leakage"]
    assert reserved[0]["reserved"] == 4 * WORST_CASE
    counts = api.counts()
    assert (counts["experiments"], counts["units"], counts["outbox"]) == (4, 4, 4)


def test_repetitions_that_wait_together_are_one_experiment(api_on_both: Api) -> None:
    api = api_on_both
    federation_id = api.submit()["federation_id"]
    keys = ["first", "same", "same", "other", "same"]
    answers = at_once(api, federation_id, [{"headers": {"Idempotency-Key": key}} for key in keys])
    assert [one.status_code for one in answers] == [202] * 5
    found = {}
    for key, answer in zip(keys, answers, strict=True):
        found.setdefault(key, set()).add(answer.json()["id"])
    assert all(len(ids) == 1 for ids in found.values())
    assert api.counts()["experiments"] == 1 + 3
