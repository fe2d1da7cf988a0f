"""The interactive documentation in a browser."""

from playwright.sync_api import expect

from tests.browser.visit import Visit


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
