"""Finding, ending and repeating experiments."""

import hashlib
from datetime import datetime, timedelta
from urllib.parse import urlencode

import pytest
import rfc8785
from sqlalchemy import update

from models.tables.experiments import Experiment
from tests.api.service import Api, body_of, fail, finish, spec


def _ids(api: Api, query: str = "") -> list[str]:
    return [item["id"] for item in body_of(api.get(f"/v1/experiments?{query}"))["items"]]


@pytest.fixture
def three(api_on_both: Api) -> list[str]:
    """Ids of a finished experiment, a failed one and a queued one, oldest first."""
    api = api_on_both
    values = [
        spec(name="b"),
        spec(name="a", tags=["other"]),
        spec(name="c", privacy={"mechanism": "laplace-l2", "noise_multiplier": 1, "radius": 2}),
    ]
    ids = [api.submit(value)["id"] for value in values]
    finish(api, ids[0], equalized_odds_difference=0.1, validation_loss=0.5)
    fail(api, ids[1])
    return ids


FOUND = {
    "status=failed": [1],
    "status=queued": [2],
    "name=b": [0],
    "name=nobody": [],
    "tag=groups": [2, 0],
    "tag=other": [1],
    "mechanism=laplace-l2": [2, 1, 0],
    "mechanism=none": [],
    "leakage_max[lte]=3": [0],
    "leakage_max[lte]=2.9": [],
    "leakage_max[gte]=3&equalized_odds_difference[lte]=0.1": [0],
    "equalized_odds_difference[gte]=0.2": [],
    "epsilon_max[lte]=1&delta=0.001": [],
    "federation_id=01890000-0000-7000-8000-000000000000": [],
    "sort=name": [1, 0, 2],
    "sort=-name": [2, 0, 1],
    "sort=created_at": [0, 1, 2],
    "sort=leakage_max": [0, 1, 2],
    "sort=-finished_at": [1, 0, 2],
    "status=failed&tag=groups": [],
}
"""Queries, and which of the three they find, in order."""


def test_filters_and_sorts(api_on_both: Api, three: list[str]) -> None:
    found = {query: [three.index(id_) for id_ in _ids(api_on_both, query)] for query in FOUND}
    assert found == FOUND
    done, failed, _ = (api_on_both.get(f"/v1/experiments/{id_}").json() for id_ in three)
    assert (done["figures"]["leakage_max"], done["gate_outcome"]) == (3.0, "pass")
    assert done["figures"]["reasons"]["epsilon_max"].startswith("metric privacy is counted as")
    ended = [failed[name] for name in ("status", "status_reason", "status_detail")]
    assert ended == ["failed", "worker-lost", "gone"]
    assert done["started_at"] <= done["finished_at"]
    middle = datetime.fromisoformat(failed["created_at"])
    minute = timedelta(minutes=1)
    # A time without a zone is taken as UTC.
    naive = (middle - minute).replace(tzinfo=None).isoformat()
    for query, found in (
        ({"created_after": middle.isoformat(), "created_before": middle.isoformat()}, [three[1]]),
        ({"created_after": (middle + minute).isoformat()}, []),
        ({"created_before": naive}, []),
        ({"created_after": naive}, three[::-1]),
    ):
        assert _ids(api_on_both, urlencode(query)) == found


def test_pages_join_without_gaps(api_on_both: Api, three: list[str]) -> None:
    for sort in ("created_at", "-created_at", "name", "-leakage_max", "started_at", "-finished_at"):
        whole, cursor, joined = _ids(api_on_both, f"sort={sort}"), None, []
        for _ in range(3):
            query = {"sort": sort, "limit": 1, **({"cursor": cursor} if cursor else {})}
            page = api_on_both.get("/v1/experiments", params=query).json()
            joined += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
        assert cursor is None, sort
        assert joined == whole, sort
        assert sorted(joined) == three, sort
    # A cursor fits its own sort only.
    cursor = api_on_both.get("/v1/experiments?limit=1&sort=name").json()["next_cursor"]
    for sort in ("-name", "created_at", "leakage_max"):
        response = api_on_both.get(f"/v1/experiments?limit=1&sort={sort}&cursor={cursor}")
        assert body_of(response, 422)["errors"][0]["pointer"] == "/query/cursor"


# -- cancel and retry ------------------------------------------------------------------------------


def test_a_queued_experiment_is_cancelled_at_once(api: Api) -> None:
    body = api.submit()
    for _ in range(2):
        cancelled = body_of(api.post(f"/v1/experiments/{body['id']}/cancel"))
        ended = (cancelled["status"], cancelled["status_reason"])
        assert ended == ("cancelled", "cancelled-by-caller")
    [budget] = api.budgets(body["federation_id"])
    assert (budget["reserved"], budget["spent"]) == (0, 0)


def test_a_failed_experiment_is_tried_again_as_a_new_one_and_once(api: Api) -> None:
    first = api.submit()
    fail(api, first["id"])
    path, key = f"/v1/experiments/{first['id']}/retry", {"Idempotency-Key": "once"}
    response, again = (api.post(path, headers=key) for _ in range(2))
    second = body_of(response, 202)
    assert again.json()["id"] == second["id"] != first["id"]
    assert response.headers["location"].endswith(second["id"])
    assert (second["retry_of"], second["status"]) == (first["id"], "queued")
    for same in ("spec", "spec_hash", "tags", "federation_id", "name"):
        assert second[same] == first[same]
    assert api.counts()["experiments"] == 2


def test_only_what_runs_is_cancelled_and_only_what_failed_is_tried_again(api: Api) -> None:
    queued, done, failed = (api.submit()["id"] for _ in range(3))
    finish(api, done)
    fail(api, failed)
    with api.unchanged():
        refused = ((done, "cancel"), (failed, "cancel"), (queued, "retry"), (done, "retry"))
        for id_, action in refused:
            problem = body_of(api.post(f"/v1/experiments/{id_}/{action}"), 409)
            assert problem["type"].endswith("/conflict")


# -- experiments of earlier versions: specs have gained fields since they were stored -------------


def test_a_spec_is_checked_as_it_was_stored(api: Api) -> None:
    experiment = api.submit()
    finish(api, experiment["id"])
    older = {name: part for name, part in experiment["spec"].items() if name != "fairness"}
    fairness = experiment["spec"]["fairness"]
    older["fairness"] = {name: part for name, part in fairness.items() if name != "edges"}
    for spec_hash, outcome in (
        (hashlib.sha256(rfc8785.dumps(older)).hexdigest(), "pass"),
        (experiment["spec_hash"], "fail"),
    ):
        api.change(update(Experiment).values(spec=older, spec_hash=spec_hash))
        answer = api.get(f"/v1/experiments/{experiment['id']}/report/verification").json()
        outcomes = {check["name"]: check["outcome"] for check in answer["checks"]}
        assert outcomes["experiment.spec_hash"] == outcome
