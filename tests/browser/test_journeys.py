"""What people do at the pages, from the form to two reports side by side."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.visit import Visit, visiting
from tests.cli.service import Service

_ENDED_MS = 120_000


def fill(visit: Visit, *, name: str, hypotheses: int, rounds: int) -> None:
    """The form for a small experiment on synthetic groups."""
    page = visit.page
    visit.open("/experiments/new")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Source").select_option("synthetic-groups")
    page.locator("[name='/training/hypotheses']").fill(str(hypotheses))
    page.locator("[name='/training/rounds']").fill(str(rounds))
    page.locator("[name='/training/cohort/clients']").fill("40")


def finished(visit: Visit, *, name: str, hypotheses: int) -> str:
    """Submits an experiment, waits for its end, and gives its path."""
    fill(visit, name=name, hypotheses=hypotheses, rounds=30)
    visit.page.get_by_role("button", name="Submit").click()
    expect(visit.page.get_by_role("link", name="Open the report")).to_be_visible(timeout=_ENDED_MS)
    return re.sub(r"[?#].*", "", visit.page.url).removeprefix(visit.service.url)


@pytest.fixture(scope="module")
def pair(browser: Browser, service: Service) -> tuple[str, str]:
    """The paths of two experiments with reports."""
    with visiting(browser, service) as visit:
        visit.sign_in()
        return (
            finished(visit, name="one-model", hypotheses=1),
            finished(visit, name="two-models", hypotheses=2),
        )


def test_from_the_form_to_the_report(visit: Visit) -> None:
    visit.sign_in()
    fill(visit, name="by-form", hypotheses=2, rounds=60)
    page = visit.page
    page.get_by_role("button", name="What would it cost?").click()
    expect(page.get_by_role("heading", name="What it would cost")).to_be_visible()
    expect(page.get_by_text("Nothing was stored")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("by-form")
    visit.check_accessibility()

    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="by-form")).to_be_visible()
    # It ends before our eyes: nobody loads the page anew.
    expect(page.get_by_role("link", name="Open the report")).to_be_visible(timeout=_ENDED_MS)
    expect(page.locator("#progress-text")).to_contain_text("Training ended with round")
    expect(page.locator("#curves svg").first).to_be_visible()
    visit.check_accessibility()

    page.get_by_role("link", name="Open the report").click()
    expect(page.get_by_role("heading", name="May it be released?")).to_be_visible()
    expect(page.get_by_role("heading", name="What this does not show")).to_be_visible()
    page.get_by_role("navigation", name="Report").get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Verification", exact=True).click()
    expect(page.get_by_text("agree with one another")).to_be_visible()


def test_a_spec_is_pasted_and_its_fault_is_named(visit: Visit) -> None:
    visit.sign_in()
    visit.open("/experiments/new")
    page = visit.page
    page.get_by_label("Paste YAML or JSON").check()
    spec = (Path(__file__).parents[2] / "examples" / "synthetic-linear.yaml").read_text()
    box = page.get_by_label("YAML or JSON", exact=True)
    box.fill(re.sub(r"noise_multiplier: \S+", "noise_multiplier: -1", spec))
    page.get_by_role("button", name="What would it cost?").click()
    expect(page.get_by_role("alert")).to_contain_text("noise_multiplier: must be greater than 0")
    expect(box).to_have_value(re.compile("noise_multiplier: -1"))
    box.fill(spec)
    page.get_by_role("button", name="What would it cost?").click()
    expect(page.get_by_role("heading", name="What it would cost")).to_be_visible()


def test_a_run_is_cancelled_from_its_page(visit: Visit) -> None:
    visit.sign_in()
    fill(visit, name="too-long", hypotheses=2, rounds=100_000)
    page = visit.page
    page.locator("[name='/training/stopping/patience']").fill("100000")
    page.get_by_role("button", name="Submit").click()
    expect(page.locator("#progress-text")).to_contain_text("Round ", timeout=_ENDED_MS)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#status")).to_contain_text("cancelled", timeout=_ENDED_MS)
    expect(page.get_by_text("cancelled-by-caller")).to_be_visible()


def test_two_reports_are_compared_from_the_list(visit: Visit, pair: tuple[str, str]) -> None:
    visit.sign_in()
    page = visit.page
    for path in pair:
        page.locator(f"input[type=checkbox][value='{path.rpartition('/')[2]}']").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", name="2 experiments side by side")).to_be_visible()
    expect(page.get_by_text("On the front:", exact=False).first).to_be_visible()
    expect(
        page.get_by_role("region", name="Differences of the specs").get_by_text(
            "training.hypotheses"
        )
    ).to_be_visible()
    page.get_by_role("link", name="two-models").first.click()
    expect(page.get_by_role("heading", name="two-models")).to_be_visible()


# -- the interactive documentation in a browser ---------------------------------------------------


def test_a_call_can_be_tried_from_the_documentation(visit: Visit) -> None:
    visit.open("/docs")
    page = visit.page
    page.get_by_role("button", name="Authorize").first.click()
    page.locator(".auth-container input").first.fill(visit.service.api_key)
    page.locator(".auth-container").get_by_role("button", name="Apply credentials").click()
    page.get_by_role("button", name="Close").first.click()

    call = page.locator("[id$='list_experiments']")
    call.locator(".opblock-summary-control").click()
    call.get_by_role("button", name="Try it out").click()
    call.get_by_role("button", name="Execute").click()
    answer = call.locator(".live-responses-table .response")
    expect(answer.locator(".response-col_status").first).to_contain_text("200")
    expect(answer).to_contain_text('"items"')
