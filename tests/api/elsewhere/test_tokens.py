"""Bearer tokens of an identity provider: which are taken, and what they may do."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc.jwk import OctKey

from tests.api.elsewhere.providers import AUDIENCE, Provider, api_of, new_key, provider
from tests.api.service import SPEC, Api, body_of, finished


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def api(issuer: Provider, sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    of_api = {"oidc_issuer": issuer.issuer, "oidc_audience": AUDIENCE}
    with api_of(sqlite_url, tmp_path, **of_api) as made:
        yield made


def status(api: Api, token: str) -> int:
    return int(api.get("/v1/experiments", key=token).status_code)


def test_only_tokens_of_the_provider_in_force_and_for_this_audience_are_taken(api, issuer):
    now = int(time.time())
    assert status(api, issuer.token(aud=["other", AUDIENCE])) == 200
    public = OctKey.import_key(str(issuer.keys[0].as_dict()["n"]))
    refused = {
        "expired": issuer.token(exp=now - 60),
        "never expires": issuer.token(exp=None),
        "expiry is no number": issuer.token(exp="9999999999"),
        "not yet": issuer.token(nbf=now + 600),
        "another audience": issuer.token(aud="fedaudit-pages"),
        "another issuer": issuer.token(iss="https://login.example.org"),
        "no subject": issuer.token(sub=None),
        "invisible subject": issuer.token(sub="ada-1\u202e"),
        "another key of this name": issuer.token(key=new_key("first")),
        "none": issuer.token(key=OctKey.import_key("x"), alg="none"),
        "a MAC with the public key": issuer.token(key=public, alg="HS256"),
        "cut": issuer.token()[:-3],
        "no token": "a.b.c",
        "a header that is no object": "W10.e30.AA",
    }
    answers = {what: api.get("/v1/experiments", key=token) for what, token in refused.items()}
    found = {what: answer.status_code for what, answer in answers.items()}
    assert found == dict.fromkeys(refused, 401)
    assert all("invalid_token" in one.headers["WWW-Authenticate"] for one in answers.values())
    assert api.get("/v1/experiments").status_code == 200


def test_a_new_key_is_found_and_unknown_ones_cause_no_flood(api: Api, issuer: Provider) -> None:
    old = issuer.token()
    assert status(api, old) == 200
    issuer.keys = [new_key("second")]
    assert [status(api, issuer.token()) for _ in range(5)] == [401] * 5
    assert issuer.asked == 1
    identities = api.client.app.state.resources.identities  # type: ignore[attr-defined]
    identities.provider._next_at = 0.0
    assert status(api, issuer.token()) == 200
    assert (issuer.asked, status(api, old)) == (2, 401)


def test_groups_join_their_scopes_and_several_projects_ask_which(api, issuer):
    both = issuer.token(groups=["analysts", "auditors", "unknown"])
    assert "your groups lack the scope admin" in api.get("/v1/api-keys", key=both).json()["detail"]
    assert api.post("/v1/experiments", key=both, json=SPEC).status_code == 202
    assert api.get("/v1/reports?sign_off=none", key=both).status_code == 200
    assert status(api, issuer.token(groups=None)) == 403
    token = issuer.token(groups="travellers")
    [fault] = body_of(api.get("/v1/experiments", key=token), 422)["errors"]
    assert fault == {
        "pointer": "/header/Fedaudit-Project",
        "message": "must name one of your projects: acme, beta",
    }
    for project, answer in (("acme", 200), ("beta", 200), ("hospital", 422)):
        named = {"Fedaudit-Project": project}
        assert api.get("/v1/experiments", key=token, headers=named).status_code == answer


def test_what_is_done_is_the_persons_and_no_secret_opens_their_row(api, issuer):
    token = issuer.token(groups=["analysts", "auditors"])
    admin = api.key_with("admin", project="acme")
    sent = {"key": token, "json": SPEC, "headers": {"Idempotency-Key": "once"}}
    first, second = (api.post("/v1/experiments", **sent).json()["id"] for _ in range(2))
    assert first == second
    api.project_id = api.stored(first).project_id
    id_ = finished(api, key=token)
    stated = {"decision": "approved", "note": "read"}
    signed = api.post(f"/v1/experiments/{id_}/sign-offs", key=token, json=stated).json()
    assert (signed["person"], signed["by_submitter"]) == ("Ada Lovelace", True)
    assert signed["key_name"] == f"ada-1 at {issuer.issuer}"
    log = api.get("/v1/audit-log", key=admin).json()["items"]
    assert [one["action"] for one in log].count("key.created") == 1
    assert {(one["person"], one["key_id"]) for one in log} == {("Ada Lovelace", signed["key_id"])}
    row = f"/v1/api-keys/{signed['key_id']}"
    for guess in (signed["key_id"], f"identity:{signed['key_id']}"):
        assert status(api, guess) == 401
    assert api.post(f"{row}/rotation", key=admin).status_code == 404
    # Another name of the same person is not another person.
    renamed = issuer.token(name="Ada King")
    assert api.post("/v1/experiments", key=renamed, json=SPEC).json()["created_by"] == {
        "key_id": signed["key_id"],
        "key_name": signed["key_name"],
        "person": "Ada King",
    }
    assert api.request("DELETE", row, key=admin).status_code == 204
    assert "ended your access" in api.get("/v1/experiments", key=token).json()["detail"]
