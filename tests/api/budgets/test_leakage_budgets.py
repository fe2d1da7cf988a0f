"""Leakage and the theorem's sum in budgets: a radius that is free does not make a run cheap."""

from typing import Any

import pytest

from models.tables.ledger import FederationBudget, Reservation
from tests.api.budgets.test_epsilon_budgets import central, no_room
from tests.api.service import Api, finish, spec

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


def put(api: Api, federation_id: str, **setting: Any) -> Any:
    body = {"book": "simulation", "figure": "leakage", **setting}
    return api.request("PUT", f"/v1/federations/{federation_id}/budget", json=body)


def budgets(api: Api, federation_id: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    items = api.get(f"/v1/federations/{federation_id}/budget").json()["items"]
    return {(one["figure"], one["radius"], one["clip"]): one for one in items}


def test_the_same_noise_at_another_radius_does_not_spend_a_millionth(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    assert put(api, id_, total=2 * WORST, **FIXED).status_code == 200
    problem = no_room(api, run(**TWIN))
    assert "radius 0.5 and clip 0.25" in problem["detail"]
    assert (problem["radius"], problem["clip"]) == (0.5, 0.25)
    # With a total of its own it is counted there, and the other one does not move.
    own = {name: TWIN[name] for name in ("radius", "clip")}
    assert put(api, id_, total=1, **own).status_code == 200
    api.submit(run(**TWIN))
    found = budgets(api, id_)
    assert found["leakage", 0.5, 0.25]["reserved"] == WORST
    assert 0 < found["leakage", TWIN["radius"], 0.25]["reserved"] < WORST / 1e6
    # The theorem's own sum tells the truth of both.
    assert found["log_ratio", None, None]["reserved"] == pytest.approx(2 * WORST)


def test_the_theorems_sum_has_room_for_the_twin_only_as_for_the_run(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    assert put(api, id_, figure="log_ratio", total=1.5 * WORST).status_code == 200
    for value in (run(**FIXED), run(**TWIN)):
        problem = no_room(api, value)
        assert "a log-ratio by the theorem of 4" in problem["detail"]
        assert problem["requested"] == pytest.approx(WORST)
        assert problem["remaining"] == pytest.approx(0.5 * WORST)
    put(api, id_, figure="log_ratio", total=2 * WORST)
    api.submit(run(**TWIN))
    no_room(api, run(**FIXED))


def test_what_the_theorem_or_the_radius_does_not_bound_is_refused(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    put(api, id_, total=1e6, **FIXED)
    assert "another radius or clip" in no_room(api, run(**TINY))["detail"]
    put(api, id_, total=None, **FIXED)
    put(api, id_, figure="log_ratio", total=1e6)
    for value, named in (
        (run(**TINY), "a fixed radius and a clip"),
        (run(), "fixed radius"),
        (central(), "laplace-l2"),
        (bare(), "without noise"),
    ):
        problem = no_room(api, value)
        assert named in problem["detail"]
        assert problem["figure"] == "log_ratio"
    # Clipped, but far beyond the radius: the theorem's sum is what it is.
    assert no_room(api, run(**TINY, clip=10))["requested"] > 1e10


def test_totals_that_no_mechanism_has_both_of_say_how_to_get_out(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    epsilon = {"delta": 1e-5, "adjacency": "replace-one", "observer": "final_model"}
    put(api, id_, figure="epsilon", total=100, **epsilon)
    put(api, id_, total=2 * WORST, **FIXED)
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
    assert put(api, id_, total=None, **FIXED).status_code == 200
    [change, *_] = api.get(f"/v1/federations/{id_}/history").json()["items"]
    assert change["value"]["total"] is None
    assert change["value"]["figure"] == "leakage"
    assert change["changed_by"]["key_id"]
    api.submit(central())
    put(api, id_, figure="epsilon", total=None, **epsilon)
    api.submit(run(**FIXED))
    put(api, id_, total=2 * WORST, **FIXED)
    found = budgets(api, id_)["leakage", 0.5, 0.25]
    assert found["reserved"] == 2 * WORST
    assert [one["mechanism"] for one in found["uncounted"]] == ["gaussian-central"]


def test_what_ran_before_there_was_a_total_is_listed(api: Api) -> None:
    id_ = api.submit(run(**FIXED))["federation_id"]
    for value in (run(**TINY), run(), central(), bare()):
        api.submit(value)
    put(api, id_, figure="log_ratio", total=1e6)
    put(api, id_, total=1e6, **FIXED)
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
    assert put(api, id_, total=5).status_code == 200
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
    put(api, id_, total=2 * WORST, **FIXED)
    api.submit(run(**FIXED))
    old = budgets(api, id_)["leakage", None, None]
    assert (old["total"], old["spent"]) == (None, 2.0)


def test_the_projection_has_the_theorems_sum_or_says_why_not(api: Api) -> None:
    def projected(value: dict[str, Any]) -> dict[str, Any]:
        body = api.check(value).json()
        return dict(body["projection"])

    assert projected(run(**FIXED))["log_ratio_worst_case"] == pytest.approx(WORST)
    assert projected(run(**TINY, clip=10))["log_ratio_worst_case"] > 1e10
    for value, named in (
        (run(**TINY), "not clipped"),
        (run(), "adaptive"),
        (bare(), "no mechanism"),
    ):
        found = projected(value)
        assert found["log_ratio_worst_case"] is None
        assert named in found["reasons"]["log_ratio_worst_case"]
