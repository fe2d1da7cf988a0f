"""Forms are taken from our own pages alone."""

import pytest

from tests.api.pages.browser import Browser, signed_in
from tests.api.service import Api

FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://[broken"},
    {"Origin": "http://testserver:8080"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


def test_another_sites_form_is_refused(api: Api) -> None:
    browser = signed_in(api)
    for headers in FOREIGN:
        answer = browser.post("/sign-out", headers=headers)
        assert answer.status_code == 403, headers
        assert "another site" in answer.text
        assert browser.get("/").status_code == 200
        assert Browser(api).sign_in(api.key, headers=headers).status_code == 403


def test_a_form_without_the_word_or_with_a_wrong_one_is_refused(api: Api) -> None:
    browser = signed_in(api)
    foreign_word = signed_in(api).csrf()
    for csrf in (None, "0" * 64, "é", foreign_word, browser.csrf()[:-1]):
        answer = browser.post("/sign-out", csrf=csrf)
        assert answer.status_code == 403
        assert answer.headers["content-type"].startswith("text/html")
    assert browser.get("/").status_code == 200
    assert browser.post("/sign-out").status_code == 303


def test_a_form_after_the_session_leads_back_to_its_page(api: Api) -> None:
    browser = Browser(api)
    answer = browser.post(
        "/sign-out", csrf="0" * 64, headers={"Referer": "http://testserver/federations?a=1"}
    )
    assert answer.headers["location"] == "/sign-in?next=%2Ffederations%3Fa%3D1"
    answer = browser.post(
        "/sign-out", csrf="0" * 64, headers={"Referer": "https://evil.example/federations"}
    )
    assert answer.headers["location"] == "/sign-in"


def test_a_form_with_a_file_or_too_much_is_refused(api: Api) -> None:
    browser = signed_in(api)
    headers = {"Origin": "http://testserver", "Accept": "text/html"}
    sent = browser.client.post("/sign-out", files={"csrf": b"x"}, headers=headers)
    assert sent.status_code == 415
    sent = browser.client.post("/sign-out", content=b"a=" + b"x" * (2 << 20), headers=headers)
    assert sent.status_code == 413


@pytest.mark.parametrize(
    "charset", ["raw_unicode_escape", "unicode_escape", "punycode", "undefined"]
)
def test_a_form_in_an_encoding_of_its_own_is_refused(api: Api, charset: str) -> None:
    """Half of a surrogate pair would fail wherever the text is encoded again."""
    part = b'--B\r\nContent-Disposition: form-data; name="next"\r\n\r\n/\\ud800\r\n--B--\r\n'
    headers = {
        "Origin": "http://testserver",
        "Content-Type": f"multipart/form-data; boundary=B; charset={charset}",
    }
    for browser, path in ((Browser(api), "/sign-in"), (signed_in(api), "/experiments/new")):
        assert browser.client.post(path, content=part, headers=headers).status_code == 415
