"""Signing in at the pages, by a provider that other people wrote, and by a trusted proxy."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_provider_mock._app as provider
import pytest
from authlib.oauth2.rfc7636 import CodeChallenge
from oidc_provider_mock import User, run_server_in_thread
from starlette.testclient import TestClient

from api.http.problems import ProblemError
from api.pages.session import COOKIE
from api.shared.identities import utf8
from tests.api.elsewhere.providers import api_of
from tests.api.pages.browser import Browser, text_of
from tests.api.service import SPEC, Api

PEOPLE = {
    "ada-1": {"name": "Ada Lovelace", "groups": ["analysts", "auditors"]},
    # A name that turns the writing is left out for the next one.
    "bob-2": {"name": "Bob\u202e", "email": "bob@example.org", "groups": ["travellers"]},
    "eve-3": {"name": "Eve", "groups": ["<b>visitors"]},
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
    settings = {"oidc_issuer": issuer, "oidc_client_secret_file": secret}
    with api_of(sqlite_url, tmp_path, **settings) as made:
        yield made


def begun(browser: Browser, query: str = "") -> tuple[str, dict[str, list[str]]]:
    """Where the provider is asked, and what."""
    answer = browser.get(f"/sign-in/elsewhere{query}")
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    return address, parse_qs(urlsplit(address).query)


def signed_in(browser: Browser, person: str, query: str = "") -> Any:
    """The answer to a person whom the provider leads back."""
    return browser.get(led_back(begun(browser, query)[0], person))


def led_back(address: str, person: str) -> str:
    answer = httpx.post(address, data={"sub": person}, trust_env=False)
    return str(answer.headers["location"]).removeprefix("http://testserver")


def test_a_person_signs_in_by_name_and_loses_what_their_groups_lose(api: Api) -> None:
    browser = Browser(api)
    answer = signed_in(browser, "ada-1", "?next=/experiments/new")
    assert 'content="0; url=/experiments/new"' in answer.text
    cookies = [one.lower() for one in answer.headers.get_list("set-cookie")]
    [cookie] = [one for one in cookies if one.startswith(COOKIE)]
    assert all(one in cookie for one in ("samesite=strict", "httponly", "max-age=28800"))
    assert "Signed in as Ada Lovelace , project acme" in text_of(browser.get("/"))
    assert browser.get("/experiments/new").status_code == 200
    assert browser.get("/federations").status_code == 403
    identities: Any = api.client.app.state.resources.identities  # type: ignore[attr-defined]
    del identities._map["analysts"]
    statuses = [browser.get(path).status_code for path in ("/experiments/new", "/reports")]
    assert statuses == [403, 200]
    identities._map.clear()
    assert browser.get("/reports").headers["location"] == "/sign-in?next=%2Freports"


def test_who_has_no_group_is_refused_and_who_has_several_projects_chooses(api: Api) -> None:
    browser = Browser(api)
    answer = signed_in(browser, "eve-3")
    assert (answer.status_code, browser.token) == (403, None)
    assert "none of your groups opens a project (<b>visitors)" in text_of(answer)
    assert "<b>" not in answer.text
    choice = signed_in(browser, "bob-2", "?next=//evil.example")
    assert browser.token is None
    assert 'href="/sign-in/elsewhere?next=%2F&amp;project=beta"' in choice.text
    assert 'url=/reports"' in signed_in(browser, "bob-2", "?next=/reports&project=beta").text
    assert "Signed in as bob@example.org , project beta" in text_of(browser.get("/"))
    browser.post("/sign-out")
    assert browser.get("/").status_code == 303
    # The provider's own session is another, and its document names where that ends.
    page = browser.get("/sign-in")
    assert re.search(r'href="(http://[^"]+)\?client_id=[^"]+">sign out there too', page.text)


def test_an_answer_counts_once_in_the_browser_that_asked_and_for_its_sign_in(api: Api) -> None:
    browser, other = Browser(api), Browser(api)
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert browser.get("/sign-in/elsewhere", headers=foreign).status_code == 403
    address, asked = begun(browser)
    assert asked["code_challenge_method"] == ["S256"]
    back = led_back(address, "ada-1")
    assert "not begun in this browser" in text_of(other.get(back))
    assert browser.get(back).status_code == 200
    assert "not begun in this browser" in text_of(browser.get(back))
    # The code of another sign-in brings another nonce.
    code = parse_qs(led_back(begun(other)[0], "ada-1"))["/sign-in/callback?code"][0]
    state = begun(browser)[1]["state"][0]
    mixed = browser.get(f"/sign-in/callback?code={code}&state={state}")
    assert (mixed.status_code, "another sign-in" in text_of(mixed)) == (401, True)
    state = begun(browser)[1]["state"][0]
    assert browser.get(f"/sign-in/callback?code=x&state={state}").status_code == 401
    assert browser.get("/sign-in/callback?state=%00").status_code == 401


def test_a_provider_that_is_away_does_not_keep_keys_out(sqlite_url: str, tmp_path: Path) -> None:
    with api_of(sqlite_url, tmp_path, oidc_issuer="http://127.0.0.1:9", oidc_audience="x") as api:
        assert Browser(api).get("/sign-in/elsewhere").headers["retry-after"] == "10"
        token = "eyJhbGciOiJSUzI1NiJ9.e30.AA"
        assert api.get("/v1/experiments", key=token).status_code == 503
        assert api.get("/v1/experiments").status_code == 200


def test_headers_name_a_person_from_the_proxy_alone(sqlite_url: str, tmp_path: Path) -> None:
    proxy = {
        "proxy_user_header": "X-User",
        "proxy_groups_header": "X-Groups",
        "proxy_addresses": "10.0.0.0/8",
        "trusted_proxies": "10.0.0.0/8, 192.0.2.7",
    }
    ada = {"X-User": "ada-1", "X-Groups": "analysts, unknown"}

    def at(address: str) -> Browser:
        browser = Browser(api)
        browser.client = TestClient(api.client.app, client=(address, 1))
        return browser

    with api_of(sqlite_url, tmp_path, **proxy) as api:
        for address in ("192.0.2.7", "203.0.113.9", "::ffff:10.0.0.1"):
            spoofed = {**ada, "X-Forwarded-For": "10.0.0.1"}
            assert at(address).client.get("/v1/experiments", headers=spoofed).status_code == 401
            assert at(address).get("/sign-in/elsewhere", headers=spoofed).status_code == 404
        # The proxy's client may have any address.
        browser, via = at("10.0.0.1"), {**ada, "X-Forwarded-For": "203.0.113.9"}
        path, foreign = "/v1/experiments", {**via, "Origin": "https://evil.example"}
        twice = [*ada.items(), ("X-User", "root")]
        assert browser.client.get(path, headers=twice).status_code == 401
        with pytest.raises(ProblemError, match="not in UTF-8"):
            utf8("ad\u00e9")
        assert browser.client.post(path, json=SPEC, headers=foreign).status_code == 403
        made = browser.client.post(path, json=SPEC, headers=via).json()
        assert made["created_by"]["key_name"] == "ada-1 at proxy"
        assert "Go on as ada-1" in text_of(browser.get("/sign-in", headers=via))
        assert 'url=/reports"' in browser.get("/sign-in/elsewhere?next=/reports", headers=via).text
        # The session holds behind the proxy alone, for this person, with the groups of now.
        changes: list[tuple[dict[str, str], int]] = [
            ({}, 200),
            ({"X-User": "bob-2"}, 303),
            ({"X-Groups": "travellers"}, 403),
            ({"X-Groups": ""}, 303),
        ]
        for change, answer in changes:
            assert browser.get("/reports", headers={**via, **change}).status_code == answer
        assert browser.get("/reports").status_code == 303


# -- signing in without a client's secret, at a provider that demands the proof of RFC 7636 -------


class _Proof(CodeChallenge):
    SUPPORTED_CODE_CHALLENGE_METHOD: ClassVar = ["S256"]
    announced: ClassVar[dict[str, str]] = {}

    def get_authorization_code_challenge(self, code: Any) -> str:
        return self.announced[code.code]

    def get_authorization_code_challenge_method(self, code: Any) -> str:
        return "S256"


class _PublicGrant(provider.AuthorizationCodeGrant):
    """The mock's grant of codes, to clients that have no secret and prove who asked."""

    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar = ["none"]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        _Proof(required=True)(self)

    def save_authorization_code(self, code: str, request: Any) -> None:
        _Proof.announced[code] = request.payload.data["code_challenge"]
        super().save_authorization_code(code, request)

    def validate_token_request(self) -> None:
        assert "Authorization" not in self.request.headers
        super().validate_token_request()


def test_a_client_without_a_secret_proves_that_it_asked(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr(provider, "AuthorizationCodeGrant", _PublicGrant)
    ada = User(sub="ada-1", claims=PEOPLE["ada-1"])
    with run_server_in_thread(user_claims=[ada], require_nonce=True) as server:
        issuer = f"http://localhost:{server.server_port}"
        with api_of(sqlite_url, tmp_path, oidc_issuer=issuer) as api:
            browser = Browser(api)
            back = led_back(begun(browser)[0], "ada-1")
            with monkeypatch.context() as other:
                other.setattr("api.shared.identities.derived", lambda *_: "y" * 43)
                answer = browser.get(back)
            assert (answer.status_code, "invalid_grant" in text_of(answer)) == (401, True)
            assert signed_in(browser, "ada-1").status_code == 200
            assert "Signed in as Ada Lovelace , project acme" in text_of(browser.get("/"))
