"""A ledger of metric privacy: what its federation's budget counts of it, and what it shows."""

from typing import Any

import pytest

from fedaudit.privacy.accounting.accountant import composed_epsilon
from models.repositories import Budgets
from tests.api.budgets.test_epsilon_budgets import central, plan_of, set_total
from tests.api.ledgers.trainings import (
    CENTRAL,
    LOCAL,
    declared,
    epsilon,
    judged,
    opened,
    post,
    report,
    reserve,
)
from tests.api.pages.browser import signed_in
from tests.api.service import Api, body_of

METRIC = {"radius": 2.0, "clip": 1.0}
EVENT = {"kind": "laplace-l2", "n": 10, "noise_multiplier": 5.0, **METRIC}
"""n / nu = 2 a release, and as much by the theorem, since 2 * clip = radius."""
TERMS = {name: LOCAL[name] for name in ("name", "observer", "unit", "population")}
TERMS |= {"mechanism": "laplace-l2", "metric": METRIC}
NONE = {"kind": "none"}


@pytest.fixture(name="federation")
def _federation(api: Api) -> str:
    found: str = api.submit()["federation_id"]
    return found


def put(api: Api, federation: str, total: float | None, **setting: Any) -> None:
    answer = api.set_budget(federation, total, book="release", **setting)
    assert answer.status_code == 200, answer.text


def budget(api: Api, federation: str, figure: str = "leakage", **own: Any) -> Any:
    [found] = api.budgets(federation, book="release", figure=figure, **own)
    return found


def amounts(api: Api, federation: str, figure: str = "leakage") -> tuple[float, float, float]:
    own = {"radius": 2.0} if figure == "leakage" else {}
    found = budget(api, federation, figure, **own)
    return found["reserved"], found["spent"], found["declared"]


def refused(api: Api, **terms: Any) -> str:
    return str(body_of(api.post("/v1/ledgers", json={**TERMS, **terms}), 409)["detail"])


def test_a_round_is_refused_before_the_federations_leakage_would_be_passed(api, federation):
    put(api, federation, 5.0, **METRIC)
    ledger = opened(api, TERMS, federation_id=federation)
    assert reserve(api, ledger, 1, ["a", "b"], EVENT)["admitted"] == ["a", "b"]
    assert amounts(api, federation) == (2.0, 0.0, 0.0)
    post(api, ledger, declared(1, ["a", "b"], EVENT))
    assert amounts(api, federation) == (0.0, 2.0, 2.0)
    assert amounts(api, federation, "log_ratio") == (0.0, pytest.approx(2.0), pytest.approx(2.0))
    # Another ledger spends of the same; what it gives back is there again.
    other = opened(api, TERMS, federation_id=federation)
    assert reserve(api, other, 1, ["c"], EVENT)["reserved"]
    answer = reserve(api, ledger, 2, ["a"], EVENT)
    assert (answer["admitted"], "no room" in answer["reason"]) == ([], True)
    # A total that is lowered meanwhile does not keep what is given back.
    put(api, federation, 1.0, **METRIC)
    path = f"/v1/ledgers/{other}/rounds/1/reservation"
    assert api.request("DELETE", path).status_code == 204
    assert amounts(api, federation)[:2] == (0.0, 2.0)
    put(api, federation, 5.0, **METRIC)
    assert reserve(api, ledger, 2, ["a"], EVENT)["reserved"]
    # What ran all the same is charged, room or not, and no one gets any more.
    post(api, ledger, declared(2, ["a"], EVENT), declared(3, ["a"], EVENT))
    assert amounts(api, federation)[:2] == (0.0, 6.0)
    assert reserve(api, other, 1, ["c"], EVENT)["admitted"] == []
    assert "no room left" in refused(api, federation_id=federation)


def test_other_radii_and_other_figures_are_no_way_around_a_total(api: Api, federation: str) -> None:
    before = opened(api, TERMS, federation_id=federation)
    own = {"radius": 1e-9, "clip": 1.0}
    put(api, federation, 5.0, **METRIC)
    assert "another radius" in refused(api, federation_id=federation, metric=own)
    put(api, federation, 5.0, figure="log_ratio")
    unclipped = {"radius": 2.0, "clip": None}
    put(api, federation, 5.0, **unclipped)
    assert "a fixed radius and a clip" in refused(api, federation_id=federation, metric=unclipped)
    # A round under other terms than the ledger's is refused, reserved or declared.
    for event in ({**EVENT, **own}, {**EVENT, "clip": None}):
        answer = post(api, before, declared(1, ["a"], event))
        assert answer.status_code == 422
        assert "the ledger's terms have" in answer.json()["errors"][0]["message"]
    # Totals that were set after it was opened hold for its next round.
    epsilon = {"delta": 1e-5, "adjacency": "replace-one", "observer": "server"}
    put(api, federation, 5.0, figure="epsilon", **epsilon)
    answer = reserve(api, before, 1, ["a"], EVENT)
    assert (answer["admitted"], "for an epsilon" in answer["reason"]) == ([], True)
    post(api, before, declared(1, ["a"], EVENT))
    uncounted = {one["mechanism"]: one for one in budget(api, federation, "epsilon")["uncounted"]}
    left_out = uncounted["laplace-l2, declared"]
    assert (left_out["runs"], "counted as leakage" in left_out["why"]) == (1, True)


