"""Bad input: always a problem document that names the fault, and never anything stored."""

import json
from typing import Any

import pytest

from api.http.problems import MAX_FAULTS
from tests.api.ledgers.trainings import LOCAL
from tests.api.service import SPEC, Api, finished, key_of, spec

BEYOND_64_BITS = 2**64 + 1
UNKNOWN = "01890000-0000-7000-8000-000000000000"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Nothing that a test here stores is in the way of another."""
    return shared_api


def _refused(response: Any, status: int = 422, slug: str = "validation-error") -> list[dict]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert problem["type"].endswith(f"/{slug}")
    assert problem["status"] == status
    assert all((problem["title"], problem["detail"]))
    errors: list[dict] = problem.get("errors", [])
    assert all(error["message"] for error in errors)
    return errors


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (spec(privacy={"surprise": 1}), "/privacy/surprise"),
        (spec(training={"cohort": {"clients": 21}}), "/training/cohort/clients"),
        (spec(training={"rounds": BEYOND_64_BITS}), "/training/rounds"),
        (spec(seed=-BEYOND_64_BITS), "/seed"),
        (spec(name="nul\x00inside"), "/name"),
        (spec(tags=["x"] * 51), "/tags"),
        (spec(fairness={"sensitive": ["group", "age"]}), "/fairness/sensitive/1"),
        (spec(gates=[{"figure": "leakage_max", "op": "le", "value": 10**400}]), "/gates/0/value"),
        (
            spec(federation={"clients_per_group": [10**6] * 2, "rows_per_client": 10**5}),
            "/federation/clients_per_group",
        ),
        *((value, "") for value in ([], "text", None, 7)),
    ],
)
def test_a_faulty_spec_is_refused_by_field(api: Api, value: Any, pointer: str) -> None:
    with api.unchanged():
        sent = {"content": json.dumps(value), "headers": {**JSON, "Idempotency-Key": "k"}}
        for query in ("", "?validate_only=true"):
            errors = _refused(api.post(f"/v1/experiments{query}", **sent))
            assert any(error["pointer"].startswith(pointer) for error in errors), errors


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b'{"name": NaN}', "NaN"),
        (b'{"seed": 1e999}', "too large"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"name": "a", "name": "b"}', "twice"),
        (b'{"name": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'{"name": "\xc3\x28"}', "UTF-8"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested"),
        (json.dumps(SPEC).encode("utf-16"), "UTF-8"),
    ],
)
def test_what_is_not_json_is_refused(api: Api, body: bytes, says: str) -> None:
    with api.unchanged():
        [error] = _refused(api.post("/v1/experiments", content=body, headers=JSON))
        assert error["pointer"] == ""
        assert says in error["message"]


def test_other_media_types_are_refused(api: Api) -> None:
    for media_type in ("application/toml", "text/plain", "", "multipart/form-data"):
        headers = {"Content-Type": media_type}
        response = api.post("/v1/experiments", content=json.dumps(SPEC), headers=headers)
        _refused(response, 415, "unsupported-media-type")


# -- files -----------------------------------------------------------------------------------------

TABLE = {
    "name": "table",
    "federation": {
        **{"source": "table", "path": "rows.csv", "client_key": "clinic"},
        **{"target": "charge", "features": ["age"]},
    },
    "model": {"kind": "linear"},
    "training": {"loss": "mse", "rounds": 2, "cohort": {"clients": 1}},
    "privacy": {"mechanism": "none"},
}
GOOD = b"clinic,age,charge\na,1,2\na,2,3\nb,3,4\nb,4,5\nc,5,6\nc,6,7\n"


def test_a_faulty_file_is_refused_by_field(api: Api) -> None:
    with api.unchanged():
        for content, pointer in (
            (None, "/federation/path"),
            (b"age,charge\n1,2\n2,3\n", "/federation/client_key"),
            (b"\x1f\x8b damaged", "/federation/path"),
            (GOOD.replace(b"a,1,2", b"a,nan,2"), "/federation/features"),
        ):
            if content is not None:
                api.put_source("rows.csv", content)
            [error, *_] = _refused(api.post("/v1/experiments", json=TABLE))
            assert error["pointer"].startswith(pointer)


def test_a_file_that_changes_is_read_again(api: Api) -> None:
    api.put_source("rows.csv", GOOD)
    first, second = api.submit(TABLE), api.submit({**TABLE, "seed": 5})
    api.put_source("rows.csv", GOOD + b"d,7,8\nd,8,9\n")
    third = api.submit(TABLE)
    assert first["federation_id"] == second["federation_id"] != third["federation_id"]
    sizes = [item["clients"] for item in api.get("/v1/federations?limit=2").json()["items"]]
    assert sizes == [4, 3]


# -- parameters ------------------------------------------------------------------------------------


_FAULTY: dict[str, tuple[object, ...]] = {
    "limit": (0, 1001, "x", BEYOND_64_BITS, "9" * 5000),
    "unknown": (1,),
    "leakage_max": (1,),
    "leakage_max[lt]": (1,),
    "leakage_max[lte]": ("nan", "inf", "1e999", ""),
    **dict.fromkeys(("name", "tag"), ("%00",)),
    "federation_id": ("a%00b", "x"),
    "mechanism": ("foo", "%00"),
    "sort": ("secret", "--name"),
    "created_after": ("yesterday", "0001-01-01T00:00:00%2B14:00"),
    "created_before": ("9999-12-31T23:59:59-14:00", "1700000000", "0.5"),
    # The last two are of another list, and without a value.
    "cursor": (
        *("made-up", "%00", "%C3%A9", "A" * 5000, "WzEsICJsZWRnZXIiLCBudWxsLCAwXQ"),
        "WzEsICJleHBlcmltZW50czotY3JlYXRlZF9hdCIsIDFd",
    ),
    "delta": (5, 0, "nan"),
    "adjacency": ("other",),
}
_QUERIES = [
    *((f"{name}={value}", name) for name, values in _FAULTY.items() for value in values),
    *((f"{asked}epsilon_max", "delta") for asked in ("sort=", "sort=-")),
    ("epsilon_max[lte]=1", "delta"),
    ("epsilon[lte]=1&delta=0.1", "epsilon[lte]"),
]
_OF_REPORTS = [(f"{name}=strong", name) for name in ("guarantee", "unit", "observer")]


@pytest.mark.parametrize(
    ("path", "queries"),
    [
        ("/v1/experiments", [*_QUERIES, ("status=done", "status")]),
        ("/v1/reports", [*_QUERIES, *_OF_REPORTS]),
    ],
)
def test_a_faulty_parameter_is_refused_by_name(api, path, queries):
    for query, name in queries:
        [error, *_] = _refused(api.get(f"{path}?{query}"))
        assert error["pointer"] == f"/query/{name}"
        assert " should " not in error["message"]


def test_a_plus_that_was_sent_as_a_space_is_named(api: Api) -> None:
    [error] = _refused(api.get("/v1/experiments?created_after=2026-01-31T12:00:00+02:00"))
    assert "%2B" in error["message"]
    assert api.get("/v1/experiments?created_after=2026-01-31 12:00:00Z").status_code == 200


@pytest.mark.parametrize("text", ["%00", "x", f"{BEYOND_64_BITS}", "..%2F..", "%FF", "a" * 5000])
@pytest.mark.parametrize("rest", ["", "/rounds", "/privacy-ledger", "/events", "/report.html"])
def test_an_id_of_another_form_is_not_found(api: Api, text: str, rest: str) -> None:
    _refused(api.get(f"/v1/experiments/{text}{rest}"), 404, "not-found")


def test_a_parameter_that_is_given_twice_is_refused(api: Api) -> None:
    lists = ("experiments?status=failed&status=succeeded", "artifacts?name=a&limit=1&name=a")
    for path in (*lists, f"experiments/{UNKNOWN}/rounds?limit=1&limit=2"):
        [error] = _refused(api.get(f"/v1/{path}"))
        assert error["pointer"] == f"/query/{path.partition('?')[2].partition('=')[0]}"
        assert error["message"] == "is given twice; keep one"
    with api.unchanged():
        twice = "validate_only=true&validate_only=false"
        [error] = _refused(api.post(f"/v1/experiments?{twice}", json=SPEC))
    assert error["pointer"] == "/query/validate_only"


def test_filters_of_the_ledger_and_the_last_event_id_are_checked(api: Api) -> None:
    path = f"/v1/experiments/{UNKNOWN}/privacy-ledger"
    reversed_ = "round_to=2&round_from=9"
    for query in ("round_from=-1", f"round_to={BEYOND_64_BITS}", "client=%00", reversed_):
        for suffix in ("", ".csv", ".ndjson"):
            [error] = _refused(api.get(f"{path}{suffix}?{query}"))
            assert error["pointer"] == f"/query/{query.partition('=')[0]}"
    events = f"/v1/experiments/{api.submit()['id']}/events"
    for text in ("-1", "x", str(BEYOND_64_BITS), "1.5"):
        [error] = _refused(api.get(events, headers={"Last-Event-ID": text}))
        assert error["pointer"] == "/header/last-event-id"


_BUDGET = {"book": "simulation", "figure": "leakage", "total": 1}
_OF_EPSILON = {"delta": 1e-5, "adjacency": "replace-one", "observer": "server"}
_EPSILON = {**_BUDGET, "figure": "epsilon", **_OF_EPSILON}
_KEY = {"name": "n", "scopes": ["reports:read"]}
_HOOK = {"url": "https://example.org", "events": ["gate.failed"]}
_BY_DISTANCE = {
    **{name: LOCAL[name] for name in ("name", "unit", "population")},
    **{"mechanism": "gaussian-distance", "observer": "final_model"},
}
_RULE = {"op": "ge", "value": 3}


def _named(whole: dict[str, Any], *fields: str, **others: Any) -> list[tuple[dict[str, Any], str]]:
    """A body that lacks each of `fields`, and one with each of `others` in it, with its pointer."""
    changes = {**dict.fromkeys(fields), **others}
    return [({**whole, name: value}, f"/{name}") for name, value in changes.items()]


BODIES: dict[str, list[tuple[Any, str]]] = {
    "/v1/federations/{federation}/budget": [
        *_named(_BUDGET, book="petty cash", delta=0.1, radius=0, clip=0),
        *_named(_BUDGET, total=-1, radius="wide"),
        *_named(_BUDGET, total=10**400),
        ({"book": "simulation", "figure": "leakage"}, "/total"),
        *_named({**_BUDGET, "figure": "log_ratio"}, radius=1, clip=1, delta=1e-5),
        *_named(_EPSILON, "delta", "adjacency", "observer"),
        *_named(_EPSILON, delta=0, adjacency="neighbours", observer="the world"),
        *_named({**_BUDGET, "radius": 0.5, "clip": 0.25}, unit_key="client"),
    ],
    "/v1/federations/{federation}/disclosure": [
        *_named({}, minimum_group_size=0, source="any", size=3),
        *_named({}, favourable={"op": "in", "value": 3}),
        *_named({}, favourable=[{**_RULE, "group": {one: "x"}} for one in "ab"]),
        ({"edges": {"age": [40, 20]}}, "/edges/age"),
        ({"sensitive": ["group"], "edges": {"age": [40]}}, "/edges/age"),
        ({"sensitive": ["a"], "intersections": [["a", "b"]]}, "/intersections/0"),
        ({"split": {"validation_fraction": 0.5}}, "/split/seed"),
        ([], ""),
    ],
    "/v1/gates/evaluations": [
        ({"gates": []}, "/experiment_id"),
        ({"experiment_id": "x", "gates": [{"figure": "luck"}]}, "/gates/0/figure"),
        ({"experiment_id": "x", "more": 1}, "/more"),
        ({"experiment_id": "x", "gates": []}, "/gates"),
    ],
    "/v1/api-keys": [
        *_named(_KEY, scopes=[], name="nul\x00"),
        *_named(_KEY, scopes=["reports:sign"]),
        ({**_KEY, "scopes": ["root"]}, "/scopes/0"),
        *(
            ({**_KEY, "person": {"name": "Ada", **person}}, f"/person/{next(iter(person))}")
            for person in (
                *({"name": name} for name in (None, " ", "A\u202ea", "Ada\u200b")),
                *({"email": "ada"}, {"email": "a\u200bda@example.org"}, {"role": ""}),
            )
        ),
    ],
    "/v1/webhooks": [
        *_named(_HOOK, url="ftp://example.org", events=[], description="x\u202ey"),
        *_named(_HOOK, url="https://ada:secret@example.org", secret="mine"),
        *_named(_HOOK, url="https://169.254.169.254/latest"),
        *_named(_HOOK, url="https://xn--/"),
        ({**_HOOK, "events": ["round.completed"]}, "/events/0"),
    ],
    "/v1/ledgers": [
        *_named(LOCAL, "delta", adjacency="add-or-remove-one", subjects=["a", "b"]),
        *_named(LOCAL, budget={"leakage": 3}, federation_id=UNKNOWN),
        ({**LOCAL, "budget": 3}, "/budget"),
        ({**LOCAL, "mechanism": "gaussian-central"}, "/observer"),
        *_named(_BY_DISTANCE, delta=1e-5, adjacency="replace-one", accountant="rdp"),
        *_named(_BY_DISTANCE, names_participants=False),
    ],
    "/v1/experiments/{finished}/sign-offs": [
        *_named({"decision": "approved"}, note="a\x00b"),
        *_named({"decision": "approved"}, note="a\u202eb"),
        *_named({"decision": "approved"}, note="x" * 4001),
    ],
}


@pytest.mark.parametrize("path", BODIES)
def test_other_bodies_are_checked(api: Api, path: str) -> None:
    ids = {"federation": api.submit()["federation_id"], "finished": finished(api)}
    key = key_of(api, "Ada")
    method = "PUT" if "{federation}" in path else "POST"
    with api.unchanged():
        for body, pointer in BODIES[path]:
            sent = json.dumps(body)
            answer = api.request(method, path.format(**ids), key=key, content=sent, headers=JSON)
            assert pointer in [error["pointer"] for error in _refused(answer)], (body, answer.text)


def test_a_budget_of_one_kind_is_judged_by_that_kind_alone(api: Api) -> None:
    for budget, pointer in (
        ({"epsilon": -1}, "/budget/epsilon"),
        ({"leakage": 0}, "/budget/leakage"),
        ({"leakage": 1, "epsilom": 1}, "/budget/epsilom"),
        ({"epsilon": 1, "leakage": 3}, "/budget/leakage"),
        ({}, "/budget/epsilon"),
    ):
        [error] = _refused(api.post("/v1/ledgers", json={**LOCAL, "budget": budget}))
        assert error["pointer"] == pointer


def test_several_faults_are_counted_and_each_is_shown_once(api: Api) -> None:
    one = api.post("/v1/experiments", json=spec(surprise=1)).json()
    assert one["detail"] == "/surprise: unknown field; remove it or correct its name"
    two = api.post("/v1/experiments", json=spec(surprise=1, seed=-1)).json()
    assert two["detail"] == "2 faults, in /seed, /surprise"
    assert {fault["pointer"] for fault in two["errors"]} == {"/seed", "/surprise"}
    # And no more than anybody reads.
    answer = api.post("/v1/experiments", json={f"field_{number}": 1 for number in range(5000)})
    assert len(_refused(answer)) == MAX_FAULTS
    assert f"; the first {MAX_FAULTS} are shown" in answer.json()["detail"]
    assert len(answer.content) < 20_000
