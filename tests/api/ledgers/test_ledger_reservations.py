"""Whether a round may run, asked before anybody trains."""

import threading
from typing import Any

import pytest

import api.routers.ledger_rounds as reservation
import api.services.ledgers.round_posting as posting
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.privacy.declared import histories
from models.repositories import Budgets
from tests.api.budgets.test_epsilon_budgets import central, plan_of
from tests.api.budgets.test_epsilon_budgets import set_total as set_epsilon_total
from tests.api.ledgers.trainings import (
    CENTRAL,
    GAUSSIAN,
    LOCAL,
    POISSON,
    SEX,
    costing,
    declared,
    epsilon,
    judged,
    opened,
    post,
    read,
    report,
    reserve,
    verified,
)
from tests.api.pages.browser import signed_in
from tests.api.service import Api, body_of
from tests.api.webhooks.webhooks import deliveries, register
from tests.models.rows import at_once

URL = "https://hooks.example.org/fedaudit"
KEY = {"book": "release", "figure": "epsilon", "delta": 1e-5, "observer": "server"}


def admitted(*asked: Any) -> list[str]:
    names: list[str] = reserve(*asked)["admitted"]
    return names


def outcomes(answer: Any) -> list[str]:
    """What is said of the reservation of each round that was posted."""
    return [one["reservation"] for one in body_of(answer)["rounds"]]


def set_total(api: Api, federation: str, total: float) -> None:
    answer = api.set_budget(federation, total, **KEY, adjacency="replace-one")
    assert answer.status_code == 200


def budget(api: Api, federation: str) -> Any:
    [found] = api.budgets(federation, book="release", figure="epsilon", observer="server")
    return found


def announced(api: Api, webhook: Any) -> list[dict[str, Any]]:
    return [one["data"] for one in deliveries(api, webhook)]


def test_clients_without_room_are_refused_and_others_admitted(api: Api) -> None:
    ledger = opened(api, budget={"epsilon": costing(api, rounds=2)})
    post(api, ledger, declared(1, ["a"]), declared(2, ["a", "b"]))
    answer = reserve(api, ledger, 3, ["a", "b", "c"])
    assert answer["admitted"] == ["b", "c"]
    [refused] = answer["refused"]
    assert (refused["subject"], "of a budget of" in refused["reason"]) == ("a", True)
    # The round is a fact, with refused clients too: it is charged, and stated.
    [said] = post(api, ledger, declared(3, ["a", "b"])).json()["rounds"]
    assert (said["over_budget"], said["reservation"]) == (1, "refused")
    assert read(api, ledger)["over_budget"] == 1
    found = report(api, ledger)
    assert found["ledger"]["refused_rounds"] == 1
    assert "1 round ran for clients to whom they had been refused." in found["verdict"]


def test_what_is_reserved_counts_until_it_is_declared_or_released(api: Api) -> None:
    ledger = opened(api, budget={"epsilon": costing(api, rounds=2)})
    # A round that is asked for again takes the place of what was held for it.
    asked = [admitted(api, ledger, number, ["a"]) for number in (1, 2, 3, 2)]
    assert asked == [["a"], ["a"], [], ["a"]]
    path = f"/v1/ledgers/{ledger}/rounds/{{}}/reservation"
    assert [api.request("DELETE", path.format(2)).status_code for _ in range(2)] == [204, 404]
    assert admitted(api, ledger, 3, ["a"]) == ["a"]
    assert outcomes(post(api, ledger, declared(1, ["a"]))) == ["reserved"]
    assert admitted(api, ledger, 4, ["a"]) == []
    late = {"event": GAUSSIAN, "participants": ["a"]}
    assert api.post(path.format(1), json=late).status_code == 409


