"""Keys: what they open, and that they open nothing of another project."""

import re
from pathlib import Path
from typing import Any

import pytest

from models.values import SCOPES
from tests.api.artifacts.test_artifacts import send
from tests.api.ledgers.trainings import declared, opened
from tests.api.service import SPEC, Api, all_operations, body_of, finish
from tests.audits.tables import asking, people, write

UNKNOWN = "01890000-0000-7000-8000-000000000000"


OPERATIONS = all_operations()

NEEDED = {
    "/v1/api-keys": ("admin", "admin"),
    "/v1/audit-log": ("admin", "admin"),
    "/v1/audits": ("experiments:read", "experiments:write"),
    "/v1/artifacts": ("experiments:read", "experiments:write"),
    "/v1/comparisons": ("reports:read", "reports:read"),
    "/v1/experiments": ("experiments:read", "experiments:write"),
    "/v1/federations": ("federations:read", "federations:write"),
    "/v1/gates": ("reports:read", "reports:read"),
    "/v1/sweeps": ("experiments:read", "experiments:write"),
    "/v1/ledgers": ("experiments:read", "experiments:write"),
    "/v1/reports": ("reports:read", "reports:read"),
    "/v1/signing-keys": ("reports:read", "admin"),
    "/v1/webhooks": ("admin", "admin"),
}
"""Of a path's beginning: the scope to read and to write."""


def _needed(method: str, path: str) -> str:
    if path == "/v1/audits/{audit_id}/bundle":
        return "reports:read"  # It has no ledger, and nothing that the report does not say.
    found_later = path.endswith(("/attacks/later", "/attacks/later/{later_id}"))
    of_attacks = "/attacks" in path and method == "GET" and not found_later
    confidential = path.endswith("clients") or "/privacy-ledger" in path or of_attacks
    if confidential or path.endswith(("/bundle", "/record-table")):
        return "ledger:read"
    if path.endswith("/sign-offs"):
        return "reports:read" if method == "GET" else "reports:sign"
    if path.endswith(("/erasure", "/model-layout", "{federation_id}/proposals")):
        of_proposal = path.endswith("/proposals")  # It stores nothing.
        return "federations:read" if method == "GET" or of_proposal else "admin"
    of_reports = any(part in path for part in ("/report", "/dossier", "/table"))
    if found_later or of_reports or path.endswith(("/model", "/claims.jsonl")):
        return "reports:read"
    reads, writes = next(scopes for begin, scopes in NEEDED.items() if path.startswith(begin))
    return reads if method == "GET" else writes


def _address(path: str, **names: str) -> str:
    path = path.replace("{position}", "0")
    for name in re.findall(r"{(\w+)}", path.replace("{form}", "").replace("{number}", "")):
        path = path.replace(f"{{{name}}}", names.get(name, UNKNOWN))
    return path.replace("{form}", "csv").replace("{number}", "1")


def _body(path: str, experiment_id: str = UNKNOWN) -> dict[str, Any]:
    by_end = {
        "/budget": {"book": "simulation", "figure": "leakage", "total": 1.0},
        "/erasure": {"reference": "2026-117"},
        "/disclosure": {"minimum_group_size": 30},
        "/simulation": {"simulation": "allowed"},
        "/sign-offs": {"decision": "approved", "note": "a rehearsal"},
    }
    for end, body in by_end.items():
        if path.endswith(end):
            return body
    if path == "/v1/federations/{federation_id}/proposals":
        return {"epsilon": 3}
    if path.startswith("/v1/gates"):
        return {"experiment_id": experiment_id}
    if path.startswith("/v1/webhooks"):
        return {"url": "https://hooks.example.org", "events": ["gate.failed"]}
    return SPEC


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_each_call_needs_a_key_with_its_scope(shared_api: Api, method: str, path: str) -> None:
    api = shared_api
    address, needed = _address(path), _needed(method, path)
    before = api.counts()
    for key in (None, "fa_made-up"):
        response = api.request(method, address, key=key, json=_body(path))
        assert body_of(response, 401)["type"].endswith("/unauthorised")
        assert response.headers["www-authenticate"].startswith("Bearer ")
    others = [scope for scope in SCOPES if scope != needed]
    response = api.request(method, address, key=api.key_with(*others), json=_body(path))
    problem = body_of(response, 403)
    assert problem["type"].endswith("/forbidden")
    assert needed in problem["detail"]
    assert problem["scope"] == needed
    assert f'scope="{needed}"' in response.headers["www-authenticate"]
    assert {**api.counts(), "api_keys": 0} == {**before, "api_keys": 0}
    allowed = api.request(method, address, key=api.key_with(needed), json=_body(path))
    assert allowed.status_code not in (401, 403)


