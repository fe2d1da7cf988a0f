"""Bad input: always a problem document that names the fault, and never anything stored."""

import json
from typing import Any

import pytest

from api.http.problems import MAX_FAULTS
from tests.api.service import SPEC, Api, spec

BEYOND_64_BITS = 2**64 + 1
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
    assert problem["title"]
    assert problem["detail"]
    return problem.get("errors", [])


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (spec(surprise=1), "/surprise"),
        (spec(privacy={"surprise": 1}), "/privacy/surprise"),
        (spec(privacy={"noise_multiplier": -1}), "/privacy/noise_multiplier"),
        (spec(privacy={"noise_multiplier": 0}), "/privacy/noise_multiplier"),
        (spec(privacy={"noise_multiplier": "3"}), "/privacy/noise_multiplier"),
        (spec(privacy={"noise_multiplier": 5e-324}), "/privacy/noise_multiplier"),
        (spec(training={"hypotheses": 6}), "/training/hypotheses"),
        (spec(training={"cohort": {"clients": 21}}), "/training/cohort/clients"),
        (spec(training={"rounds": BEYOND_64_BITS}), "/training/rounds"),
        (spec(training={"rounds": 4.5}), "/training/rounds"),
        (spec(training={"rounds": True}), "/training/rounds"),
        (spec(seed=BEYOND_64_BITS), "/seed"),
        (spec(seed=-BEYOND_64_BITS), "/seed"),
        (spec(name="nul\x00inside"), "/name"),
        (spec(name=""), "/name"),
        (spec(name="x" * 201), "/name"),
        (spec(tags=["nul\x00inside"]), "/tags/0"),
        (spec(tags=["x"] * 51), "/tags"),
        (spec(federation={"source": "elsewhere"}), "/federation"),
        (spec(fairness={"sensitive": ["group", "age"]}), "/fairness/sensitive/1"),
        (
            spec(fairness={"favourable": {"op": "ge", "value": 10**400}}),
            "/fairness/favourable/value",
        ),
        (spec(gates=[{"figure": "leakage_max", "op": "le", "value": 10**400}]), "/gates/0/value"),
        (spec(attacks=[{"kind": "luck"}]), "/attacks/0/kind"),
        (
            {
                **SPEC,
                "federation": {
                    "source": "synthetic-groups",
                    "clients_per_group": [1_000_000, 1_000_000],
                    "rows_per_client": 100_000,
                },
            },
            "/federation/clients_per_group",
        ),
        ({}, "/name"),
        ([], ""),
        ("text", ""),
        (None, ""),
        (7, ""),
    ],
)
@pytest.mark.parametrize("validate_only", ["true", "false"])
def test_a_faulty_spec_is_refused_by_field(api, value, pointer, validate_only):
    before = api.counts()
    response = api.post(
        f"/v1/experiments?validate_only={validate_only}",
        content=json.dumps(value),
        headers={**JSON, "Idempotency-Key": "k"},
    )
    errors = _refused(response)
    assert any(error["pointer"].startswith(pointer) for error in errors), errors
    assert all(error["message"] for error in errors)
    assert api.counts() == before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"name: yaml", "is not JSON"),
        (b'{"name": NaN}', "NaN"),
        (b'{"name": -Infinity}', "Infinity"),
        (b'{"seed": 1e999}', "too large"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"name": "a", "name": "b"}', "twice"),
        (b'{"name": "\\ud800"}', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"name": "\xc3\x28"}', "UTF-8"),
        (b"[" * 100_000, "nested"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested"),
        (json.dumps(SPEC).encode("utf-16"), "UTF-8"),
    ],
)
def test_what_is_not_json_is_refused(api: Api, body: bytes, says: str) -> None:
    before = api.counts()
    [error] = _refused(api.post("/v1/experiments", content=body, headers=JSON))
    assert error["pointer"] == ""
    assert says in error["message"]
    assert api.counts() == before


@pytest.mark.parametrize(
    "media_type", ["application/toml", "text/plain", "", "multipart/form-data"]
)
def test_other_media_types_are_refused(api: Api, media_type: str) -> None:
    headers = {"Content-Type": media_type}
    response = api.post("/v1/experiments", content=json.dumps(SPEC), headers=headers)
    _refused(response, 415, "unsupported-media-type")


# -- files -----------------------------------------------------------------------------------------