def test_a_round_that_everyone_pays_for_needs_room_for_everyone(api: Api) -> None:
    total = costing(api, CENTRAL, rounds=1, event=POISSON)
    ledger = opened(api, CENTRAL, budget={"epsilon": total})
    assert admitted(api, ledger, 1, ["a"], POISSON) == ["a"]
    post(api, ledger, declared(1, ["a"], POISSON))
    # A client that was never drawn has paid as well.
    answer = reserve(api, ledger, 2, ["b"], POISSON)
    assert answer["admitted"] == []
    assert answer["reason"].startswith("the round is charged to everyone")
    # Whoever is drawn instead pays alike.
    assert outcomes(post(api, ledger, declared(2, ["c"], POISSON))) == ["refused"]


def test_a_round_is_as_reserved_for_those_whom_it_did_not_refuse(api: Api) -> None:
    ledger = opened(api, rounds=[declared(1, ["a"])], budget={"epsilon": costing(api, rounds=1)})
    assert [admitted(api, ledger, 2, ["a", "b"]), admitted(api, ledger, 3, ["a"])] == [["b"], []]
    posted = post(api, ledger, declared(2, ["b"]), declared(3, ["c"]), declared(4, ["a"]))
    assert outcomes(posted) == ["reserved", "none", "none"]
    # Asking again without those refused washes nothing out.
    reserve(api, ledger, 5, ["a", "d"])
    assert admitted(api, ledger, 5, ["d"]) == ["d"]
    # Admitted since, where it has room: with less noise before, nobody had.
    assert admitted(api, ledger, 6, ["e"], {**GAUSSIAN, "steps": 2}) == []
    assert admitted(api, ledger, 6, ["e"]) == ["e"]
    posted = post(api, ledger, declared(5, ["a", "d"]), declared(6, ["e"]))
    assert outcomes(posted) == ["refused", "reserved"]
    # Of another event, or with somebody who was not asked for, it is another round.
    for number, name in ((7, "f"), (8, "g")):
        assert admitted(api, ledger, number, [name]) == [name]
    louder = declared(7, ["f"], {**GAUSSIAN, "steps": 2})
    assert outcomes(post(api, ledger, louder, declared(8, ["g", "h"]))) == ["other", "other"]


def test_an_order_without_a_bound_opens_no_budget(api: Api) -> None:
    terms = {**LOCAL, "mechanism": "gaussian", "unit": "record", "observer": "final_model"}
    terms["adjacency"] = "add-or-remove-one"
    total = costing(api, terms, rounds=1)
    ledger = opened(api, terms, budget={"epsilon": total})
    # At Renyi orders below 1.6 dp-accounting finds no bound for this event, which is another's.
    unbounded = {"kind": "poisson-gaussian", "rate": 0.125, "noise_multiplier": 1.1}
    post(api, ledger, declared(1, ["a"]), declared(2, ["b"], unbounded))
    assert epsilon(api, ledger) > total
    assert admitted(api, ledger, 3, ["a"]) == []


def test_a_federations_budget_is_charged(api_on_both: Api) -> None:
    api, rounds = api_on_both, 2
    federation = api.submit()["federation_id"]
    total = costing(api, rounds=rounds)
    set_total(api, federation, total)
    ledger = opened(api, federation_id=federation)
    for one in range(1, rounds + 1):
        assert admitted(api, ledger, one, ["a"]) == ["a"]
        post(api, ledger, declared(one, ["a"]))
    found = budget(api, federation)
    assert found["declared"] == found["spent"] == pytest.approx(total, rel=1e-9)
    answer = reserve(api, ledger, rounds + 1, ["a"])
    assert (answer["admitted"], answer["reserved"]) == ([], False)
    assert "federation" in answer["reason"]
    # What ran all the same is charged, room or not; another ledger finds none.
    post(api, ledger, declared(rounds + 1, ["a"]))
    assert budget(api, federation)["spent"] > total
    other = api.post("/v1/ledgers", json={**LOCAL, "federation_id": federation})
    assert body_of(other, 409)["type"] == "/problems/budget-exhausted"