def test_a_round_without_bound_takes_no_smaller_reservation_with_it(api, federation):
    small, vast = (opened(api, TERMS, federation_id=federation) for _ in range(2))
    assert reserve(api, small, 1, ["a"], EVENT)["reserved"]
    assert reserve(api, vast, 1, ["a"], NONE)["reserved"]
    assert budget(api, federation)["reserved"] == 1e300
    api.request("DELETE", f"/v1/ledgers/{vast}/rounds/1/reservation")
    assert amounts(api, federation)[:2] == (2.0, 0.0)
    post(api, vast, declared(1, ["a"], NONE))
    assert budget(api, federation)["spent"] == 1e300
    put(api, federation, 5.0, **METRIC)
    # It costs nothing more than what is spent without bound already, and is refused.
    assert reserve(api, vast, 2, ["b"], EVENT)["admitted"] == []


def test_terms_say_what_a_federation_counts(api: Api) -> None:
    for change, pointer in (
        ({"metric": None}, "/metric"),
        ({"unit": "record"}, "/unit"),
        ({"mechanism": "none", "metric": None}, "/federation_id"),
        ({"mechanism": "none", "federation_id": None}, "/metric"),
    ):
        answer = api.post("/v1/ledgers", json={**TERMS, "federation_id": "0" * 36, **change})
        assert [one["pointer"] for one in body_of(answer, 422)["errors"]] == [pointer]


def test_two_open_reservations_have_one_radius(api: Api) -> None:
    ledger = opened(api, TERMS, metric=None, budget={"leakage": 100})
    assert "metric" not in report(api, ledger)["terms"]
    assert reserve(api, ledger, 1, ["a"], EVENT)["reserved"]
    body = {"event": {**EVENT, "radius": 1e-9}, "participants": ["a"]}
    assert api.post(f"/v1/ledgers/{ledger}/rounds/2/reservation", json=body).status_code == 422


def test_a_leakage_is_evidence_only_where_the_clip_keeps_uploads_within_the_radius(api) -> None:
    gate = {"figure": "leakage_max", "op": "le", "value": 5, "allow_declared": True}
    for change in ({}, {"clip": 1.5}, {"clip": None}, {"radius": None}):
        metric = {**METRIC, **change}
        ledger = opened(api, TERMS, rounds=[declared(1, ["a"], {**EVENT, **metric})], metric=metric)
        found = judged(api, ledger, gate, {**gate, "allow_conditional": True})
        expected = "insufficient_evidence" if change else "pass"
        assert [one["outcome"] for one in found] == [expected, "pass"]
        said = report(api, ledger)
        assert ("n/nu" in " ".join(said["limits"])) is bool(change)
        assert said["terms"]["metric"] == metric


def test_what_trainers_declare_is_kept_apart_from_what_runs_here_spent(api: Api) -> None:
    run = central(noise="release")
    experiment = api.submit(run)
    federation = experiment["federation_id"]
    with api.database.write() as session:
        spent = Budgets(session, api.project_id, price=composed_epsilon)
        assert spent.draw_epsilon(experiment["id"], {"final_model": plan_of(run).steps})
    before = set_total(api, federation, 100.0, book="release")
    assert (before["declared"], before["spent"] > 0) == (0.0, True)
    assert "as declared by the trainer" not in signed_in(api).get(f"/federations/{federation}").text

    ledger = opened(api, CENTRAL, federation_id=federation, adjacency="replace-one")
    post(api, ledger, declared(1, ["a"]))
    found = budget(api, federation, "epsilon", observer="final_model")
    # The epsilons are composed, and so come to less than their sum.
    assert found["declared"] == pytest.approx(epsilon(api, ledger), rel=1e-9)
    assert max(before["spent"], found["declared"]) < found["spent"]
    assert found["spent"] < before["spent"] + found["declared"]
    assert "as declared by the trainer" in signed_in(api).get(f"/federations/{federation}").text
