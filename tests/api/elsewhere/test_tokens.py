"""Bearer tokens of an identity provider: which are taken, and what they may do."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.elsewhere.providers import AUDIENCE, Provider, api_of, new_key, provider
from tests.api.service import SPEC, Api, finished


@pytest.fixture
def issuer() -> Iterator[Provider]:
    with provider() as made:
        yield made


@pytest.fixture
def api(issuer: Provider, sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    with api_of(sqlite_url, tmp_path, oidc_issuer=issuer.issuer, oidc_audience=AUDIENCE) as made:
        yield made


def experiments(api: Api, token: str, **options: Any) -> int:
    return int(api.get("/v1/experiments", key=token, **options).status_code)


def test_only_tokens_of_the_provider_in_force_and_for_this_audience_are_taken(
    api: Api, issuer: Provider
) -> None:
    now = int(time.time())
    assert experiments(api, issuer.token()) == 200
    assert experiments(api, issuer.token(aud=["other", AUDIENCE])) == 200
    public = issuer.keys[0].as_pem(private=False)
    refused = {
        "expired": issuer.token(exp=now - 60),
        "never expires": issuer.token(exp=None),
        "not yet": issuer.token(nbf=now + 600),
        "expiry is no number": issuer.token(exp="9999999999"),
        "another audience": issuer.token(aud="fedaudit-pages"),
        "no audience": issuer.token(aud=None),
        "another issuer": issuer.token(iss="https://login.example.org"),
        "no subject": issuer.token(sub=None),
        "invisible subject": issuer.token(sub="ada-1\u202e"),
        "another key of this name": issuer.token(key=new_key("first")),
        "an unknown key": issuer.token(key=new_key("other")),
        "none": issuer.unsigned("none"),
        "None": issuer.unsigned("None"),
        "a MAC with the public key": issuer.unsigned("HS256", public),
        "cut": issuer.token()[:-3],
        "no token": "a.b.c",
        "a header that is no object": "W10.e30.AA",
        "key": "fa_" + "0" * 43,
    }
    answers = {what: api.get("/v1/experiments", key=token) for what, token in refused.items()}
    assert {what: answer.status_code for what, answer in answers.items()} == dict.fromkeys(
        refused, 401
    )
    assert all("invalid_token" in one.headers["WWW-Authenticate"] for one in answers.values())
    assert api.get("/v1/experiments").status_code == 200


def test_a_new_key_is_found_and_unknown_ones_cause_no_flood(
    api: Api, issuer: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = issuer.token()
    assert experiments(api, old) == 200
    assert issuer.asked == 1
    issuer.keys = [new_key("second")]
    assert [experiments(api, issuer.token(key=new_key(f"{i}"))) for i in range(5)] == [401] * 5
    assert issuer.asked == 1
    monkeypatch.setattr("api.shared.identity_provider._PAUSE_SECONDS", 0.0)
    found = api.client.app.state.resources.identities.provider  # type: ignore[attr-defined]
    found._next_at = 0.0
    assert experiments(api, issuer.token()) == 200
    assert issuer.asked == 2
    assert experiments(api, old) == 401


def test_groups_join_their_scopes_and_several_projects_ask_which(
    api: Api, issuer: Provider
) -> None:
    both = issuer.token(groups=["analysts", "auditors", "unknown"])
    assert api.get("/v1/api-keys", key=both).json()["detail"] == "your groups lack the scope admin"
    submitted = api.post("/v1/experiments", key=both, json=SPEC)
    assert submitted.status_code == 202
    made = submitted.json()["created_by"]
    assert made["person"] == "Ada Lovelace"
    assert made["key_name"] == f"ada-1 at {issuer.issuer}"
    nobody = api.get("/v1/experiments", key=issuer.token(groups=None))
    assert (nobody.status_code, nobody.json()["title"]) == (403, "The API key does not allow this")
    token = issuer.token(groups="travellers")
    which = api.get("/v1/experiments", key=token)
    assert which.status_code == 422
    assert which.json()["errors"][0]["pointer"] == "/header/Fedaudit-Project"
    assert "acme, beta" in which.json()["detail"]
    for project, found in (("acme", 1), ("beta", 0)):
        answer = api.get("/v1/experiments", key=token, headers={"Fedaudit-Project": project})
        assert len(answer.json()["items"]) == found
    assert experiments(api, token, headers={"Fedaudit-Project": "hospital"}) == 422


def test_sign_offs_and_repeats_are_the_persons_and_no_secret_opens_their_row(
    api: Api, issuer: Provider
) -> None:
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
    [row] = [
        one
        for one in api.get("/v1/api-keys", key=admin).json()["items"]
        if one["id"] == signed["key_id"]
    ]
    assert (row["scopes"], row["prefix"], row["person"]["name"]) == ([], "", "Ada Lovelace")
    log = api.get("/v1/audit-log", key=admin).json()["items"]
    assert [(one["action"], one["person"]) for one in log][::-1] == [
        ("key.created", "Ada Lovelace"),
        ("experiment.submitted", "Ada Lovelace"),
        ("experiment.submitted", "Ada Lovelace"),
        ("report.signed-off", "Ada Lovelace"),
    ]
    # Nothing presents the row, nor gives it a secret.
    for guess in (row["id"], f"identity:{row['id']}", ""):
        assert api.get("/v1/experiments", key=guess or "x").status_code == 401
    assert api.post(f"/v1/api-keys/{row['id']}/rotation", key=admin).status_code == 404
    # Another name of the same person is not another person.
    renamed = issuer.token(groups=["analysts"], name="Ada King")
    assert api.post("/v1/experiments", key=renamed, json=SPEC).json()["created_by"] == {
        "key_id": row["id"],
        "key_name": row["name"],
        "person": "Ada King",
    }
    assert api.request("DELETE", f"/v1/api-keys/{row['id']}", key=admin).status_code == 204
    ended = api.get("/v1/experiments", key=token)
    assert (ended.status_code, "ended your access" in ended.json()["detail"]) == (403, True)