def test_a_refused_round_is_announced_without_names_and_an_admitted_one_is_not(api: Api) -> None:
    webhook = register(api, URL, events=["ledger.round_refused"])
    ledger = opened(api, budget={"epsilon": costing(api, rounds=1)})
    assert reserve(api, ledger, 1, ["a", "b"])["refused"] == []
    assert announced(api, webhook) == []
    post(api, ledger, declared(1, ["a"]))
    assert len(reserve(api, ledger, 2, ["a", "b"])["refused"]) == 1
    said = {"project": "hospital", "ledger_id": ledger, "round": 2}
    assert announced(api, webhook) == [said]


def test_a_budget_that_rounds_or_reservations_bring_low_is_announced_once(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    federation = api.submit()["federation_id"]
    set_total(api, federation, 1.01 * costing(api, rounds=3))
    ledger = opened(api, rounds=[declared(1, ["a"]), declared(2, ["a"])], federation_id=federation)
    assert announced(api, webhook) == []
    # What is held counts; that it is spent afterwards crosses nothing.
    assert admitted(api, ledger, 3, ["a"]) == ["a"]
    [said] = announced(api, webhook)
    assert said["federation_id"] == federation
    assert {name: said["budget"][name] for name in KEY} == KEY
    post(api, ledger, declared(3, ["a"]))
    assert len(announced(api, webhook)) == 1


# -- rounds and reservations at once ---------------------------------------------------------------


_BEHIND_SECONDS = 0.5
"""Long enough for a round to be entered by what does not wait for the lock."""


def test_a_round_declared_while_another_is_reserved_is_charged(api_on_both, monkeypatch):
    api = api_on_both
    federation = api.submit()["federation_id"]
    ledger = opened(api, federation_id=federation)
    costly = declared(1, ["a"], {**GAUSSIAN, "steps": 5})
    posts = threading.Thread(target=post, args=(api, ledger, costly))
    decide = reservation._decide

    def meanwhile(*options: Any) -> Any:
        # The reservation has read what was spent, and books that and its own when it has decided.
        posts.start()
        posts.join(_BEHIND_SECONDS)
        return decide(*options)

    # Under the lock alone.
    monkeypatch.setattr(reservation, "_compute_beforehand", lambda *_: None)
    monkeypatch.setattr(reservation, "_decide", meanwhile)
    assert admitted(api, ledger, 2, ["b"]) == ["b"]
    posts.join()
    assert read(api, ledger)["rounds"] == 1
    assert budget(api, federation)["spent"] == pytest.approx(epsilon(api, ledger), rel=1e-9)


@pytest.mark.parametrize("module", [posting, reservation])
def test_loss_distributions_are_composed_before_the_lock(api, monkeypatch, module):
    noise = 2.1 if module is posting else 2.2
    event = {**POISSON, "noise_multiplier": noise}
    ledger = opened(api, CENTRAL, accountant="pld", budget={"epsilon": 0.1})
    locked, exact, misses = posting.locked, histories.epsilon_of_events, []
    exact.cache_clear()

    def locking(*options: Any) -> Any:
        misses.append(exact.cache_info().misses)
        return locked(*options)

    monkeypatch.setattr(posting, "locked", locking)
    if module is posting:
        assert post(api, ledger, declared(1, ["a"], event)).status_code == 200
    else:
        assert admitted(api, ledger, 1, ["a"], event) == []
    assert misses == [exact.cache_info().misses]
    assert misses[0] > 0


def test_a_round_that_another_overtook_is_charged_behind_it(api_on_both, monkeypatch):
    api = api_on_both
    ledger, calm = opened(api), opened(api)
    post(api, ledger, declared(1, ["a"]))
    computed = posting._compute_beforehand

    def overtaken(*options: Any, **named: Any) -> Any:
        """What is needed was computed, and nothing is locked yet."""
        found = computed(*options, **named)
        monkeypatch.setattr(posting, "_compute_beforehand", computed)
        post(api, ledger, declared(2, ["a", "b"]))
        return found

    monkeypatch.setattr(posting, "_compute_beforehand", overtaken)
    assert post(api, ledger, declared(3, ["a"])).status_code == 200
    post(api, calm, declared(1, ["a"]), declared(2, ["a", "b"]), declared(3, ["a"]))
    assert epsilon(api, ledger) == epsilon(api, calm)
    assert verified(api, ledger)["valid"]


def test_rounds_that_are_reserved_at_once_stay_within_the_budget(api_on_both: Api) -> None:
    api = api_on_both
    ledger = opened(api, rounds=[declared(1, ["a"])], budget={"epsilon": costing(api, rounds=3)})

    def ask(number: int) -> list[str]:
        if number < 6:
            return admitted(api, ledger, 10 + number, ["a", "b"])
        for early in (2, 3):
            assert post(api, ledger, declared(early, ["c"])).status_code == 200
        return []

    names = [name for some in at_once(ask, 7) for name in some]
    assert (names.count("a"), names.count("b")) == (2, 3)


# -- metric privacy: what a federation's budget counts of it, and what it shows -------------------

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


def counted(api: Api, federation: str, figure: str = "leakage", **own: Any) -> Any:
    [found] = api.budgets(federation, book="release", figure=figure, **own)
    return found


def amounts(api: Api, federation: str, figure: str = "leakage") -> tuple[float, float, float]:
    own = {"radius": 2.0} if figure == "leakage" else {}
    found = counted(api, federation, figure, **own)
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
        assert "the ledger's terms have" in body_of(answer, 422)["errors"][0]["message"]
    # Totals that were set after it was opened hold for its next round.
    epsilon = {"delta": 1e-5, "adjacency": "replace-one", "observer": "server"}
    put(api, federation, 5.0, figure="epsilon", **epsilon)
    answer = reserve(api, before, 1, ["a"], EVENT)
    assert (answer["admitted"], "for an epsilon" in answer["reason"]) == ([], True)
    post(api, before, declared(1, ["a"], EVENT))
    uncounted = {one["mechanism"]: one for one in counted(api, federation, "epsilon")["uncounted"]}
    left_out = uncounted["laplace-l2, declared"]
    assert (left_out["runs"], "counted as leakage" in left_out["why"]) == (1, True)


def test_exact_counts_are_declared_under_no_total_of_what_reports_reveal(api, federation):
    ledger = opened(api, TERMS, federation_id=federation)
    total = {"delta": 1e-9, "adjacency": "add-or-remove-one", "observer": "report"}
    put(api, federation, 1.0, figure="epsilon", **total)
    refused_round = body_of(post(api, ledger, declared(1, ["a"], EVENT, groups=SEX)), 409)
    assert "a round with `groups`" in refused_round["detail"]
    assert "; post it without `groups`, or " in refused_round["detail"]
    body_of(post(api, ledger, declared(1, ["a"], EVENT)))


def test_a_round_without_bound_takes_no_smaller_reservation_with_it(api, federation):
    small, vast = (opened(api, TERMS, federation_id=federation) for _ in range(2))
    assert reserve(api, small, 1, ["a"], EVENT)["reserved"]
    assert reserve(api, vast, 1, ["a"], NONE)["reserved"]
    assert counted(api, federation)["reserved"] == 1e300
    api.request("DELETE", f"/v1/ledgers/{vast}/rounds/1/reservation")
    assert amounts(api, federation)[:2] == (2.0, 0.0)
    post(api, vast, declared(1, ["a"], NONE))
    assert counted(api, federation)["spent"] == 1e300
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
    before = set_epsilon_total(api, federation, 100.0, book="release")
    assert (before["declared"], before["spent"] > 0) == (0.0, True)
    assert "as declared by the trainer" not in signed_in(api).get(f"/federations/{federation}").text

    ledger = opened(api, CENTRAL, federation_id=federation, adjacency="replace-one")
    post(api, ledger, declared(1, ["a"]))
    found = counted(api, federation, "epsilon", observer="final_model")
    # The epsilons are composed, and so come to less than their sum.
    assert found["declared"] == pytest.approx(epsilon(api, ledger), rel=1e-9)
    assert max(before["spent"], found["declared"]) < found["spent"]
    assert found["spent"] < before["spent"] + found["declared"]
    assert "as declared by the trainer" in signed_in(api).get(f"/federations/{federation}").text
