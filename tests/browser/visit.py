"""A visitor of the pages, and what must never happen while it looks around."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.cli.service import Service

_SERIOUS = ("serious", "critical")


@dataclass
class Visit:
    """One browser context with one page."""

    page: Page
    service: Service
    strangers: list[str] = field(default_factory=list)
    """Requests to any other host."""
    errors: list[str] = field(default_factory=list)
    """Errors on the console, and exceptions that no script caught."""

    def sign_in(self) -> None:
        """Sign in with the service's first key, by the form."""
        self.page.goto(f"{self.service.url}/sign-in")
        self.page.get_by_label("API key").fill(self.service.api_key)
        self.page.get_by_role("button", name="Sign in").click()

    def open(self, path: str) -> None:
        """Go to a path of the service."""
        self.page.goto(f"{self.service.url}{path}")

    def check_accessibility(self, rules: Sequence[str] = ()) -> None:
        """axe-core finds no serious or critical violation on the page as it is.

        It judges by these rules; by all where none is named.
        """
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if rules:
            options["runOnly"] = list(rules)
        found = Axe().run(self.page, options=options).response["violations"]
        serious = [
            f"{one['id']}: {one['help']} at {[node['target'] for node in one['nodes']][:5]}"
            for one in found
            if one["impact"] in _SERIOUS
        ]
        assert not serious, f"{self.page.url}: {serious}"


@contextmanager
def visiting(browser: Browser, service: Service, **options: Any) -> Iterator[Visit]:
    """A visit that ends well only without requests elsewhere and without errors.

    `options` are those of a browser context, such as java_script_enabled.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
    context.set_default_timeout(30_000)
    visit = Visit(context.new_page(), service)
    home = urlsplit(service.url).netloc

    def note_request(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != home:
            visit.strangers.append(url)

    context.on("request", lambda request: note_request(request.url))
    visit.page.on("console", lambda message: _note_error(visit, message))
    visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
    try:
        yield visit
    finally:
        context.close()
    assert not visit.strangers, visit.strangers
    assert not visit.errors, visit.errors


def _note_error(visit: Visit, message: ConsoleMessage) -> None:
    # Of a page that answers a faulty form, which has its fault on it, browsers speak too.
    of_the_page = message.location["url"] == visit.page.url
    if message.type == "error" and not (of_the_page and "status of 422" in message.text):
        visit.errors.append(message.text)
