"""Signing in at the pages, by a provider that other people wrote, and by a trusted proxy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from oidc_provider_mock import User, run_server_in_thread
from starlette.testclient import TestClient

from api.pages.session import COOKIE
from tests.api.elsewhere.providers import api_of
from tests.api.pages.browser import Browser, text_of
from tests.api.service import SPEC, Api

PEOPLE = {
    "ada-1": {"name": "Ada Lovelace", "groups": ["analysts", "auditors"]},
    "bob-2": {"name": "Bob\u202e", "email": "bob@example.org", "groups": ["travellers"]},
    "eve-3": {"name": "<b>Eve</b>", "groups": ["visitors"]},
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    users = [User(sub=sub, claims=claims) for sub, claims in PEOPLE.items()]
    with run_server_in_thread(user_claims=users, require_nonce=True) as server:
        yield f"http://localhost:{server.server_port}"


@pytest.fixture
def api(issuer: str, sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    secret = tmp_path / "client-secret"
    secret.write_text("a secret: /+\n")
    with api_of(sqlite_url, tmp_path, oidc_issuer=issuer, oidc_client_secret_file=secret) as made:
        yield made


def begun(browser: Browser, query: str = "") -> str:
    """Where the provider is asked."""
    answer = browser.get(f"/sign-in/elsewhere{query}")
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


def agreed(address: str, person: str) -> str:
    """Where the provider leads back when a person has signed in there."""
    answer = httpx.post(address, data={"sub": person}, trust_env=False)
    return str(answer.headers["location"]).removeprefix("http://testserver")


def test_a_person_signs_in_by_name_and_loses_what_their_groups_lose(api: Api, issuer: str) -> None:
    browser = Browser(api)
    assert f"Sign in at {urlsplit(issuer).hostname}" in text_of(browser.get("/sign-in"))
    address = begun(browser, "?next=/experiments/new")
    asked = parse_qs(urlsplit(address).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == ["http://testserver/sign-in/callback"]
    back = agreed(address, "ada-1")
    answer = browser.get(back)
    assert 'content="0; url=/experiments/new"' in answer.text
    cookies = answer.headers.get_list("set-cookie")
    [session] = [one.lower() for one in cookies if one.startswith(COOKIE)]
    assert "samesite=strict" in session
    assert "httponly" in session
    assert "max-age=28800" in session
    assert "Signed in as Ada Lovelace , project acme" in text_of(browser.get("/"))
    assert browser.get("/experiments/new").status_code == 200
    assert browser.get("/federations").status_code == 403
    # Once only, and in this browser only.
    assert "not begun in this browser" in text_of(browser.get(back))
    assert "not begun in this browser" in text_of(Browser(api).get(back))

    identities: Any = api.client.app.state.resources.identities  # type: ignore[attr-defined]
    del identities._map["analysts"]
    assert browser.get("/experiments/new").status_code == 403
    assert browser.get("/reports").status_code == 200
    identities._map.clear()
    assert browser.get("/").headers["location"] == "/sign-in"
    assert browser.get("/sign-in").status_code == 200


def test_who_has_no_group_or_several_projects_is_told(api: Api) -> None:
    browser = Browser(api)
    answer = browser.get(agreed(begun(browser), "eve-3"))
    assert answer.status_code == 403
    assert "none of your groups opens a project (visitors)" in text_of(answer)
    assert browser.token is None

    choice = browser.get(agreed(begun(browser, "?next=/%2F%2Fevil.example"), "bob-2"))
    assert "Your groups open 2 projects" in text_of(choice)
    assert browser.token is None
    assert 'href="/sign-in/elsewhere?next=%2F&amp;project=beta"' in choice.text
    arrived = browser.get(agreed(begun(browser, "?next=/reports&project=beta"), "bob-2"))
    assert 'url=/reports"' in arrived.text
    # A name that turns the writing is left out for the next one.
    assert "Signed in as bob@example.org , project beta" in text_of(browser.get("/"))
    browser.post("/sign-out")
    assert browser.get("/").status_code == 303


def test_what_another_site_or_the_provider_alone_cannot_do(api: Api, issuer: str) -> None:
    browser = Browser(api)
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert browser.get("/sign-in/elsewhere", headers=foreign).status_code == 403
    mine, theirs = begun(browser), begun(Browser(api))
    state = parse_qs(urlsplit(mine).query)["state"][0]
    code = parse_qs(urlsplit(agreed(theirs, "ada-1")).query)["code"][0]
    # The code of another sign-in brings another nonce.
    answer = browser.get(f"/sign-in/callback?code={code}&state={state}")
    assert answer.status_code == 401
    assert "another sign-in" in text_of(answer)
    for query in ("", "?state=&code=", "?state=%00&code=x", f"?state={state}&code=x"):
        assert browser.get(f"/sign-in/callback{query}").status_code == 401
    mine = begun(browser)
    state = parse_qs(urlsplit(mine).query)["state"][0]
    denied = browser.get(f"/sign-in/callback?error=<b>denied&state={state}")
    assert "answered <b>denied" in text_of(denied)
    assert "<b>" not in denied.text
    for path in ("//evil.example", "/\\evil.example", "https://evil.example"):
        back = agreed(begun(browser, f"?next={path}"), "ada-1")
        assert 'url=/"' in browser.get(back).text


def test_a_provider_that_is_away_is_said(sqlite_url: str, tmp_path: Path) -> None:
    away = {"oidc_issuer": "http://127.0.0.1:9", "oidc_audience": "x"}
    with api_of(sqlite_url, tmp_path, **away) as api:
        answer = Browser(api).get("/sign-in/elsewhere")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert api.get("/v1/experiments", key="a.b.c").status_code in (401, 503)
        assert api.get("/v1/experiments").status_code == 200


PROXY = {
    "proxy_user_header": "X-User",
    "proxy_groups_header": "X-Groups",
    "proxy_name_header": "X-Name",
    "proxy_addresses": "10.0.0.0/8",
    "trusted_proxies": "10.0.0.0/8, 192.0.2.7",
}
ADA = {"X-User": "ada-1", "X-Groups": "analysts, unknown", "X-Name": "Ada Lovelace"}


def from_address(api: Api, address: str) -> Browser:
    browser = Browser(api)
    browser.client = TestClient(
        api.client.app, base_url="http://testserver", client=(address, 1), follow_redirects=False
    )
    return browser


def test_headers_name_a_person_from_the_proxy_alone(sqlite_url: str, tmp_path: Path) -> None:
    with api_of(sqlite_url, tmp_path, **PROXY) as api:
        spoofed = {**ADA, "X-Forwarded-For": "10.0.0.1"}
        for address in ("192.0.2.7", "203.0.113.9", "::ffff:10.0.0.1"):
            elsewhere = from_address(api, address)
            assert elsewhere.client.get("/v1/experiments", headers=spoofed).status_code == 401
            assert elsewhere.get("/sign-in/elsewhere", headers=spoofed).status_code == 404
            assert "Go on as" not in elsewhere.get("/sign-in", headers=spoofed).text
        browser = from_address(api, "10.0.0.1")
        # The proxy's client may have any address.
        via = {**ADA, "X-Forwarded-For": "203.0.113.9"}
        assert browser.client.get("/v1/experiments", headers=via).status_code == 200
        twice = [*ADA.items(), ("X-User", "root")]
        assert browser.client.get("/v1/experiments", headers=twice).status_code == 401
        path, foreign = "/v1/experiments", {**via, "Origin": "https://evil.example"}
        assert browser.client.post(path, json=SPEC, headers=foreign).status_code == 403
        made = browser.client.post(path, json=SPEC, headers=via)
        assert made.json()["created_by"]["key_name"] == "ada-1 at proxy"

        assert "Go on as Ada Lovelace" in text_of(browser.get("/sign-in", headers=via))
        assert 'url=/reports"' in browser.get("/sign-in/elsewhere?next=/reports", headers=via).text
        assert browser.get("/reports", headers=via).status_code == 200
        # The session holds behind the proxy alone, for this person, with the groups of now.
        assert browser.get("/reports").status_code == 303
        assert browser.get("/reports", headers={**via, "X-User": "bob-2"}).status_code == 303
        assert browser.get("/reports", headers={**via, "X-Groups": "travellers"}).status_code == 403
        assert browser.get("/reports", headers={**via, "X-Groups": ""}).status_code == 303
