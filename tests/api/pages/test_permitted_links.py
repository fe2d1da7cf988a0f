"""No page links to one that the visitor's key does not open: every link is followed."""

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import urljoin, urlsplit

import pytest

from api.shared.page_printer import PagePrinter
from models.values import SCOPES
from tests.api.ledgers.trainings import declared, opened
from tests.api.pages.browser import Browser, printed, signed_in
from tests.api.service import Api, finish, finished, spec

_REFERENCE = re.compile(r'<(?:a|link|img|script)\b[^>]*?\b(?:href|src)="([^"]*)"')
_GET_FORM = re.compile(r'<form\b[^>]*method="get"[^>]*action="([^"]*)"')
_IDENTIFIER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FILES = ("/docs/assets/", "/assets/")
_PICTURES = (".png", ".svg")


class Filled(NamedTuple):
    """An API, what was stored in it, and what a key with every scope finds."""

    api: Api
    reports: list[str]
    ledger: str
    sweep: str
    seen: dict[str, int]


@pytest.fixture(scope="module")
def filled(shared_api: Api) -> Iterator[Filled]:
    """Something of each kind that a page may lead to."""
    api = shared_api
    ids = [finished(api, spec(name=name)) for name in ("first", "second")]
    cancelled = api.submit(spec(name="cancelled"))["id"]
    api.post(f"/v1/experiments/{cancelled}/cancel")
    api.post(f"/v1/experiments/{cancelled}/retry")
    ledger = opened(api, rounds=[declared(1, ["a"])])
    swept = {"name": "swept", "base": spec(), "grid": {"privacy.noise_multiplier": [1, 3]}}
    sweep = api.post("/v1/sweeps", json=swept).json()
    finish(api, sweep["cells"][0]["experiment_id"])
    with patch.object(PagePrinter, "pdf", printed):
        yield Filled(api, ids, ledger, sweep["id"], _seen_by(signed_in(api)))


@pytest.mark.parametrize(
    "scopes",
    [
        ("reports:read",),
        ("experiments:read",),
        ("experiments:write", "federations:read"),
        ("federations:write",),
        ("ledger:read",),
        (),
    ],
    ids=lambda scopes: "+".join(scopes) or "every scope",
)
def test_every_link_leads_somewhere(filled, scopes):
    api, ids, ledger, sweep, seen_by_all = filled
    seen = _seen_by(signed_in(api, *scopes)) if scopes else dict(seen_by_all)
    expected = 403 if scopes == ("ledger:read",) else 200
    assert seen.pop("/") == expected
    assert {path: status for path, status in seen.items() if status >= 400} == {}
    if "experiments:read" in scopes:
        assert f"/ledgers/{ledger}" in seen
    if "reports:read" in scopes:
        assert {f"/experiments/{one}/report" for one in ids} <= set(seen)
    if scopes == ("federations:write",):
        assert "/federations/new" in seen
    reads = not scopes or "experiments:read" in scopes
    assert (f"/sweeps/{sweep}" in seen) == reads
    assert any("/table.csv" in path for path in seen) == (not scopes)
    if scopes == ("reports:read",):
        assert not any(path.startswith("/federations") for path in seen)
        assert "/experiments/new" not in seen


def test_another_project_finds_no_page_of_what_is_not_its_own(filled: Filled) -> None:
    stranger = Browser(filled.api)
    stranger.sign_in(filled.api.key_with(*SCOPES, project="another"))
    named = [path for path in filled.seen if _IDENTIFIER.search(urlsplit(path).path)]
    kinds = ("experiments", "federations", "ledgers", "sweeps")
    assert {path.split("/")[1] for path in named} >= set(kinds)
    assert {path: stranger.get(path).status_code for path in named} == dict.fromkeys(named, 404)
    for kind in (*kinds, "reports"):
        assert not _IDENTIFIER.search(stranger.get(f"/{kind}").text)


def test_a_refusal_names_the_scope_and_leads_to_a_page_that_the_key_opens(filled: Filled) -> None:
    for scope in ("reports", "federations"):
        answer = signed_in(filled.api, f"{scope}:read").get("/")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/{scope}")
    for scope, path, *words in (
        ("reports:read", "/federations", "lacks the scope federations:read",
         'class="button" href="/reports">To the reports<'),
        ("experiments:read", "/experiments/new", "lacks the scope experiments:write"),
        ("ledger:read", "/", "opens no page"),
        ("admin", "/", "opens no page"),
    ):  # fmt: skip
        answer = signed_in(filled.api, scope).get(path)
        assert answer.status_code == 403
        assert [one for one in (*words, "Sign out") if one not in answer.text] == []


def _seen_by(visitor: Browser) -> dict[str, int]:
    """Every address that can be reached by links and GET forms, with its status."""
    waiting, seen = ["/"], {"/": 0}
    while waiting:
        path = waiting.pop()
        answer = visitor.get(path, follow=True)
        seen[path] = answer.status_code
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        found = [*_REFERENCE.findall(answer.text), *_GET_FORM.findall(answer.text)]
        base = str(answer.request.url)
        for reference in found:
            address = urlsplit(urljoin(base, html.unescape(reference)))
            to = address.path + (f"?{address.query}" if address.query else "")
            if (
                address.scheme == "http"
                and to not in seen
                and not to.startswith(_FILES)
                and not to.endswith(_PICTURES)
            ):
                seen[to] = 0
                waiting.append(to)
    return seen
