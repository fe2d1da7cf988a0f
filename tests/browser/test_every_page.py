"""Every page on a wide and on a narrow screen: accessible, within its width, and pictured."""

import io
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, expect

from fedaudit_client.client import Client
from tests.api.ledgers.trainings import CENTRAL, declared, group
from tests.api.uploads import CONTENT, REGISTRATION
from tests.browser.test_journeys import finished
from tests.browser.visit import Visit, visiting
from tests.cli.service import Service

ROOT = Path(__file__).parents[2]
_WIDTHS = (1280, 390)
_RULES_OF_LAYOUT = ("color-contrast", "link-in-text-block", "scrollable-region-focusable")
"""Those of axe-core that judge a page otherwise on a narrow screen."""
_OVERLAP = """() => {
    const [places, who] = ['.top nav ul', '.who'].map(one => document.querySelector(one));
    if (!places || !who) return false;
    const [a, b] = [places.getBoundingClientRect(), who.getBoundingClientRect()];
    const right = Math.max(...[...places.children].map(one => one.getBoundingClientRect().right));
    return a.top < b.bottom && b.top < a.bottom && b.left < right;
}"""


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
    with Client(service.url, service.api_key) as client:
        audit = f"/audits/{_audited(client)}"
        ledger = f"/ledgers/{_declared(client)}"
        erasure = _erased(client)
        asked = yaml.safe_load((ROOT / "examples/sweep.yaml").read_text()) | {"repeats": 1}
        asked["base"]["training"]["rounds"] = 20
        sweep = client.wait_sweep(client.submit_sweep(asked)["id"])
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
        "reports": "/reports",
        "federations": "/federations",
        "federation": href,
        "new-federation": "/federations/new",
        "erased": "/federations?status=erased",
        "erasure": erasure,
        "audits": "/audits",
        "audit": audit,
        "audit-verification": f"{audit}/verification",
        "ledgers": "/ledgers",
        "ledger": ledger,
        "ledger-report": f"{ledger}/report",
        "ledger-verification": f"{ledger}/verification",
        "sweeps": "/sweeps",
        "sweep": f"/sweeps/{sweep['id']}?figure=validation_loss",
    }


def _audited(client: Client) -> str:
    asked = {
        "name": "loans",
        "path": "decisions.csv",
        "truth": "repaid",
        "prediction": "approved",
        "sensitive": ["sex"],
        "favourable": "yes",
    }
    audit = client.wait_audit(client.submit_audit(asked)["id"])
    assert audit["status"] == "succeeded", audit
    return audit["id"]


def _declared(client: Client) -> str:
    """A ledger with a round, one that was refused, and groups."""
    terms = {**CENTRAL, "population": 10, "budget": {"epsilon": 30.0}}
    ledger: str = client.create_ledger(terms)["id"]
    groups = {"sex": {"f": group(200, 50, 400, 100), "m": group(500, 50, 300, 100)}}
    client.declare_rounds(ledger, [declared(1, ["a", "b"], failures=["c"], groups=groups)])
    client.reserve_round(
        ledger, 2, event={"kind": "gaussian", "noise_multiplier": 0.1}, participants=["a"]
    )
    return ledger


def _erased(client: Client) -> str:
    """The page of an erasure that is done."""
    federation = client.upload(io.BytesIO(CONTENT), REGISTRATION, file_name="incomes.csv")["id"]
    client.profiled(federation)
    client.erase_federation(federation, reference="request 2026-117")
    return f"/federations/{federation}/erasures/{client.erased(federation)['number']}"


@pytest.mark.parametrize("width", _WIDTHS)
def test_pages_are_accessible_and_fit(visit, pages, pictures, width):
    page = visit.page
    page.set_viewport_size({"width": width, "height": 900})
    visit.open("/sign-in")
    check(visit, width, pictures / f"sign-in-{width}.png")
    visit.sign_in()
    for name, path in pages.items():
        visit.open(path)
        expect(page.locator("h1")).to_be_visible()
        check(visit, width, pictures / f"{name}-{width}.png")


def test_pages_have_contrast_in_the_dark(browser, service, pages):
    with visiting(browser, service, color_scheme="dark") as visit:
        visit.sign_in()
        for name in ("experiments", "new-experiment", "report", "compare", "ledger", "sweep"):
            visit.open(pages[name])
            visit.check_accessibility(("color-contrast", "link-in-text-block"))


def check(visit: Visit, width: int, picture: Path) -> None:
    """axe-core is content, nothing is wider than the screen, and a picture is taken."""
    visit.check_accessibility(() if width == _WIDTHS[0] else _RULES_OF_LAYOUT)
    found = visit.page.evaluate("document.documentElement.scrollWidth")
    assert found <= width, f"{visit.page.url} is {found} wide on a screen of {width}"
    assert not visit.page.evaluate(_OVERLAP), f"{visit.page.url}: the head lies over itself"
    visit.page.screenshot(path=picture)
