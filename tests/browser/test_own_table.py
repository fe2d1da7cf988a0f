"""The whole way in a browser: a file of one's own, registered, trained on, read and signed off."""

import re

import yaml
from playwright.sync_api import Browser, expect

from models.values import PROJECT_SCOPES
from tests.browser.visit import visiting
from tests.cli.service import Service
from tests.end_to_end.own_tables import OWN_TABLES

_ENDED_MS = 120_000


def test_from_a_file_to_a_sign_off(browser: Browser, service: Service) -> None:
    """Codes with labels; the other kinds walk the same pages in tests/end_to_end."""
    table = OWN_TABLES["coded"]
    key = service.key_with(*PROJECT_SCOPES, person="Ada Lovelace")
    with visiting(browser, service) as visit:
        page = visit.page
        visit.open("/sign-in")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Sign in").click()
        visit.open("/federations")
        page.get_by_role("link", name="Bring a table").click()
        visit.check_accessibility()
        page.get_by_label("CSV or Parquet").set_input_files(
            {"name": "coded.csv", "mimeType": "text/csv", "buffer": table.content(seed=2)}
        )
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("heading", name="Register coded.csv")).to_be_visible()
        visit.check_accessibility()

        document = page.locator("#document")
        registration = yaml.safe_load(document.input_value())
        document.fill(yaml.safe_dump({**registration, "name": "", "labels": {}}))
        page.get_by_role("button", name="Register").click()
        expect(page.get_by_role("alert")).to_contain_text("2 things to correct")
        assert yaml.safe_load(document.input_value())["labels"] == {}
        visit.check_accessibility()
        table.registration(registration)
        document.fill(yaml.safe_dump({**registration, "name": "coded people"}))
        page.get_by_role("button", name="Register").click()

        expect(page.get_by_role("heading", name="coded people")).to_be_visible()
        new = page.get_by_role("link", name="New experiment")
        while not new.is_visible():
            page.wait_for_timeout(300)
            page.reload()
        expect(page.get_by_text("men (1)").first).to_be_visible()
        new.click()
        page.locator("[name='/training/rounds']").fill("20")
        page.locator("[name='/privacy/noise']").select_option("release")
        page.get_by_role("button", name="What would it cost?").last.click()
        expect(page.locator(".guarantee-formal, .guarantee-suspended").first).to_be_visible()
        page.get_by_role("button", name="Submit").click()
        report = page.get_by_role("link", name="Open the report")
        expect(report).to_be_visible(timeout=_ENDED_MS)
        report.click()
        expect(page.get_by_role("heading", name="May it be released?")).to_be_visible()
        page.get_by_label("Decision").select_option("rejected")
        page.get_by_label(re.compile("^Note")).fill("For the record.")
        page.get_by_role("button", name="Sign off").click()
        expect(page.get_by_text("by Ada Lovelace").first).to_be_visible()
        expect(page.get_by_text("Concerns at that time")).to_be_visible()
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        visit.check_accessibility()
