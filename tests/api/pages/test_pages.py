"""What all pages have in common."""

import re
from html import unescape

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from api.pages.wording import with_code
from models.clock import seconds_from_now
from models.repositories import WebSessionRepository
from models.tables.accounts import WebSession
from tests.api.pages.browser import Browser, signed_in
from tests.api.service import Api

PATHS = ("/", "/?status=failed", "/federations", "/sign-in", "/nowhere", "/federations/x")


def test_pages_run_and_load_nothing_foreign(api: Api) -> None:
    browser = signed_in(api)
    for path in PATHS:
        answer = browser.get(path)
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        parts = answer.headers["content-security-policy"].split("; ")
        policy = dict(part.split(" ", 1) for part in parts)
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert not re.search(r"<[^>]+\s(style|on\w+)=", answer.text)
        assert not re.search(r"<script(?![^>]*\ssrc=)", answer.text)
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', answer.text):
            assert address.startswith(("/", "#")), address
            assert not address.startswith("//")


def test_the_navigation_has_six_entries_at_most_and_folds_the_rest(api: Api) -> None:
    shown = signed_in(api).get("/reports").text
    nav = shown.partition('<nav aria-label="Main">')[2].partition("</nav>")[0]
    head, _, more = nav.partition('<details class="more">')
    assert 1 + head.count("<li><a ") == 6
    assert [f'href="{path}"' in more for path in ("/audits", "/ledgers", "/docs")] == [True] * 3


def test_what_pages_load_is_there_and_asked_for_again(api: Api) -> None:
    browser = Browser(api)
    found = set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', browser.get("/sign-in").text))
    assert len(found) >= 2
    for address in found:
        answer = browser.get(address)
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-cache"
    for outside in ("/assets/nothing.css", "/assets/../templates.py", "/assets/%2e%2e/install.py"):
        assert browser.get(outside).status_code == 404


def test_errors_of_pages_are_pages_and_those_of_the_api_are_not(api: Api) -> None:
    browser = signed_in(api)
    wrong = browser.get("/?sort=colour", headers={"Accept": "*/*"})
    assert wrong.status_code == 422
    assert "/sort" in wrong.text
    assert wrong.headers["content-type"].startswith("text/html")
    assert browser.get("/?cursor=nonsense").status_code == 422
    assert browser.get("/experiments").headers["location"] == "/"
    assert browser.get("/federations/../x").headers["content-type"].startswith("text/html")
    for path in ("/v1/experiments", "/v1/nowhere"):
        assert browser.get(path).headers["content-type"] == "application/problem+json"
    lost = browser.get("/nowhere", headers={"Accept": "*/*"})
    assert lost.headers["content-type"] == "application/problem+json"


def test_a_bug_and_an_outage_are_pages_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = signed_in(api)

    def fail(*_arguments: object) -> None:
        raise RuntimeError("secret details")

    monkeypatch.setattr("api.pages.lists.experiment_page", fail)
    with capture_logs() as logs:
        answer = browser.get("/")
    assert answer.status_code == 500
    [instance] = [line["instance"] for line in logs if line["event"] == "request failed"]
    assert instance in answer.text
    assert "secret details" not in answer.text

    def go_away(*_arguments: object) -> None:
        raise OperationalError("SELECT", {}, Exception("secret address"))

    monkeypatch.setattr(WebSessionRepository, "find", go_away)
    answer = browser.get("/")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert "does not answer" in answer.text
    assert "secret address" not in answer.text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use `logistic` or `mlp`", "use <code>logistic</code> or <code>mlp</code>"),
        ("a single ` stays", "a single ` stays"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
        ("nothing", "nothing"),
    ],
)
def test_text_between_backticks_is_code(text: str, shown: str) -> None:
    assert with_code(text) == shown


# -- forms are taken from our own pages alone -----------------------------------------------------


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "null", "Host": ""},
    {"Origin": "http://[broken"},
    {"Origin": "http://testserver:8080"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


def test_another_sites_form_and_one_without_the_right_word_are_refused(api: Api) -> None:
    browser = signed_in(api)
    for headers in FOREIGN:
        answer = browser.post("/sign-out", headers=headers)
        assert answer.status_code == 403, headers
        assert "another site" in answer.text
        assert browser.get("/").status_code == 200
        assert Browser(api).sign_in(api.key, headers=headers).status_code == 403
    foreign_word = signed_in(api).csrf()
    for csrf in (None, "0" * 64, "é", foreign_word, browser.csrf()[:-1]):
        answer = browser.post("/sign-out", csrf=csrf)
        assert answer.status_code == 403
        assert answer.headers["content-type"].startswith("text/html")
    assert browser.get("/").status_code == 200
    assert browser.post("/sign-out").status_code == 303
    # After the session it leads to signing in.
    assert browser.post("/sign-out", csrf="0" * 64).headers["location"] == "/sign-in"


@pytest.mark.parametrize("path", ["/sign-in", "/experiments/new"])
def test_a_form_with_a_file_too_much_or_an_encoding_of_its_own_is_refused(
    api: Api, path: str
) -> None:
    """Half of a surrogate pair would fail wherever the text is encoded again."""
    send = signed_in(api).client.post
    headers = {"Origin": "http://testserver", "Accept": "text/html"}
    assert send(path, files={"csrf": b"x"}, headers=headers).status_code == 415
    assert send(path, content=b"a=" + b"x" * (2 << 20), headers=headers).status_code == 413
    part = b'--B\r\nContent-Disposition: form-data; name="next"\r\n\r\n/\\ud800\r\n--B--\r\n'
    for charset in ("raw_unicode_escape", "unicode_escape", "punycode", "undefined"):
        headers["Content-Type"] = f"multipart/form-data; boundary=B; charset={charset}"
        assert send(path, content=part, headers=headers).status_code == 415


# -- signing in, staying in, and what ends it -----------------------------------------------------


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
    # With a link from another site the cookie is not sent, but with the request after it.
    answer = browser.get("/federations?a=1", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0; url=/federations?a=1"' in answer.text
    assert browser.get("/", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


FOREIGN_TARGETS = (
    *("https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example"),
    *("/\t/evil.example", "/\n/evil.example", "javascript:alert(1)", "", "evil"),
)


def test_no_one_is_sent_to_another_site(api: Api) -> None:
    browser = Browser(api)
    for target in FOREIGN_TARGETS:
        assert browser.sign_in(api.key, target).headers["location"] == "/"
        page = browser.client.get("/sign-in", params={"next": target})
        assert 'name="next" value="/"' in page.text


def test_an_expired_session_ends_and_is_removed_with_the_next_sign_in(api_on_both: Api) -> None:
    api = api_on_both
    browser = signed_in(api)
    api.change(update(WebSession).values(expires_at=seconds_from_now(-1.0)))
    assert browser.get("/").status_code == 303
    assert api.counts()["web_sessions"] == 1
    signed_in(api)
    assert api.counts()["web_sessions"] == 1


def test_a_session_ends_with_its_key(api: Api) -> None:
    made = api.post("/v1/api-keys", json={"name": "x", "scopes": ["experiments:read"]}).json()
    key, browser = made["key"], Browser(api)
    browser.sign_in(key)
    assert browser.get("/").status_code == 200
    assert api.request("DELETE", f"/v1/api-keys/{made['id']}").status_code == 204
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
