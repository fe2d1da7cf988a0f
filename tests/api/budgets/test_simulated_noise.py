"""Simulated noise on a federation: forbidden by its owner, or named by the budgets for release."""

from typing import Any

import pytest

from tests.api.budgets.test_epsilon_budgets import by_record
from tests.api.service import Api, body_of, fail, spec


def run(noise: str) -> dict[str, Any]:
    return spec(privacy={"noise": noise}, gates=[])


def put(api: Api, federation_id: str, simulation: str, **options: Any) -> Any:
    path = f"/v1/federations/{federation_id}/simulation"
    return api.request("PUT", path, json={"simulation": simulation}, **options)


def release_budget(api: Api, federation_id: str, total: float | None) -> dict[str, Any]:
    path = f"/v1/federations/{federation_id}/budget"
    body = {"book": "release", "figure": "leakage", "total": total}
    response = api.request("PUT", path, json=body)
    assert response.status_code == 200, response.text
    [found] = [one for one in response.json()["items"] if one["book"] == "release"]
    return dict(found)


def test_an_owner_forbids_simulation(api: Api) -> None:
    first = api.submit(run("simulation"))
    id_ = first["federation_id"]
    assert api.get(f"/v1/federations/{id_}").json()["simulation"] == "allowed"
    body = body_of(put(api, id_, "forbidden"))
    assert body == api.get(f"/v1/federations/{id_}").json()
    assert body["simulation"] == "forbidden"
    api.post(f"/v1/experiments/{first['id']}/cancel")
    before = api.counts()
    for method, path in (
        (run("simulation"), "/v1/experiments"),
        (run("simulation"), "/v1/experiments?validate_only=true"),
        (None, f"/v1/experiments/{first['id']}/retry"),
    ):
        problem = body_of(api.post(path, json=method), 409)
        assert problem["type"].endswith("/simulation-forbidden")
        assert "privacy.noise to `release`" in problem["detail"]
        assert problem["federation_id"] == id_
    assert api.counts() == before
    api.submit(run("release"))
    put(api, id_, "allowed")
    api.submit(run("simulation"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"privacy": {"mechanism": "none", "noise": "release"}}, "privacy.mechanism"),
        # It trains on the same people with noise that it chooses, and is charged nothing.
        ({"attacks": [{"kind": "membership", "method": "threshold"}]}, "the attack `membership`"),
    ],
    ids=["no noise", "an attack"],
)
def test_what_publishes_more_does_not_pass_for_secret_noise(api, changes, named):
    id_, value = api.submit(run("release"))["federation_id"], {**run("release"), **changes}
    body_of(api.check(value))
    put(api, id_, "forbidden")
    before = api.counts()
    for path in ("/v1/experiments", "/v1/experiments?validate_only=true"):
        assert named in body_of(api.post(path, json=value), 409)["detail"]
    assert api.counts() == before
    canaries = {"kind": "canaries", "unit": "client", "count": 2}
    api.submit({**run("release"), "attacks": [canaries]})


def test_a_release_budget_names_the_simulations_that_it_does_not_count(api: Api) -> None:
    body = api.submit(run("simulation"))
    id_ = body["federation_id"]
    assert body["warnings"] == []
    [left_out] = release_budget(api, id_, 1e-3)["uncounted"]
    assert (left_out["mechanism"], left_out["runs"]) == ("laplace-l2", 1)
    assert "simulated" in left_out["why"]
    assert api.post("/v1/experiments", json=run("release")).status_code == 409
    # It is accepted, but not without a word.
    again = api.submit(run("simulation"), headers={"Idempotency-Key": "once"})
    [warning] = again["warnings"]
    assert "simulated from its seed" in warning
    repeated = api.submit(run("simulation"), headers={"Idempotency-Key": "once"})
    assert repeated == again
    checked = api.check(run("simulation")).json()
    assert checked["warnings"] == [warning]
    checked = api.check(run("release")).json()
    assert checked["warnings"] == []
    assert release_budget(api, id_, 1e-3)["uncounted"][0]["runs"] == 2
    assert release_budget(api, id_, None)["uncounted"] == []


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_a_retry_is_warned_like_a_submission(api: Api, noise: str) -> None:
    body = api.submit(run(noise))
    release_budget(api, body["federation_id"], 1e6)
    fail(api, body["id"])
    retried = api.post(f"/v1/experiments/{body['id']}/retry")
    assert retried.status_code == 202
    assert len(retried.json()["warnings"]) == (noise == "simulation")
    asked = {"name": "two", "base": run(noise), "grid": {"training.rounds": [1, 2]}}
    sweep = body_of(api.post("/v1/sweeps", json=asked), 202)
    for cell in sweep["cells"]:
        fail(api, cell["experiment_id"])
    again = body_of(api.post(f"/v1/sweeps/{sweep['id']}/retry"), 202)
    assert again["warnings"] == sweep["warnings"] == retried.json()["warnings"]


@pytest.mark.parametrize("noise", ["simulation", "release"])
@pytest.mark.parametrize("book", ["simulation", "release"])
def test_the_attack_no_mechanism_walks_around_no_total(api: Api, book: str, noise: str) -> None:
    """There is no noise that could be of either mode: a total of either book refuses it."""
    bare = {**run(noise), "privacy": {"mechanism": "none", "noise": noise}}
    free = by_record()
    free["privacy"] |= {"noise": noise, "baseline": "privacy-free"}
    free["training"]["local"]["batch_size"] = 2
    before = api.submit(bare, headers={"Idempotency-Key": "early"})
    id_, once = before["federation_id"], {"Idempotency-Key": "once"}
    body = {"book": book, "figure": "leakage", "total": 1e6}
    path = f"/v1/federations/{id_}/budget"
    [found] = api.request("PUT", path, json=body).json()["items"]
    assert [(one["mechanism"], one["runs"]) for one in found["uncounted"]] == [("none", 1)]
    assert "without noise" in found["uncounted"][0]["why"]
    counts = api.counts()
    for value in (bare, free, {**bare, "repeats": 2}):
        for _ in range(2):
            problem = api.post("/v1/experiments", json=value, headers=once)
            assert (problem.status_code, problem.json()["book"]) == (409, book), problem.text
            assert "in both books, whatever privacy.noise" in problem.json()["detail"]
        checked = api.check(value).json()["budget"]
        assert checked["has_room"] is False
        assert "in both books, whatever privacy.noise" in checked["detail"]
    sweep = {"name": "both", "base": bare, "grid": {"training.rounds": [2, 3]}}
    assert api.post("/v1/sweeps", json=sweep).status_code == 409
    assert api.post("/v1/sweeps?validate_only=true", json=sweep).json()["has_room"] is False
    assert api.counts() == counts
    # What was admitted before is answered again as it was, with what is true of it now.
    replayed = api.submit(bare, headers={"Idempotency-Key": "early"})
    assert replayed["id"] == before["id"]
    warned = ["nothing bounds what the experiment" in one for one in replayed["warnings"]]
    assert warned == ([True] if book == "release" else [])
    fail(api, before["id"])
    assert api.post(f"/v1/experiments/{before['id']}/retry").status_code == 409
