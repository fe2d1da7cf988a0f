"""A real browser before a real service; skipped with a reason where there is no browser.

With FEDAUDIT_TEST_BROWSER=required a missing browser is a failure: so it is in CI.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.visit import Visit, visiting
from tests.cli.service import Service

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A browser of this size asks for updates, accounts and variations unless switches stop it.
_QUIET = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)


# Closed with the last visit: while Playwright runs, its thread has a running event loop, and other
# tests of this process could not start one.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Headless Chromium of the system."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        if os.environ.get("FEDAUDIT_TEST_BROWSER") == "required":
            pytest.fail("no Chromium on the path, and FEDAUDIT_TEST_BROWSER asks for one")
        pytest.skip("no Chromium on the path: install the system's package `chromium`")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser, service: Service) -> Iterator[Visit]:
    """A signed-out visitor at 1280 pixels; afterwards nothing may have gone wrong behind it."""
    with visiting(browser, service) as found:
        yield found


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where screenshots go: FEDAUDIT_SCREENSHOTS, or a folder that is thrown away."""
    folder = Path(os.environ.get("FEDAUDIT_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
