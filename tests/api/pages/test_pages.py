"""What all pages have in common."""

import re

import pytest
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from api.pages.wording import with_code
from models.repositories import WebSessionRepository
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


def test_what_pages_load_is_there_and_kept_until_it_changes(api: Api) -> None:
    browser = Browser(api)
    found = set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', browser.get("/sign-in").text))
    assert len(found) >= 2
    for address in found:
        answer = browser.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        for other in (address.partition("?")[0], address[:-1] + "x"):
            assert browser.get(other).headers["cache-control"] == "no-cache"
    for outside in ("/assets/nothing.css", "/assets/../templates.py", "/assets/%2e%2e/install.py"):
        assert browser.get(outside).status_code == 404


def test_a_missing_scope_is_a_page_that_names_it(api: Api) -> None:
    browser = signed_in(api, "reports:read")
    for path, scope in (
        ("/experiments/new", "experiments:write"),
        ("/federations", "federations:read"),
    ):
        answer = browser.get(path)
        assert answer.status_code == 403
        assert f"lacks the scope {scope}" in answer.text
        assert "Sign out" in answer.text


def test_errors_of_pages_are_pages_and_those_of_the_api_are_not(api: Api) -> None:
    browser = signed_in(api)
    wrong = browser.get("/?sort=colour", headers={"Accept": "*/*"})
    assert wrong.status_code == 422
    assert "/sort" in wrong.text
    assert wrong.headers["content-type"].startswith("text/html")
    assert browser.get("/?cursor=nonsense").status_code == 422
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
def test_what_stands_between_backticks_is_code(text: str, shown: str) -> None:
    assert with_code(text) == shown
