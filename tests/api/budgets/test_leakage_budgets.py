"""Leakage and the theorem's sum in budgets: a radius that is free does not make a run cheap."""

from typing import Any

import pytest

from models.tables.ledger import FederationBudget, Reservation
from tests.api.budgets.test_epsilon_budgets import by_record, central, no_room
from tests.api.service import Api, body_of, fail, finish, spec

FIXED = {"radius": 0.5, "clip": 0.25}
TWIN = {"radius": 0.5 / 2**20, "clip": 0.25, "noise_multiplier": 3 * 2**20}
"""The noise of FIXED, bit for bit, at a millionth of its n/nu."""
TINY = {"radius": 1e-9}
"""Noise of a norm of about 1e-9, and nothing that keeps uploads together."""
WORST = 4.0
"""Leakage of FIXED: four releases at n / nu = 3 / 3, and, as 2 * clip = radius, its log-ratio."""
BARE = {"privacy": {"mechanism": "none"}}


def run(**privacy: Any) -> dict[str, Any]:
    return spec(privacy=privacy, gates=[], training={"hypotheses": 1})


def bare() -> dict[str, Any]:
    return {**run(), **BARE}


def budgets(api: Api, federation_id: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = api.budgets(federation_id)
    return {(one["figure"], one["radius"], one["clip"]): one for one in found}


def test_the_same_noise_at_another_radius_does_not_spend_a_millionth(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    assert api.set_budget(id_, 2 * WORST, **FIXED).status_code == 200
    problem = no_room(api, run(**TWIN))
    assert "radius 0.5 and clip 0.25" in problem["detail"]
    assert (problem["radius"], problem["clip"]) == (0.5, 0.25)
    # With a total of its own it is counted there, and the other one does not move.
    own = {name: TWIN[name] for name in ("radius", "clip")}
    assert api.set_budget(id_, 1, **own).status_code == 200
    api.submit(run(**TWIN))
    found = budgets(api, id_)
    assert found["leakage", 0.5, 0.25]["reserved"] == WORST
    assert 0 < found["leakage", TWIN["radius"], 0.25]["reserved"] < WORST / 1e6
    # The theorem's own sum tells the truth of both.
    assert found["log_ratio", None, None]["reserved"] == pytest.approx(2 * WORST)


def test_the_theorems_sum_has_room_for_the_twin_only_as_for_the_run(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    assert api.set_budget(id_, 1.5 * WORST, figure="log_ratio").status_code == 200
    for value in (run(**FIXED), run(**TWIN)):
        problem = no_room(api, value)
        assert "a log-ratio by the theorem of 4" in problem["detail"]
        assert problem["requested"] == pytest.approx(WORST)
        assert problem["remaining"] == pytest.approx(0.5 * WORST)
    api.set_budget(id_, 2 * WORST, figure="log_ratio")
    api.submit(run(**TWIN))
    no_room(api, run(**FIXED))


def test_what_the_theorem_or_the_radius_does_not_bound_is_refused_and_not_projected(api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    api.set_budget(id_, 1e6, **FIXED)
    assert "another radius or clip" in no_room(api, run(**TINY))["detail"]
    api.set_budget(id_, None, **FIXED)
    api.set_budget(id_, 1e6, figure="log_ratio")

    def projected(value: dict[str, Any]) -> tuple[Any, str]:
        found = api.check(value).json()["projection"]
        return found["log_ratio_worst_case"], found["reasons"].get("log_ratio_worst_case", "")

    for value, named, why in (
        (run(**TINY), "a fixed radius and a clip", "not clipped"),
        (run(), "fixed radius", "adaptive"),
        (central(), "laplace-l2", ""),
        (bare(), "without noise", "no mechanism"),
    ):
        problem = no_room(api, value)
        assert named in problem["detail"]
        assert problem["figure"] == "log_ratio"
        figure, reason = projected(value)
        assert (figure, why in reason) == (None, True)
    assert projected(run(**FIXED))[0] == pytest.approx(WORST)
    # Clipped, but far beyond the radius: the theorem's sum is what it is.
    far = run(**TINY, clip=10)
    assert projected(far)[0] == no_room(api, far)["requested"] > 1e10


@pytest.mark.parametrize("method", ["reported", "k-means"])
def test_the_theorems_sum_counts_no_choice_among_hypotheses(api: Api, method: str) -> None:
    training = {"hypotheses": 2, "clustering": {"method": method}}
    several = spec(privacy=FIXED, gates=[], training=training)
    id_ = api.submit(several)["federation_id"]
    api.set_budget(id_, 1e6, figure="log_ratio")
    assert "choose alike alone" in no_room(api, several)["detail"]
    api.submit(run(**FIXED))
    [left_out] = budgets(api, id_)["log_ratio", None, None]["uncounted"]
    assert (left_out["mechanism"], left_out["runs"]) == ("laplace-l2", 1)
    assert "choose alike alone" in left_out["why"]
    # A leakage is the paper's convention, whatever is proven.
    api.set_budget(id_, None, figure="log_ratio")
    api.set_budget(id_, 1e6, **FIXED)
    api.submit(several)
    assert budgets(api, id_)["leakage", 0.5, 0.25]["uncounted"] == []


def test_totals_that_no_mechanism_has_both_of_say_how_to_get_out(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    epsilon = {"delta": 1e-5, "adjacency": "replace-one", "observer": "final_model"}
    short = {name: value for name, value in epsilon.items() if name != "observer"}
    fault = body_of(api.set_budget(id_, 100, figure="epsilon", **short), 422)["errors"][0]
    assert fault["pointer"] == "/observer"
    assert "(final_model, server, report)" in fault["message"]
    api.set_budget(id_, 100, figure="epsilon", **epsilon)
    api.set_budget(id_, 2 * WORST, **FIXED)
    for value, command in (
        (central(), "--set leakage=none --noise simulation --radius 0.5 --clip 0.25`"),
        (
            run(**FIXED),
            "--set epsilon=none --noise simulation --delta 1e-05 --adjacency replace-one",
        ),
    ):
        detail = no_room(api, value)["detail"]
        assert "refuses every run until those of one of the two are taken back; take this" in detail
        assert f"`fedaudit budget {id_} {command}" in detail
    # Whoever takes one back is on record, and what was spent under it is not forgotten.
    assert api.set_budget(id_, None, **FIXED).status_code == 200
    [change, *_] = api.get(f"/v1/federations/{id_}/history").json()["items"]
    assert change["value"]["total"] is None
    assert change["value"]["figure"] == "leakage"
    assert change["changed_by"]["key_id"]
    api.submit(central())
    api.set_budget(id_, None, figure="epsilon", **epsilon)
    api.submit(run(**FIXED))
    api.set_budget(id_, 2 * WORST, **FIXED)
    found = budgets(api, id_)["leakage", 0.5, 0.25]
    assert found["reserved"] == 2 * WORST
    assert [one["mechanism"] for one in found["uncounted"]] == ["gaussian-central"]


def test_what_ran_before_there_was_a_total_is_listed(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    for value in (run(**TINY), run(), central(), bare()):
        api.submit(value)
    api.set_budget(id_, 1e6, figure="log_ratio")
    api.set_budget(id_, 1e6, **FIXED)
    found = budgets(api, id_)
    left_out = found["log_ratio", None, None]["uncounted"]
    assert [(one["mechanism"], one["runs"]) for one in left_out] == [
        ("gaussian-central", 1),
        ("laplace-l2", 2),
        ("none", 1),
    ]
    assert "fixed radius and a clip" in left_out[1]["why"]
    of_leakage = {one["mechanism"]: one for one in found["leakage", 0.5, 0.25]["uncounted"]}
    assert of_leakage["laplace-l2"]["runs"] == 2
    assert "another radius" in of_leakage["laplace-l2"]["why"]
    assert "epsilon" in of_leakage["gaussian-central"]["why"]


def test_an_end_settles_both_figures_by_releases(api_on_both: Api) -> None:
    api = api_on_both
    body = api.submit(run(**FIXED))
    finish(api, body["id"])
    found = budgets(api, body["federation_id"])
    for key in (("leakage", 0.5, 0.25), ("log_ratio", None, None)):
        # Three of the four rounds were played.
        assert (found[key]["spent"], found[key]["reserved"]) == (pytest.approx(3.0), 0.0)


def test_a_total_without_a_radius_is_for_the_specs_defaults(api: Api) -> None:
    id_ = api.submit(run())["federation_id"]
    assert api.set_budget(id_, 5).status_code == 200
    [one] = budgets(api, id_).values()
    stated = {"radius": "adaptive", "clip": None, "total": 5, "adjacency": None}
    assert {name: one[name] for name in stated} == stated
    no_room(api, run(**FIXED))


def test_a_total_from_before_refuses_until_it_is_set_anew(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    key = {"federation_id": id_, "book": "simulation", "figure": "leakage"}
    key |= {"delta": 0.0, "adjacency": "", "observer": ""}
    with api.database.write() as session:
        session.add(FederationBudget(**key, project_id=api.project_id, total=1e6))
        session.flush()
        session.add(Reservation(**key, experiment_id="e0", amount=2.0, spent=2.0, state="settled"))
    for value in (run(), run(**FIXED)):
        assert "set the total anew" in no_room(api, value)["detail"]
    assert budgets(api, id_)["leakage", None, None]["total"] == 1e6
    api.set_budget(id_, 2 * WORST, **FIXED)
    api.submit(run(**FIXED))
    old = budgets(api, id_)["leakage", None, None]
    assert (old["total"], old["spent"]) == (None, 2.0)


# -- simulated noise: forbidden by the owner, or named by budgets for release ---------------------


def noisy(noise: str) -> dict[str, Any]:
    return spec(privacy={"noise": noise}, gates=[])


def simulate(api: Api, federation_id: str, simulation: str, **options: Any) -> Any:
    path = f"/v1/federations/{federation_id}/simulation"
    return api.request("PUT", path, json={"simulation": simulation}, **options)


def release_budget(api: Api, federation_id: str, total: float | None) -> dict[str, Any]:
    items = body_of(api.set_budget(federation_id, total, book="release"))["items"]
    [found] = [one for one in items if one["book"] == "release"]
    return dict(found)


def test_an_owner_forbids_simulation(api: Api) -> None:
    first = api.submit(noisy("simulation"))
    id_ = first["federation_id"]
    assert api.get(f"/v1/federations/{id_}").json()["simulation"] == "allowed"
    body = body_of(simulate(api, id_, "forbidden"))
    assert body == api.get(f"/v1/federations/{id_}").json()
    assert body["simulation"] == "forbidden"
    api.post(f"/v1/experiments/{first['id']}/cancel")
    with api.unchanged():
        for method, path in (
            (noisy("simulation"), "/v1/experiments"),
            (noisy("simulation"), "/v1/experiments?validate_only=true"),
            (None, f"/v1/experiments/{first['id']}/retry"),
        ):
            problem = body_of(api.post(path, json=method), 409)
            assert problem["type"].endswith("/simulation-forbidden")
            assert "privacy.noise to `release`" in problem["detail"]
            assert problem["federation_id"] == id_
    api.submit(noisy("release"))
    simulate(api, id_, "allowed")
    api.submit(noisy("simulation"))


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
    id_, value = api.submit(noisy("release"))["federation_id"], {**noisy("release"), **changes}
    body_of(api.check(value))
    simulate(api, id_, "forbidden")
    with api.unchanged():
        for path in ("/v1/experiments", "/v1/experiments?validate_only=true"):
            assert named in body_of(api.post(path, json=value), 409)["detail"]
    canaries = {"kind": "canaries", "unit": "client", "count": 2}
    api.submit({**noisy("release"), "attacks": [canaries]})


def test_a_release_budget_names_the_simulations_that_it_does_not_count(api: Api) -> None:
    body = api.submit(noisy("simulation"))
    id_ = body["federation_id"]
    assert body["warnings"] == []
    [left_out] = release_budget(api, id_, 1e-3)["uncounted"]
    assert (left_out["mechanism"], left_out["runs"]) == ("laplace-l2", 1)
    assert "simulated" in left_out["why"]
    assert api.post("/v1/experiments", json=noisy("release")).status_code == 409
    # It is accepted, but not without a word.
    again = api.submit(noisy("simulation"), headers={"Idempotency-Key": "once"})
    [warning] = again["warnings"]
    assert "simulated from its seed" in warning
    repeated = api.submit(noisy("simulation"), headers={"Idempotency-Key": "once"})
    assert repeated == again
    checked = api.check(noisy("simulation")).json()
    assert checked["warnings"] == [warning]
    checked = api.check(noisy("release")).json()
    assert checked["warnings"] == []
    assert release_budget(api, id_, 1e-3)["uncounted"][0]["runs"] == 2
    assert release_budget(api, id_, None)["uncounted"] == []


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_a_retry_is_warned_like_a_submission(api: Api, noise: str) -> None:
    body = api.submit(noisy(noise))
    release_budget(api, body["federation_id"], 1e6)
    fail(api, body["id"])
    retried = api.post(f"/v1/experiments/{body['id']}/retry")
    assert retried.status_code == 202
    assert len(retried.json()["warnings"]) == (noise == "simulation")
    asked = {"name": "two", "base": noisy(noise), "grid": {"training.rounds": [1, 2]}}
    sweep = body_of(api.post("/v1/sweeps", json=asked), 202)
    for cell in sweep["cells"]:
        fail(api, cell["experiment_id"])
    again = body_of(api.post(f"/v1/sweeps/{sweep['id']}/retry"), 202)
    assert again["warnings"] == sweep["warnings"] == retried.json()["warnings"]


@pytest.mark.parametrize("noise", ["simulation", "release"])
@pytest.mark.parametrize("book", ["simulation", "release"])
def test_the_attack_no_mechanism_walks_around_no_total(api: Api, book: str, noise: str) -> None:
    """There is no noise that could be of either mode: a total of either book refuses it."""
    bare = {**noisy(noise), "privacy": {"mechanism": "none", "noise": noise}}
    free = by_record()
    free["privacy"] |= {"noise": noise, "baseline": "privacy-free"}
    free["training"]["local"]["batch_size"] = 2
    before = api.submit(bare, headers={"Idempotency-Key": "early"})
    id_, once = before["federation_id"], {"Idempotency-Key": "once"}
    [found] = api.set_budget(id_, 1e6, book=book).json()["items"]
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