TABLE = {
    "name": "table",
    "federation": {
        "source": "table",
        "path": "rows.csv",
        "client_key": "clinic",
        "target": "charge",
        "features": ["age"],
    },
    "model": {"kind": "linear"},
    "training": {"loss": "mse", "rounds": 2, "cohort": {"clients": 1}},
    "privacy": {"mechanism": "none"},
}
GOOD = b"clinic,age,charge\na,1,2\na,2,3\nb,3,4\nb,4,5\nc,5,6\nc,6,7\n"


def _write(api: Api, content: bytes) -> None:
    assert api.settings.sources_dir is not None
    (api.settings.sources_dir / "rows.csv").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (b"age,charge\n1,2\n2,3\n", "/federation/client_key"),
        (b"", "/federation/path"),
        (bytes(range(256)) * 40, "/federation"),
        (b"\x1f\x8b damaged", "/federation/path"),
        (b"clinic\na\nb\n", "/federation"),
        (GOOD.replace(b"a,1,2", b"a,old,2"), "/federation/features"),
        (GOOD.replace(b"a,1,2", b"a,1,dear"), "/federation/target"),
        (GOOD.replace(b"a,1,2", b"a,nan,2"), "/federation/features"),
        (b"clinic,age,charge\na,1,2\n", "/federation"),
        (None, "/federation/path"),
    ],
    ids=[
        *("no client key", "empty", "binary", "damaged gzip", "one column", "text in a feature"),
        *("text in the target", "NaN in a feature", "one client", "no file"),
    ],
)
def test_a_faulty_file_is_refused_by_field(api: Api, content: bytes | None, pointer: str) -> None:
    assert api.settings.sources_dir is not None
    (api.settings.sources_dir / "rows.csv").unlink(missing_ok=True)
    if content is not None:
        _write(api, content)
    before = api.counts()
    [error, *_] = _refused(api.post("/v1/experiments", json=TABLE))
    assert error["pointer"].startswith(pointer)
    assert api.counts() == before


@pytest.mark.parametrize(
    "path", ["../rows.csv", "/etc/passwd", "a/../../rows.csv", "~/x", "a\x00b"]
)
def test_a_path_out_of_the_sources_is_refused(api: Api, path: str) -> None:
    value = {**TABLE, "federation": {**TABLE["federation"], "path": path}}
    [error, *_] = _refused(api.post("/v1/experiments", json=value))
    assert error["pointer"] == "/federation/path"


def test_a_file_that_changes_is_read_again(api: Api) -> None:
    _write(api, GOOD)
    first, second = api.submit(TABLE), api.submit({**TABLE, "seed": 5})
    _write(api, GOOD + b"d,7,8\nd,8,9\n")
    third = api.submit(TABLE)
    assert first["federation_id"] == second["federation_id"] != third["federation_id"]
    sizes = [item["clients"] for item in api.get("/v1/federations?limit=2").json()["items"]]
    assert sizes == [4, 3]


# -- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/query/limit"),
        ("limit=1001", "/query/limit"),
        ("limit=x", "/query/limit"),
        (f"limit={BEYOND_64_BITS}", "/query/limit"),
        (f"limit={'9' * 5000}", "/query/limit"),
        ("unknown=1", "/query/unknown"),
        ("leakage_max=1", "/query/leakage_max"),
        ("leakage_max[lt]=1", "/query/leakage_max[lt]"),
        ("leakage_max[lte]=nan", "/query/leakage_max[lte]"),
        ("leakage_max[lte]=inf", "/query/leakage_max[lte]"),
        ("leakage_max[lte]=1e999", "/query/leakage_max[lte]"),
        ("leakage_max[lte]=", "/query/leakage_max[lte]"),
        ("epsilon_max[lte]=1", "/query/delta"),
        ("status=done", "/query/status"),
        ("name=%00", "/query/name"),
        ("tag=%00", "/query/tag"),
        ("federation_id=a%00b", "/query/federation_id"),
        ("sort=secret", "/query/sort"),
        ("sort=--name", "/query/sort"),
        ("created_after=yesterday", "/query/created_after"),
        ("created_after=0001-01-01T00:00:00%2B14:00", "/query/created_after"),
        ("created_before=9999-12-31T23:59:59-14:00", "/query/created_before"),
        ("created_before=1700000000", "/query/created_before"),
        ("created_before=0.5", "/query/created_before"),
        ("cursor=made-up", "/query/cursor"),
        ("cursor=%00", "/query/cursor"),
        ("cursor=%C3%A9", "/query/cursor"),
        (f"cursor={'A' * 5000}", "/query/cursor"),
        ("cursor=WzEsICJsZWRnZXIiLCBudWxsLCAwXQ", "/query/cursor"),
        ("cursor=WzEsICJleHBlcmltZW50czotY3JlYXRlZF9hdCIsIDFd", "/query/cursor"),
    ],
)
def test_a_faulty_parameter_is_refused_by_name(api: Api, query: str, pointer: str) -> None:
    [error, *_] = _refused(api.get(f"/v1/experiments?{query}"))
    assert error["pointer"] == pointer