def test_another_scheme_is_no_key(shared_api: Api) -> None:
    api = shared_api
    for value in (f"Basic {api.key}", api.key, "Bearer", "Bearer  ", b"Bearer \xe9"):
        response = api.get("/v1/experiments", key=None, headers={"Authorization": value})
        assert response.status_code == 401


@pytest.fixture
def owned(api: Api) -> dict[str, str]:
    """Ids of one of each kind that a project has."""
    experiment = api.submit()
    finish(api, experiment["id"])
    webhook = api.post("/v1/webhooks", json=_body("/v1/webhooks")).json()["id"]
    swept = {"name": "swept", "base": SPEC, "grid": {"seed": [1, 2]}}
    assert api.settings.sources_dir is not None
    write(api.settings.sources_dir, people(60))
    return {
        "webhook_id": webhook,
        "delivery_id": api.post(f"/v1/webhooks/{webhook}/test").json()["id"],
        "experiment_id": experiment["id"],
        "federation_id": experiment["federation_id"],
        "key_id": api.get("/v1/api-keys").json()["items"][0]["id"],
        "sweep_id": api.post("/v1/sweeps", json=swept).json()["id"],
        "ledger_id": opened(api, rounds=[declared(1, ["a"])]),
        "audit_id": api.post("/v1/audits", json=asking()).json()["id"],
        "artifact_id": send(api).json()["id"],
    }


def test_what_belongs_to_another_project_is_not_found(api: Api, owned: dict[str, str]) -> None:
    for kind in ("experiment", "federation", "sweep", "ledger", "audit", "artifact", "webhook"):
        assert api.get(f"/v1/{kind}s/{owned[f'{kind}_id']}").status_code == 200, kind
    foreign = api.key_with(*SCOPES, project="another")
    with api.unchanged():
        for method, path in OPERATIONS:
            sent = _body(path, owned["experiment_id"])
            if "{" in path:
                response = api.request(method, _address(path, **owned), key=foreign, json=sent)
                assert body_of(response, 404)["type"].endswith("/not-found"), (method, path)
                assert "another" not in response.text, (method, path)
            elif method == "GET":
                response = api.get(path, key=foreign)
            for identifier in owned.values():
                assert identifier not in response.text, (method, path)
    compared = {"experiment_id": [owned["experiment_id"], UNKNOWN]}
    refused = body_of(api.get("/v1/comparisons", params=compared, key=foreign), 404)["detail"]
    assert f"{owned['experiment_id']}: there is no such" in refused
    asked = {"experiment_id": owned["experiment_id"]}
    assert api.post("/v1/gates/evaluations", key=foreign, json=asked).status_code == 404
    # The same data in another project is another federation, with a budget of its own.
    assert api.submit(key=foreign)["federation_id"] != owned["federation_id"]


def test_a_key_is_shown_once(api: Api, tmp_path: Path) -> None:
    asked = {"name": "reader", "scopes": ["reports:read", "reports:read"]}
    response = api.post("/v1/api-keys", json=asked)
    assert response.headers["cache-control"] == "no-store"
    made = body_of(response, 201)
    assert made["scopes"] == ["reports:read"]
    listed = api.get("/v1/api-keys").json()["items"]
    assert [item["name"] for item in listed] == ["tests", "reader"]
    assert all("key" not in item and "hash" not in item for item in listed)
    assert made["key"].encode() not in (tmp_path / "fedaudit.db").read_bytes()
