"""Every page on a wide and on a narrow screen: accessible, within its width, and pictured."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_journeys import finished
from tests.browser.visit import Visit, visiting
from tests.cli.service import Service

_WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def pages(browser: Browser, service: Service) -> dict[str, str]:
    """Name -> path of every page that somebody who signed in can see."""
    with visiting(browser, service) as visit:
        visit.sign_in()
        one = finished(visit, name="one-model", hypotheses=1)
        two = finished(visit, name="two-models", hypotheses=2)
        visit.open("/federations")
        href = visit.page.locator("main a[href^='/federations/']").first.get_attribute("href")
    assert href is not None
    ids = "&".join(f"experiment_id={path.rpartition('/')[2]}" for path in (one, two))
    return {
        "experiments": "/",
        "new-experiment": "/experiments/new",
        "experiment": two,
        "report": f"{two}/report",
        "verification": f"{two}/verification",
        "reading-nist": f"{two}/readings/nist-800-226",
        "reading-impact-ratio": f"{two}/readings/impact-ratio",
        "reading-registry": f"{two}/readings/registry",
        "reading-model-card": f"{two}/readings/model-card",
        "compare": f"/compare?{ids}",
        "compare-choice": "/compare",
        "federations": "/federations",
        "federation": href,
    }


@pytest.mark.parametrize("width", _WIDTHS)
def test_pages_are_accessible_and_fit(
    visit: Visit, pages: dict[str, str], pictures: Path, width: int
) -> None:
    page = visit.page
    page.set_viewport_size({"width": width, "height": 900})
    visit.open("/sign-in")
    check(visit, width, pictures / f"sign-in-{width}.png")
    visit.sign_in()
    for name, path in pages.items():
        visit.open(path)
        expect(page.locator("h1")).to_be_visible()
        check(visit, width, pictures / f"{name}-{width}.png")


@pytest.mark.parametrize("name", ["experiments", "new-experiment", "report", "compare"])
def test_pages_are_accessible_in_the_dark(
    browser: Browser, service: Service, pages: dict[str, str], name: str
) -> None:
    with visiting(browser, service, color_scheme="dark") as visit:
        visit.sign_in()
        visit.open(pages[name])
        visit.check_accessibility()


def check(visit: Visit, width: int, picture: Path) -> None:
    """axe-core is content, nothing is wider than the screen, and a picture is taken."""
    visit.check_accessibility()
    found = visit.page.evaluate("document.documentElement.scrollWidth")
    assert found <= width, f"{visit.page.url} is {found} wide on a screen of {width}"
    visit.page.screenshot(path=picture)
