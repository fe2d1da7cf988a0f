"""Whoever may submit specs and not read federations learns nothing of a file's cells."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from api.shared.data_faults import REDACTED
from fedaudit.federations.record_keys import keys_of_contents
from fedaudit.federations.split import held_out_rows
from models.repositories import ExperimentRepository
from tests.api.pages.browser import signed_in
from tests.api.service import Api, body_of
from tests.api.uploads import make_ready, registration, reject, spec_of, upload

EARNINGS = [f"{31 * row % 997}" for row in range(60)]
DOMAIN = [f"{value}" for value in range(1000)]
ROWS = "client,group,earnings,income\n" + "".join(
    f"c{row % 20},{'a' if row % 2 else 'b'},{earned},{row}\n" for row, earned in enumerate(EARNINGS)
)
CONTENT = ROWS.encode()
COLUMNS = {"features": ["earnings"], "client_key": "client", "target": "income"}
AUTHOR = ("experiments:write",)
READER = ("experiments:write", "federations:read")


def declaring(categories: Sequence[str], federation: dict[str, Any]) -> dict[str, Any]:
    """A spec that takes earnings for a category, as the attack does."""
    feature = {"name": "earnings", "kind": "categorical", "categories": list(categories)}
    return spec_of({**COLUMNS, "features": [feature], **federation})


def put_below_sources(api: Api) -> dict[str, Any]:
    return {"path": api.put_source("pay.csv", CONTENT).name}


def validated(api: Api, value: Any, *scopes: str) -> Any:
    """An answer; of one request id, so that equal ones are equal in every character."""
    return api.check(value, key=api.key_with(*scopes), headers={"X-Request-ID": "no-oracle"})


def registered(api: Api, value: Any = None) -> dict[str, Any]:
    """A federation that is ready, of the columns that are to be used."""
    made = upload(api, CONTENT, value or registration(federation=COLUMNS))
    make_ready(api, made["id"])
    return {"id": made["id"]}


def bisections() -> Iterator[Sequence[str]]:
    """The questions that find a cell: each half of the domain, halves of halves, and one value."""
    width = len(DOMAIN) // 2
    while width:
        for start in (0, width, len(DOMAIN) - width):
            yield DOMAIN[start : start + width]
        width //= 2
    yield DOMAIN
    # Everything but one value that is there, and but one that is not.
    yield [value for value in DOMAIN if value != EARNINGS[7]]
    yield [value for value in DOMAIN if value != "998"]


def put_and_registered(api: Api) -> dict[str, Any]:
    federation = put_below_sources(api)
    body = registration(federation={**COLUMNS, **federation})
    make_ready(api, api.post("/v1/federations", json=body).json()["id"])
    return federation


@pytest.mark.parametrize("known", [put_below_sources, registered, put_and_registered])
def test_bisecting_a_cell_by_validation_answers_teaches_nothing(api: Api, known: Any) -> None:
    federation = known(api)
    answers = {
        (answer.status_code, answer.text)
        for categories in bisections()
        for answer in [validated(api, declaring(categories, federation), *AUTHOR)]
    }
    [(status, text)] = answers
    assert status == 422
    assert "federations:read" in text
    assert "row" not in text.lower().replace("/v1", "")


def test_the_same_questions_find_a_cell_with_a_key_that_may_read_data(api: Api) -> None:
    """The attack works where it is no attack, so its failure above says something."""
    federation = put_below_sources(api)
    assert validated(api, declaring(EARNINGS, federation), *READER).status_code == 200
    without = [value for value in EARNINGS if value != EARNINGS[7]]
    [fault] = validated(api, declaring(without, federation), *READER).json()["errors"]
    assert fault["message"].startswith("row 8 ")


def test_a_path_means_what_was_registered_there(api: Api) -> None:
    federation = put_and_registered(api)
    value = spec_of({**COLUMNS, **federation})
    value["fairness"]["minimum_group_size"] = 2
    path = api.put_source("pay.csv", CONTENT.replace(b"c0,", b"c1,"))
    faults = body_of(validated(api, value, *AUTHOR), 422)["errors"]
    assert [fault["message"] for fault in faults] == [REDACTED]
    path.write_bytes(CONTENT)
    accepted = body_of(validated(api, value, *AUTHOR))
    assert accepted["spec"]["federation"]["path"] == federation["path"]


def test_a_registered_file_is_used_as_registered_or_not_at_all(api: Api) -> None:
    value = spec_of({**COLUMNS, **registered(api)})
    value["fairness"]["minimum_group_size"] = 2
    assert validated(api, value, *AUTHOR).status_code == 200
    for where, changes in {
        "/fairness/sensitive/0": {"sensitive": ["earnings"]},
        "/fairness/reference_group": {"reference_group": "zzz"},
        "/fairness/favourable": {"favourable": {"op": "in", "value": ["1"]}},
        "/fairness/minimum_group_size": {"minimum_group_size": 1},
        "/federation/scale": {"scale": {"earnings": 1e-300}},
        "/federation/client_key": {"client_key": "earnings"},
        "/federation/target": {"target": "earnings", "features": ["income"]},
    }.items():
        section = where.split("/")[1]
        other = {**value, section: {**value[section], **changes}}
        problem = body_of(validated(api, other, *AUTHOR), 422)
        assert where in {fault["pointer"] for fault in problem["errors"]}
        shown = {fault["message"] for fault in problem["errors"]}
        assert not any(cell in message for message in shown for cell in ("'a'", "'b'", "zzz"))


def test_a_fault_of_the_data_is_quoted_to_readers_of_data_alone(api: Api) -> None:
    wrong = declaring(["1", "2"], {})["federation"]
    del wrong["validation_fraction"]
    value = declaring(["1", "2"], registered(api, registration(federation=wrong)))
    value["fairness"]["minimum_group_size"] = 2
    quoted = validated(api, value, *READER).json()["errors"]
    assert "row 1 " in json.dumps(quoted)
    redacted = validated(api, value, *AUTHOR).json()["errors"]
    assert redacted == [{"pointer": quoted[0]["pointer"], "message": REDACTED}]
    posted = api.post("/v1/experiments", json=value, key=api.key_with(*AUTHOR))
    assert posted.json()["errors"] == redacted
    form = {"mode": "document", "document": json.dumps(value), "action": "preview"}
    for scopes, shown in ((READER, True), (AUTHOR, False)):
        page = signed_in(api, *scopes).post("/experiments/new", form)
        assert (page.status_code, "row 1 " in page.text) == (422, shown)
        assert ("federations:read" in page.text) is not shown


COINS = {"sampling": "poisson", "rate": 0.5}
BY_RECORD = {"mechanism": "record-personalised", "epsilon_max": 1, "delta": 1e-5, "clip": 1}


def by_coins(federation: dict[str, Any], record: str, fraction: float = 0.999) -> dict[str, Any]:
    """A spec of a seed with which nearly every record is held out, but not this one."""
    keys = keys_of_contents([record.encode()], np.array([0]), ["c7"])
    seed = next(
        seed for seed in range(100_000) if not held_out_rows(keys, fraction=fraction, seed=seed)[0]
    )
    training = {"hypotheses": 1, "rounds": 1, "loss": "mse", "cohort": COINS}
    training["local"] = {"steps": 1, "step_size": 0.1}
    split = {"validation_unit": "record", "validation_fraction": fraction}
    value = spec_of({**COLUMNS, **federation, **split}, training=training, seed=seed, gates=[])
    return {**value, "privacy": {**BY_RECORD, "budgets": {"distribution": "three-levels"}}}


def test_a_chosen_seed_does_not_say_whether_a_known_record_is_there(api: Api) -> None:
    """The coin of a record follows from the seed and its cells."""
    federation = registered(api)
    there, elsewhere = (by_coins(federation, f"{EARNINGS[7]}\x1f{n}") for n in (7, 8))
    found = [validated(api, value, *READER).status_code for value in (there, elsewhere)]
    assert found == [200, 422], "the attack works where it is no attack"
    first, second = (validated(api, value, *AUTHOR) for value in (there, elsewhere))
    assert (first.status_code, first.text) == (second.status_code, second.text)
    [fault] = body_of(first, 422)["errors"]
    assert fault["pointer"] == "/privacy/mechanism"


def attacked(federation: dict[str, Any], least: int) -> dict[str, Any]:
    membership = {"kind": "membership", "method": "threshold"}
    training = {"hypotheses": 1, "rounds": 1}
    value = spec_of({**COLUMNS, **federation}, attacks=[membership], training=training, gates=[])
    return {**value, "fairness": {**value["fairness"], "minimum_group_size": least}}


def test_whether_an_attack_fits_does_not_say_how_many_rows_are_held_out(api: Api) -> None:
    federation = registered(api)
    rows = len(EARNINGS) // 2
    found = [validated(api, attacked(federation, n), *READER) for n in (rows, rows + 1)]
    assert [one.status_code for one in found] == [200, 422]
    refused = [validated(api, attacked(federation, n), *AUTHOR) for n in (3, rows, rows + 1)]
    faults = {
        (fault["pointer"], "federations:read" in fault["message"])
        for one in refused
        for fault in body_of(one, 422)["errors"]
    }
    assert faults == {("/fairness/minimum_group_size", True)}
    assert validated(api, attacked(federation, 2), *AUTHOR).status_code == 200


@pytest.mark.parametrize("refusal", ["disclosure", "simulation"])
def test_what_the_owner_refuses_is_refused_before_the_data_are_read(api: Api, refusal: str) -> None:
    federation = registered(api)
    asked = {
        "disclosure": {"split": {"validation_fraction": 0.5, "seed": 99}},
        "simulation": {"simulation": "forbidden"},
    }[refusal]
    path = f"/v1/federations/{federation['id']}/{refusal}"
    assert api.request("PUT", path, json=asked).status_code == 200
    # One has as many clients to hold out as there are, the other one more than train.
    fits, fails = (spec_of({**COLUMNS, **federation}, gates=[]) for _ in range(2))
    fails["training"] = {**fails["training"], "cohort": {"clients": 11}}
    first, second = (validated(api, value, *AUTHOR) for value in (fits, fails))
    assert first.status_code == {"disclosure": 422, "simulation": 409}[refusal]
    assert (second.status_code, second.text) == (first.status_code, first.text)
    refused = validated(api, fails, *READER)
    assert "/training/cohort/clients" in refused.text


def test_data_that_the_spec_makes_up_are_no_secret(api: Api) -> None:
    value = spec_of({})
    value["federation"] = {"source": "synthetic-linear", "clients": 10, "rows_per_client": 2}
    value["fairness"] = {"favourable": {"op": "in", "value": ["x"]}}
    answer = validated(api, value, *AUTHOR)
    assert answer.status_code == 422
    assert answer.json() == validated(api, value, *READER).json()
    assert REDACTED not in answer.text


@pytest.mark.parametrize("reason", ["invalid-data", "worker-error"])
def test_a_stored_reason_is_quoted_to_readers_of_data_alone(api: Api, reason: str) -> None:
    secret = "/federation/features: row 7 of column 'earnings' is '217'"
    made = api.submit()["id"]
    with api.database.write() as session:
        experiments = ExperimentRepository(session, api.project_id)
        experiments.start_each([made])
        experiments.conclude(made, status="failed", reason=reason, detail=secret)
    blind = api.key_with("experiments:read")
    seeing = api.key_with("experiments:read", "federations:read")
    path = f"/v1/experiments/{made}"
    assert api.get(path, key=seeing).json()["status_detail"] == secret
    assert api.get(path, key=blind).json()["status_detail"] == REDACTED
    # Not the cell alone: ids and times have its digits by chance.
    assert "row 7 of" not in api.get("/v1/experiments", key=blind).text
    assert "row 7 of" in signed_in(api, "experiments:read", "federations:read").get(path[3:]).text
    assert "row 7 of" not in signed_in(api, "experiments:read").get(path[3:]).text


def test_a_registration_does_not_quote_data_to_who_may_only_register(api: Api) -> None:
    header = {"Idempotency-Key": "once"}
    key = api.key_with("federations:write")
    made = upload(api, CONTENT, registration(federation=COLUMNS), headers=header, key=key)
    reject(api, made["id"], "/federation/features", "row 7 of column 'earnings' is '217'")
    again = upload(api, CONTENT, registration(federation=COLUMNS), headers=header, key=key)
    assert again["status"] == "rejected"
    assert again["reasons"] == [{"pointer": "/federation", "message": REDACTED}]
    assert "217" in api.get(f"/v1/federations/{made['id']}").text
