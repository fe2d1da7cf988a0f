"""Replacing a key's secret: the old one opens the key for a while, or not at all."""

from datetime import timedelta

from sqlalchemy import update

from models.clock import utc_now
from models.repositories import WebSessionRepository
from models.tables.accounts import ApiKey
from tests.api.service import Api


def made(api: Api, *scopes: str) -> tuple[str, str]:
    """Id and secret of a key."""
    answer = api.post("/v1/api-keys", json={"name": "ci", "scopes": list(scopes)})
    return answer.json()["id"], answer.json()["key"]


def rotate(api: Api, key_id: str, seconds: int) -> str:
    answer = api.post(f"/v1/api-keys/{key_id}/rotate-secret", params={"overlap_seconds": seconds})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["key"])


def opens(api: Api, secret: str) -> bool:
    return int(api.get("/v1/experiments", key=secret).status_code) == 200


def test_the_old_secret_ends_with_the_overlap_and_the_new_one_goes_on(api: Api) -> None:
    key_id, first = made(api, "experiments:read")
    second = rotate(api, key_id, 3600)
    assert opens(api, first)
    assert opens(api, second)
    third = rotate(api, key_id, 3600)
    assert not opens(api, first), "a third secret opens the key"
    assert opens(api, second)
    with api.database.write() as session:
        over = utc_now() - timedelta(seconds=1)
        session.execute(update(ApiKey).where(ApiKey.id == key_id).values(previous_until=over))
    assert [opens(api, one) for one in (first, second, third)] == [False, False, True]
    entry = api.get("/v1/audit-log", params={"subject": key_id}).json()["items"][0]
    assert (entry["action"], entry["details"]) == ("key.rotated", {"overlap_seconds": 3600})


def test_a_leaked_secret_ends_at_once_with_what_was_begun_with_it(api: Api) -> None:
    key_id, leaked = made(api, "experiments:read")
    api.client.post("/sign-in", data={"key": leaked, "next": "/"}, follow_redirects=False)
    assert api.client.get("/", follow_redirects=False).status_code == 200
    with api.database.write() as session:
        row = session.get_one(ApiKey, key_id)
        earlier = WebSessionRepository(session).begin(row, seconds=600)
    assert [opens(api, one) for one in (leaked, rotate(api, key_id, 0))] == [False, True]
    assert api.client.get("/", follow_redirects=False).status_code != 200, "the session goes on"
    with api.database.read() as session:
        assert WebSessionRepository(session).find(earlier) is None


def test_an_overlap_has_a_bound_and_a_revoked_key_is_not_rotated(api: Api) -> None:
    key_id, secret = made(api, "experiments:read")
    path = f"/v1/api-keys/{key_id}/rotation"
    assert api.post(path, params={"overlap_seconds": 10**6}).status_code == 422
    assert opens(api, secret)
    revoked = api.request("DELETE", f"/v1/api-keys/{key_id}")
    assert (revoked.status_code, revoked.headers.get("content-type")) == (204, None)
    assert not opens(api, secret)
    assert api.post(path).status_code == 404
    assert api.request("DELETE", f"/v1/api-keys/{key_id}").status_code == 404


def test_the_earlier_path_names_its_successor(api: Api) -> None:
    key_id, secret = made(api, "experiments:read")
    answer = api.post(f"/v1/api-keys/{key_id}/rotation", params={"overlap_seconds": 0})
    assert answer.status_code == 200
    assert answer.headers["link"] == '<rotate-secret>; rel="successor-version"'
    assert {"deprecation", "sunset"} <= answer.headers.keys()
    assert not opens(api, secret)
