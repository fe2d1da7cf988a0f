"""Changes overwrite nothing unseen; compressed answers, HEAD, and lists."""

import gzip
import json

import pytest

from tests.api.service import SPEC, Api, finish

TOTAL = {"book": "simulation", "figure": "leakage", "total": 21.0}


@pytest.fixture
def finished(api: Api) -> dict:
    """An experiment with a report."""
    body = api.submit()
    finish(api, body["id"])
    return body


# -- changes ---------------------------------------------------------------------------------------


def test_a_budget_is_not_set_over_what_was_not_seen(api: Api) -> None:
    path = f"/v1/federations/{api.submit()['federation_id']}/budget"
    seen = api.get(path).headers["etag"]
    first = api.request("PUT", path, json=TOTAL, headers={"If-Match": seen})
    assert first.status_code == 200
    late = api.request("PUT", path, json={**TOTAL, "total": 99}, headers={"If-Match": seen})
    assert late.status_code == 412
    assert late.json()["type"] == "/problems/precondition-failed"
    now = api.get(path)
    assert late.headers["etag"] == first.headers["etag"] == now.headers["etag"]
    assert [one["total"] for one in now.json()["items"] if one["book"] == "simulation"] == [21.0]
    # Nobody has to: as before, the last writer wins who does not ask.
    assert api.request("PUT", path, json=TOTAL).status_code == 200


def test_spending_meanwhile_does_not_refuse_a_total(api: Api) -> None:
    path = f"/v1/federations/{api.submit()['federation_id']}/budget"
    assert api.request("PUT", path, json=TOTAL).status_code == 200
    seen = api.get(path)
    api.submit()
    assert api.get(path).json() != seen.json()
    higher = {**TOTAL, "total": 50.0}
    for known in (seen.headers["etag"], f'"other", W/{seen.headers["etag"]}', "*"):
        put = api.request("PUT", path, json=TOTAL, headers={"If-Match": known})
        assert put.status_code == 200
    # A total that comes, changes or goes is seen, also where it is of another figure.
    for setting in (higher, {**TOTAL, "total": None}, {**TOTAL, "figure": "log_ratio"}):
        known = api.get(path).headers["etag"]
        assert api.request("PUT", path, json=setting).status_code == 200
        late = api.request("PUT", path, json=higher, headers={"If-Match": known})
        assert late.status_code == 412


def test_a_disclosure_policy_is_not_set_over_what_was_not_seen(api: Api) -> None:
    path = f"/v1/federations/{api.submit()['federation_id']}/disclosure"
    seen = {"If-Match": api.get(path).headers["etag"]}
    set_ = {"minimum_group_size": 10}
    assert api.request("PUT", path, json=set_, headers=seen).status_code == 200
    assert api.request("PUT", path, json={}, headers=seen).status_code == 412
    assert api.get(path).json()["minimum_group_size"] == 10


# -- compressed ------------------------------------------------------------------------------------


def test_large_answers_come_compressed(api: Api, finished: dict) -> None:
    path = f"/v1/experiments/{finished['id']}/report"
    plain = api.get(path, headers={"Accept-Encoding": "identity"})
    with api.client.stream(
        "GET", path, headers={"Authorization": f"Bearer {api.key}", "Accept-Encoding": "gzip"}
    ) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert len(sent) < len(plain.content) / 2
    assert json.loads(gzip.decompress(sent)) == plain.json()
    assert "Accept-Encoding" in answer.headers["vary"]


def test_pages_streams_and_bundles_are_not_compressed(api: Api, finished: dict) -> None:
    id_ = finished["id"]
    assert "content-encoding" not in api.get("/sign-in").headers
    for path in (f"/v1/experiments/{id_}/events", f"/v1/experiments/{id_}/bundle"):
        answer = api.get(path, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers


# -- HEAD ------------------------------------------------------------------------------------------


def test_head_answers_as_get_without_a_body(api: Api, finished: dict) -> None:
    below = f"/v1/experiments/{finished['id']}"
    for path in (
        *("/health/live", "/openapi.json", "/sign-in", "/v1/experiments"),
        *(f"{below}/{rest}" for rest in ("report.html", "rounds.csv", "events", "nothing")),
    ):
        got, asked = api.get(path), api.request("HEAD", path)
        assert (asked.status_code, asked.content) == (got.status_code, b""), path
        for name in ("content-type", "content-length", "etag", "cache-control"):
            assert asked.headers.get(name) == got.headers.get(name)


def test_head_of_a_stream_that_goes_on_ends(api: Api) -> None:
    id_ = api.submit()["id"]
    asked = api.request("HEAD", f"/v1/experiments/{id_}/events")
    assert asked.headers["content-type"].startswith("text/event-stream")
    assert api.client.app.state.resources.streams.open == 0


# -- lists -----------------------------------------------------------------------------------------


def test_a_list_leaves_specs_out_on_demand(api: Api) -> None:
    whole = api.submit()
    [full] = api.get("/v1/experiments").json()["items"]
    [short] = api.get("/v1/experiments?omit=spec").json()["items"]
    assert full["spec"] == whole["spec"]
    assert short == {**full, "spec": None}


def test_lists_link_to_their_next_page(api: Api) -> None:
    ids = [api.submit(name)["id"] for name in [{**SPEC, "tags": ["a b"]}] * 3]
    path, found = "/v1/experiments?limit=2&tag=a%20b", []
    while path:
        answer = api.get(path)
        found += [one["id"] for one in answer.json()["items"]]
        path = answer.links.get("next", {}).get("url")
    assert sorted(found) == sorted(ids)
