"""Signing in, staying in, and what ends it."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

from sqlalchemy import select, update

from api.pages.session import local_path
from models.tables.accounts import ApiKey, WebSession
from tests.api.pages.browser import Browser, signed_in
from tests.api.service import Api


def test_a_key_signs_in_and_only_the_hash_of_the_token_is_stored(api: Api) -> None:
    browser = Browser(api)
    answer = browser.sign_in(api.key, "/federations")
    assert (answer.status_code, answer.headers["location"]) == (303, "/federations")
    cookie = answer.headers["set-cookie"].lower()
    assert all(one in cookie for one in ("httponly", "samesite=strict", "max-age=43200"))
    assert "secure" not in cookie
    # The service itself does not take the cookie for a key.
    assert [browser.get(path).status_code for path in ("/", "/v1/experiments")] == [200, 401]
    with api.database.read() as session:
        [row] = session.scalars(select(WebSession)).all()
    assert browser.token is not None
    assert browser.token not in str(vars(row))
    assert row.project_id == api.project_id
    assert abs((row.expires_at - row.created_at).total_seconds() - 12 * 3600) < 5


def test_a_wrong_key_does_not_and_is_not_echoed(api: Api) -> None:
    browser = Browser(api)
    for key in ("", "fa_wrong", "\x00", "Bearer x", "é" * 5000):
        answer = browser.sign_in(key)
        assert answer.status_code == 401
        assert "unknown or revoked" in answer.text
        assert browser.token is None
        assert not key or key not in answer.text


def test_without_a_session_people_are_sent_to_sign_in_and_back(api: Api) -> None:
    browser = Browser(api)
    for path in ("/", "/federations", "/federations/x?saved=true&a=%26"):
        answer = browser.get(path)
        assert answer.status_code == 303
        page = browser.get(answer.headers["location"])
        assert page.status_code == 200
        [back] = re.findall(r'name="next" value="([^"]*)"', page.text)
        assert unescape(back) == path


def test_a_link_from_another_site_finds_the_session_all_the_same(api: Api) -> None:
    """The cookie is not sent with such a request, but with the next one."""
    answer = Browser(api).get("/federations?a=1", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0; url=/federations?a=1"' in answer.text
    assert Browser(api).get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


FOREIGN_TARGETS = (
    *("https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example"),
    *("/\t/evil.example", "/\n/evil.example", "javascript:alert(1)", "", "evil"),
)


def test_no_one_is_sent_to_another_site(api: Api) -> None:
    browser = Browser(api)
    for target in FOREIGN_TARGETS:
        assert local_path(target) == "/"
        assert browser.sign_in(api.key, target).headers["location"] == "/"
        page = browser.client.get("/sign-in", params={"next": target})
        assert 'name="next" value="/"' in page.text


def test_an_expired_session_ends_and_is_removed_with_the_next_sign_in(api_on_both: Api) -> None:
    api = api_on_both
    browser = signed_in(api)
    past = datetime.now(UTC) - timedelta(seconds=1)
    api.change(update(WebSession).values(expires_at=past))
    assert browser.get("/").status_code == 303
    assert api.counts()["web_sessions"] == 1
    signed_in(api)
    assert api.counts()["web_sessions"] == 1


def test_a_session_ends_with_its_key(api: Api) -> None:
    key = api.key_with("experiments:read")
    browser = Browser(api)
    browser.sign_in(key)
    assert browser.get("/").status_code == 200
    with api.database.read() as session:
        ids = dict(session.execute(select(ApiKey.prefix, ApiKey.id)).all())
    assert api.request("DELETE", f"/v1/api-keys/{ids[key[:10]]}").status_code == 204
    assert browser.get("/").status_code == 303
    assert Browser(api).sign_in(key).status_code == 401


def test_signing_out_ends_it_in_the_database_too_and_signing_in_again_the_one_before(
    api: Api,
) -> None:
    browser = signed_in(api)
    before = browser.token
    browser.sign_in(api.key)
    token = browser.token
    assert (token != before, api.counts()["web_sessions"]) == (True, 1)
    answer = browser.post("/sign-out")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
    assert browser.token is None
    browser.client.cookies.set("fedaudit_session", token or "")
    assert browser.get("/").status_code == 303
    assert api.counts()["web_sessions"] == 0
