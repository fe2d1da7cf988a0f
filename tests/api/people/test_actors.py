"""Who did what is on record, in the name that the key had then."""

from typing import Any

import pytest

from tests.api.pages.browser import signed_in
from tests.api.people.keys import key_of
from tests.api.service import Api

BUDGET = {"book": "simulation", "figure": "leakage", "total": 100.0}


def _by(name: str | None, key_name: str) -> dict[str, Any]:
    return {"person": name, "key_name": key_name}


def _without_id(actor: dict[str, Any]) -> dict[str, Any]:
    return {name: actor[name] for name in ("person", "key_name")}


def test_a_key_has_a_person_whom_lists_show(api: Api) -> None:
    ada = {"name": "  Ada   Lovelace ", "email": "ada@example.org", "role": "officer"}
    asked = {"name": "ada", "scopes": ["reports:read"], "person": ada}
    made = api.post("/v1/api-keys", json=asked)
    assert made.status_code == 201
    shown = {**ada, "name": "Ada Lovelace"}
    assert made.json()["person"] == shown
    people = [key["person"] for key in api.get("/v1/api-keys").json()["items"]]
    assert people == [None, shown]
    makers = [key["created_by"] for key in api.get("/v1/api-keys").json()["items"]]
    assert makers[0] is None
    assert _without_id(makers[1]) == _by(None, "tests")


def test_a_key_that_can_do_nothing_is_refused(api: Api) -> None:
    answer = api.post("/v1/api-keys", json={"name": "ada", "scopes": ["reports:sign"]})
    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert (fault["pointer"], "add reports:read" in fault["message"]) == ("/scopes", True)


@pytest.mark.parametrize(
    ("person", "pointer"),
    [
        ({"name": " "}, "/person/name"),
        ({"name": "Ada\u202eecalevoL"}, "/person/name"),
        ({"name": "Ada\u200b"}, "/person/name"),
        ({"name": "Ada", "email": "ada"}, "/person/email"),
        ({"name": "Ada", "email": "a\u200bda@example.org"}, "/person/email"),
        ({"name": "Ada", "role": ""}, "/person/role"),
        ({"role": "officer"}, "/person/name"),
    ],
)
def test_a_person_whose_name_deceives_is_refused(api, person, pointer):
    refused = api.post(
        "/v1/api-keys", json={"name": "k", "scopes": ["reports:read"], "person": person}
    )
    assert refused.status_code == 422
    assert [fault["pointer"] for fault in refused.json()["errors"]] == [pointer]


def test_an_experiment_says_who_submitted_cancelled_and_retried_it(api: Api) -> None:
    ada, bob = key_of(api, "Ada"), key_of(api, "Bob")
    submitted = api.submit(key=ada)
    assert _without_id(submitted["created_by"]) == _by("Ada", "Ada's key")
    assert (submitted["cancelled_by"], submitted["cancel_requested_at"]) == (None, None)
    address = f"/v1/experiments/{submitted['id']}"
    api.post(f"{address}/cancel", key=bob)
    # A second request changes nothing, also not who was first.
    api.post(f"{address}/cancel", key=ada)
    cancelled = api.get(address).json()
    assert _without_id(cancelled["cancelled_by"]) == _by("Bob", "Bob's key")
    assert _without_id(cancelled["created_by"]) == _by("Ada", "Ada's key")
    assert cancelled["cancel_requested_at"] is not None
    retried = api.post(f"{address}/retry").json()
    assert _without_id(retried["created_by"]) == _by(None, "tests")
    page = signed_in(api).get(f"/experiments/{submitted['id']}").text
    assert "Ada <" in page
    assert "Bob <" in page
    assert "named by the administrators of their keys" in page


def test_the_history_of_a_federation_says_who_set_what(api_on_both: Api) -> None:
    api = api_on_both
    ada, bob = key_of(api, "Ada"), key_of(api, "Bob")
    address = f"/v1/federations/{api.submit()['federation_id']}"
    api.request("PUT", f"{address}/budget", json=BUDGET, key=ada)
    refused = api.request("PUT", f"{address}/budget", json={**BUDGET, "total": -1}, key=ada)
    assert refused.status_code == 422
    api.request("PUT", f"{address}/budget", json={**BUDGET, "total": None}, key=bob)
    api.request("PUT", f"{address}/disclosure", json={"minimum_group_size": 30}, key=bob)
    api.request("PUT", f"{address}/simulation", json={"simulation": "forbidden"}, key=ada)
    found = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"&cursor={cursor}" if cursor else ""
        page = api.get(f"{address}/history?limit=3{query}").json()
        found += page["items"]
        cursor = page["next_cursor"]
    assert [(one["setting"], one["value"], one["changed_by"]["person"]) for one in found] == [
        ("simulation", {"simulation": "forbidden"}, "Ada"),
        ("disclosure", {"minimum_group_size": 30}, "Bob"),
        ("budget", {**BUDGET, "total": None}, "Bob"),
        ("budget", BUDGET, "Ada"),
    ]
    shown = signed_in(api).get(address.removeprefix("/v1")).text
    assert "budget of leakage in the noise mode simulation: total 100" in shown
    assert "the bound was removed" in shown
