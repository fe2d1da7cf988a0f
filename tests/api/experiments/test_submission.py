"""Submitting experiments: what is stored, what is reserved, and that nothing is stored twice."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from fedaudit.reports.page.html import render
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import document_hash, spec_hash
from fedaudit.spec.parse import parse_admitted, parse_spec
from models.tables.experiments import Event, Experiment, Unit
from tests.api.budgets.test_epsilon_budgets import central, set_total
from tests.api.pages.browser import signed_in
from tests.api.pages.test_new_experiment import typed
from tests.api.service import SPEC, Api, body_of, running_api, settings_for, spec, statements
from tests.models.rows import at_once
from tests.workers.serving import work, worker_of
from workers.context import ProjectFiles
from workers.flush import Loaded, load_cell

WORST_CASE = 4.0
"""Of SPEC: a release in each of 4 rounds, at n / nu = 3 / 3."""


def test_an_experiment_is_queued_with_all_that_its_run_needs(api_on_both: Api) -> None:
    api = api_on_both
    response = api.post("/v1/experiments", json=SPEC)
    body = body_of(response, 202)
    assert body.pop("warnings") == []
    assert response.headers["location"] == f"/v1/experiments/{body['id']}"
    assert api.get(response.headers["location"]).json() == body
    assert (body["status"], body["status_reason"]) == ("queued", None)
    assert body["progress"] == {"round": 0, "rounds": 4}
    assert body["tags"] == ["groups", "small"]
    assert body["spec"] == parse_spec(SPEC).model_dump(mode="json")
    assert body["spec_hash"] == spec_hash(parse_spec(SPEC))
    assert body["created_at"].endswith("Z")
    assert body["figures"]["leakage_max"] is None
    assert body["figures"]["reasons"]["leakage_max"] == "the experiment has not ended"
    row = api.stored(body["id"])
    assert (row.parameters, row.noise_multiplier, row.hypotheses) == (3, 3.0, 2)
    assert row.attributes == {"group": ["g1", "g2"]}
    unit = api.row(Unit, row.unit_id)
    assert (unit.state, unit.device, unit.max_attempts) == ("waiting", "auto", 3)
    with api.database.read() as session:
        event = session.scalars(select(Event)).one()
        assert (event.sequence, event.type, event.data["status"]) == (1, "status.changed", "queued")


def test_the_worst_case_is_reserved_on_the_data(api: Api) -> None:
    first, second = api.submit(), api.submit(spec(tags=[]))
    assert first["federation_id"] == second["federation_id"]
    [budget] = api.budgets(first["federation_id"])
    assert (budget["book"], budget["figure"]) == ("simulation", "leakage")
    assert budget["reserved"] == pytest.approx(2 * WORST_CASE, rel=1e-12)
    assert (budget["total"], budget["remaining"]) == (None, None)


@pytest.mark.parametrize("away", [False, True], ids=["broker", "no broker"])
def test_the_queue_is_sent_the_unit_and_a_broker_that_is_away_loses_nothing(
    sqlite_url: str, tmp_path: Path, away: bool
) -> None:
    # Port 1 is reserved and refuses connections.
    broker = {"broker_url": "redis://127.0.0.1:1/0"} if away else {}
    with running_api(settings_for(sqlite_url, tmp_path, **broker)) as api:
        assert api.submit()["status"] == "queued"
        with api.database.read() as session:
            unit = session.scalars(select(Unit)).one()
    assert (unit.state, unit.published_at is None) == ("waiting", away)
    assert len(list(tmp_path.glob("queue/*.fedaudit.auto.msg"))) == (0 if away else 1)


def test_validation_alone_stores_nothing(api: Api) -> None:
    with api.unchanged():
        body = body_of(api.check(SPEC))
        projection = body["projection"]
        assert projection["leakage_worst_case"] == WORST_CASE
        assert projection["leakage_expected"] == pytest.approx(WORST_CASE * 5 / 20)
        assert (projection["epsilon"], projection["budget_ends_in_round"]) == ([], None)
        assert projection["noise_multiplier"] == SPEC["privacy"]["noise_multiplier"]
        assert "client_budget" in projection["reasons"]["budget_ends_in_round"]
        assert (body["clients"], body["training_clients"], body["parameters"]) == (40, 20, 3)
        assert body["spec_hash"] == spec_hash(parse_spec(SPEC))
        assert body["budget"] == {"has_room": True, "detail": None}


def test_bounds_that_protect_no_one_are_answered_with_a_warning(api: Api) -> None:
    gates = [{"figure": "leakage_max", "op": "le", "value": value} for value in (150, 20, 3, 0.9)]
    weak = {**SPEC, "gates": gates}
    for path, asked in (
        ("experiments?validate_only=true", weak),
        ("experiments", weak),
        ("sweeps", {"name": "s", "base": weak, "grid": {"seed": [1, 2]}}),
    ):
        [warning, *missed] = api.post(f"/v1/{path}", json=asked).json()["warnings"]
        assert "leakage_max <= 150 is too large to protect anyone" in warning
        assert "take at most 20" in warning
        assert missed == [
            "gates[3].value: leakage_max may come to 4 in the worst case, and would then miss a "
            "gate of 0.9; take more noise"
        ]
    one_model = {**SPEC, "training": {**SPEC["training"], "hypotheses": 1}}
    privacy = {"mechanism": "gaussian-central", "noise_multiplier": 1.0, "clip": 1.0}
    for delta, said in (
        (0.05, ["privacy.delta: 0.05 is one in as many", "take one far below that, such as 5e-03"]),
        (1e-5, []),
    ):
        asked = {**one_model, "privacy": {**privacy, "delta": delta}}
        found = api.check(asked).json()["warnings"]
        of_delta = " ".join(one for one in found if "delta" in one)
        assert bool(of_delta) == bool(said)
        assert all(words in of_delta for words in said)
    weak = {**one_model, "privacy": {**privacy, "noise_multiplier": 0.01, "delta": 1e-5}}
    assert (
        "for all rounds protects no one; take more noise" in api.check(weak).json()["warnings"][0]
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("minimum_group_size", 100_000, "minimum_group_size: more than all rows"),
        ("intervals", {"samples": 500}, "intervals.samples: changes nothing"),
        ("intervals", None, ""),
    ],
)
def test_what_is_asked_for_in_vain_is_answered_with_a_warning(api, name, value, said):
    asked = {**SPEC, "gates": [], "fairness": {**SPEC["fairness"], name: value}}
    found = [one for one in api.check(asked).json()["warnings"] if one.startswith("fairness")]
    assert found == [] if said == "" else found[0].startswith(f"fairness.{said}")


def test_a_share_in_percent_is_refused_and_what_is_stored_stays_readable(api: Api) -> None:
    in_percent = {**SPEC, "gates": [{"figure": "accuracy", "op": "ge", "value": 70}]}
    [fault] = body_of(api.post("/v1/experiments", json=in_percent), 422)["errors"]
    assert fault["pointer"] == "/gates/0/value"
    assert "for 70 % write 0.7" in fault["message"]
    asked = {"experiment_id": api.submit()["id"], "gates": in_percent["gates"]}
    assert api.post("/v1/gates/evaluations", json=asked).status_code == 422
    stored = parse_spec(SPEC).model_dump(mode="json") | {"gates": in_percent["gates"]}
    assert parse_spec(stored).gates[0].value == 70


# -- budgets ---------------------------------------------------------------------------------------


def test_a_budget_without_room_refuses_and_says_what_is_left(api: Api) -> None:
    federation_id = api.submit()["federation_id"]
    api.set_budget(federation_id, WORST_CASE + 1)
    with api.unchanged():
        once = {"headers": {"Idempotency-Key": "once"}}
        problem = body_of(api.post("/v1/experiments", json=SPEC, **once), 409)
        assert problem["type"].endswith("/budget-exhausted")
        assert problem["remaining"] == pytest.approx(1)
        assert problem["requested"] == WORST_CASE
        assert problem["composed_total"] == pytest.approx(2 * WORST_CASE)
        assert "client_budget" in problem["detail"]
    # The key stands for no experiment, so it is free once there is room.
    api.set_budget(federation_id, 2 * WORST_CASE)
    api.submit(**once)
    # The books are kept apart.
    api.submit(spec(privacy={"noise": "release"}))
    totals = {item["book"]: item["total"] for item in api.budgets(federation_id)}
    assert totals == {"simulation": 2 * WORST_CASE, "release": None}


# -- idempotency -----------------------------------------------------------------------------------


def test_a_repeated_request_gives_the_same_experiment_and_another_body_is_refused(api: Api) -> None:
    key = {"Idempotency-Key": "a key with spaces"}
    first = api.submit(headers=key)
    with api.unchanged():
        # The same JSON in another layout and order is the same body.
        again = api.post("/v1/experiments", json=dict(reversed(SPEC.items())), headers=key)
        assert body_of(again, 202)["id"] == first["id"]
        assert again.headers["location"].endswith(first["id"])
        for other in (spec(seed=8), {"not": "a spec"}):
            refused = body_of(api.post("/v1/experiments", json=other, headers=key), 409)
            assert refused["type"].endswith("/idempotency-mismatch")
    # The key of another caller or route is another key.
    other_key = api.submit(headers=key, key=api.key_with("experiments:write"))
    foreign = api.submit(headers=key, key=api.key_with("experiments:write", project="another"))
    api.post(f"/v1/experiments/{first['id']}/cancel")
    retried = api.post(f"/v1/experiments/{first['id']}/retry", headers=key).json()
    assert len({first["id"], other_key["id"], foreign["id"], retried["id"]}) == 4


def test_simultaneous_repetitions_queue_one_experiment(api_on_both: Api) -> None:
    api = api_on_both
    key = {"Idempotency-Key": "once"}
    assert len(set(at_once(lambda _: api.submit(headers=key)["id"], 6))) == 1
    assert (api.counts()["experiments"], api.counts()["units"]) == (1, 1)


def test_a_key_is_short_printable_text(api: Api) -> None:
    with api.unchanged():
        for key in ("", "x" * 256, "tab\there", "caf\xe9"):
            headers = {"Idempotency-Key": key.encode("latin-1")}
            refused = body_of(api.post("/v1/experiments", json=SPEC, headers=headers), 422)
            assert refused["errors"][0]["pointer"] == "/header/idempotency-key"


@pytest.mark.parametrize("noise", ["release", "simulation"])
def test_statistics_of_all_clients_are_refused_for_a_client(api: Api, noise: str) -> None:
    """The former attack: one client of 100 moved the features of all, and its epsilon was called
    formal. An experiment that was queued before that was refused is not run, and stays readable."""
    table = {"source": "table", "path": "a.csv", "client_key": "town", "target": "y"}
    attacked = {
        **SPEC,
        "federation": {**table, "standardise": "global"},
        "fairness": {},
        "privacy": {**SPEC["privacy"], "noise": noise},
        "gates": [],
    }
    faults = body_of(api.post("/v1/experiments", json=attacked), 422)["errors"]
    assert [one["pointer"] for one in faults] == ["/federation/standardise"]
    key = {"Idempotency-Key": "once"}
    before = api.submit(headers=key)["id"]
    with api.database.write() as session:
        row = session.get(Experiment, before)
        row.spec = parse_admitted(attacked).model_dump(mode="json")
        row.status, row.status_reason = "failed", "worker-lost"
    assert api.get(f"/v1/experiments/{before}").status_code == 200
    assert api.submit(headers=key)["id"] == before
    assert api.post("/v1/gates/evaluations", json={"experiment_id": before}).status_code == 200
    assert api.post(f"/v1/experiments/{before}/retry").status_code == 422
    own = ProjectFiles(worker_of(api), api.project_id)
    with pytest.raises(InvalidInputError, match="/federation/standardise"):
        load_cell(api.database, api.stored(before), own=own, loaded=Loaded())


def test_groups_without_a_rule_are_refused_of_new_specs_and_stored_ones_run(api: Api) -> None:
    favourable = SPEC["fairness"]["favourable"][:1]
    asked = spec(fairness={"favourable": favourable})
    for _ in range(2):  # the second time with the data kept
        [fault] = body_of(api.check(asked), 422)["errors"]
        assert fault["pointer"] == "/fairness/favourable"
        assert fault["message"].startswith("no rule is for group 'g2'")
    before = api.submit()["id"]
    with api.database.write() as session:
        session.get_one(Experiment, before).spec = parse_spec(asked).model_dump(mode="json")
    loaded = Loaded()
    for _ in range(2):
        own = ProjectFiles(worker_of(api), api.project_id)
        cell = load_cell(api.database, api.stored(before), own=own, loaded=loaded)
        assert cell.spec.fairness.favourable == parse_spec(asked).fairness.favourable
    work(api, before)
    assert api.stored(before).status == "succeeded"


# -- how many statements submissions take: they must not grow with what was submitted before ------


def test_statements_grow_neither_with_history_nor_with_cells(api: Api) -> None:
    set_total(api, api.submit(central())["federation_id"], 1e6)
    api.submit(central())
    with statements(api) as early:
        api.submit(central())
    for _ in range(5):
        api.submit(central())
    with statements(api) as late:
        api.submit(central())
    assert len(late) == len(early) <= 25

    sent = {}
    for cells in (2, 6):
        grid = {"tags": [[f"{cells} {place}"] for place in range(cells)]}
        asked = {"name": "cells", "base": central(), "grid": grid}
        with statements(api) as found:
            assert api.post("/v1/sweeps", json=asked).status_code == 202
        sent[cells] = len(found)
    assert sent[2] == sent[6] <= 33


def test_the_totals_of_a_sweep_are_those_of_its_cells_one_by_one(api_on_both: Api) -> None:
    api = api_on_both
    base = spec(privacy={"radius": 0.5, "clip": 1.0})
    federation = api.submit(base)["federation_id"]
    alone = {one["figure"]: one["reserved"] for one in api.budgets(federation)}
    asked = {"name": "cells", "base": base, "grid": {"tags": [["a"], ["b"], ["c"]]}}
    assert api.post("/v1/sweeps", json=asked).status_code == 202
    reserved = {one["figure"]: one["reserved"] for one in api.budgets(federation)}
    assert reserved == {figure: 4 * amount for figure, amount in alone.items()}
    assert reserved.keys() == {"leakage", "log_ratio"}


# -- a budget that is asked for, from the submission to the report --------------------------------

ASKED = 3.0


def asking() -> dict[str, Any]:
    """Four rounds of a trusted server, whose cohort is drawn by coins."""
    made = spec(
        training={"hypotheses": 1, "cohort": {"sampling": "poisson", "rate": 0.25}}, gates=[]
    )
    target = {"epsilon": ASKED, "delta": 1e-4}
    return {**made, "privacy": {"mechanism": "gaussian-central", "clip": 1.0, "target": target}}


@pytest.fixture
def api(sqlite_url: str, tmp_path: Path, signing_key_file: Path) -> Iterator[Api]:
    """A service that has a signing key, as its workers need."""
    settings = settings_for(sqlite_url, tmp_path, signing_key_file=signing_key_file)
    with running_api(settings) as made:
        yield made


def test_stored_spec_ledger_and_report_stay_within_it(api: Api) -> None:
    dry = api.check(asking()).json()
    [entry] = dry["projection"]["epsilon"]
    assert entry["value"] <= ASKED
    submitted = api.submit(asking())
    stored = submitted["spec"]
    assert stored == dry["spec"]
    assert stored["privacy"]["target"] == {"epsilon": ASKED, "delta": 1e-4}
    assert stored["privacy"]["noise_multiplier"] == dry["projection"]["noise_multiplier"]
    assert submitted["spec_hash"] == document_hash(stored)
    work(api, submitted["id"])
    path = f"/v1/experiments/{submitted['id']}"
    ledger = api.get(f"{path}/privacy-ledger.ndjson").text.splitlines()
    assert 0 < json.loads(ledger[-1])["epsilon"] <= ASKED
    report = api.get(f"{path}/report.json").json()
    assert report["spec"] == stored
    privacy = report["privacy"]
    assert (privacy["target"], privacy["target_projected"]) == (ASKED, entry["value"])
    assert privacy["epsilon_max"] <= privacy["target_projected"]
    assert "Budget asked for" in render(report)
    assert f"epsilon = {ASKED:g} " not in report["guarantee"]["statement"]
    verified = api.get(f"{path}/report/verification").json()
    assert verified["valid"], verified["checks"]
    assert "report.target_met" in {one["name"] for one in verified["checks"]}


def test_a_downloaded_spec_is_accepted_and_a_false_claim_is_not(api: Api) -> None:
    stored = api.submit(asking())["spec"]
    assert api.submit(stored)["spec"] == stored
    assert api.submit(parse_spec(asking()).model_dump(mode="json"))["spec"] == stored
    privacy = {**stored["privacy"], "noise_multiplier": stored["privacy"]["noise_multiplier"] / 2}
    answer = api.post("/v1/experiments", json={**stored, "privacy": privacy})
    [fault] = body_of(answer, 422)["errors"]
    assert fault["pointer"] == "/privacy/noise_multiplier"
    assert "does not meet privacy.target" in fault["message"]


def test_each_cell_of_a_sweep_is_solved_by_itself(api: Api) -> None:
    axis = "privacy.target.epsilon"
    made = {"name": "budgets", "base": asking(), "grid": {axis: [1.0, 2.0]}}
    cells = api.post("/v1/sweeps", json=made).json()["cells"]
    specs = [api.stored(one["experiment_id"]).spec["privacy"] for one in cells]
    assert [one["target"]["epsilon"] for one in specs] == [1.0, 2.0]
    assert specs[0]["noise_multiplier"] > specs[1]["noise_multiplier"]
    answer = api.post("/v1/sweeps", json={**made, "grid": {axis: [1e-5]}})
    assert answer.json()["errors"][0]["pointer"] == f"/grid/{axis}"


def test_the_form_has_a_budget_in_place_of_the_multiplier(api: Api) -> None:
    answer = signed_in(api).post("/experiments/new", typed(**{"/privacy/target/leakage": "2"}))
    # 4 rounds of 3 parameters: 12 / nu.
    assert "noise_multiplier: 6.0" in answer.text
    assert "leakage: 2" in answer.text
    assert "found for the budget that was asked for" in answer.text