@pytest.mark.parametrize("text", ["%00", "x", f"{BEYOND_64_BITS}", "..%2F..", "%FF", "a" * 5000])
@pytest.mark.parametrize("rest", ["", "/rounds", "/privacy-ledger", "/events", "/report.html"])
def test_an_id_of_another_form_is_not_found(api: Api, text: str, rest: str) -> None:
    _refused(api.get(f"/v1/experiments/{text}{rest}"), 404, "not-found")


@pytest.mark.parametrize("query", ["round_from=-1", f"round_to={BEYOND_64_BITS}", "client=%00"])
def test_ledger_filters_are_checked(api: Api, query: str) -> None:
    path = f"/v1/experiments/{api.submit()['id']}/privacy-ledger"
    for suffix in ("", ".csv", ".ndjson"):
        [error] = _refused(api.get(f"{path}{suffix}?{query}"))
        assert error["pointer"] == f"/query/{query.partition('=')[0]}"


@pytest.mark.parametrize("text", ["-1", "x", str(BEYOND_64_BITS), "1.5"])
def test_the_last_event_id_is_checked(api: Api, text: str) -> None:
    path = f"/v1/experiments/{api.submit()['id']}/events"
    [error] = _refused(api.get(path, headers={"Last-Event-ID": text}))
    assert error["pointer"] == "/header/last-event-id"


@pytest.mark.parametrize(
    ("method", "path", "body", "pointer"),
    [
        ("PUT", "budget", {"book": "simulation", "figure": "leakage", "total": -1}, "/total"),
        ("PUT", "budget", {"book": "simulation", "figure": "leakage", "total": 10**400}, "/total"),
        ("PUT", "budget", {"book": "petty cash", "figure": "leakage", "total": 1}, "/book"),
        ("PUT", "budget", {"book": "simulation", "figure": "leakage"}, "/total"),
        (
            "PUT",
            "budget",
            {"book": "simulation", "figure": "leakage", "total": 1, "delta": 0.1},
            "/delta",
        ),
        ("PUT", "budget", {"book": "simulation", "figure": "epsilon", "total": 1}, "/delta"),
        ("POST", "gates", {"gates": []}, "/experiment_id"),
        ("POST", "gates", {"experiment_id": "x", "gates": [{"figure": "luck"}]}, "/gates/0/figure"),
        ("POST", "gates", {"experiment_id": "x", "more": 1}, "/more"),
        ("POST", "keys", {"name": "n", "scopes": []}, "/scopes"),
        ("POST", "keys", {"name": "n", "scopes": ["root"]}, "/scopes/0"),
        ("POST", "keys", {"name": "nul\x00", "scopes": ["admin"]}, "/name"),
    ],
)
def test_other_bodies_are_checked(api, method, path, body, pointer):
    federation_id = api.submit()["federation_id"]
    before = api.counts()
    whole = {
        "budget": f"/v1/federations/{federation_id}/budget",
        "gates": "/v1/gates/evaluations",
        "keys": "/v1/api-keys",
    }[path]
    errors = _refused(api.request(method, whole, content=json.dumps(body), headers=JSON))
    assert pointer in [error["pointer"] for error in errors]
    assert api.counts() == before


def test_several_faults_are_counted_and_told_once(api: Api) -> None:
    one = api.post("/v1/experiments", json=spec(surprise=1)).json()
    assert one["detail"] == "/surprise: unknown field; remove it or correct its name"
    two = api.post("/v1/experiments", json=spec(surprise=1, seed=-1)).json()
    assert two["detail"] == "2 faults, in /seed, /surprise"
    assert {fault["pointer"] for fault in two["errors"]} == {"/seed", "/surprise"}


def test_an_answer_shows_no_more_faults_than_anybody_reads(api: Api) -> None:
    answer = api.post("/v1/experiments", json={f"field_{number}": 1 for number in range(5000)})
    assert len(_refused(answer)) == MAX_FAULTS
    assert f"; the first {MAX_FAULTS} are shown" in answer.json()["detail"]
    assert len(answer.content) < 20_000
