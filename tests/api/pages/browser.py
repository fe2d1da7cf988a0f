"""A browser without a screen: it keeps its cookie, and sends forms as browsers do."""

import html
import re
from collections.abc import Mapping
from typing import Any

from starlette.testclient import TestClient

from api.pages.session import COOKIE
from tests.api.service import Api

HOST = "testserver"


class Browser:
    """One visitor at http://testserver. Redirects are not followed unless asked."""

    def __init__(self, api: Api) -> None:
        self.client = TestClient(
            api.client.app, base_url=f"http://{HOST}", raise_server_exceptions=False
        )

    def get(self, path: str, *, follow: bool = False, headers: Mapping[str, str] = {}) -> Any:
        sent = {"Accept": "text/html", **headers}
        return self.client.get(path, headers=sent, follow_redirects=follow)

    def post(
        self,
        path: str,
        fields: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] = {},
        csrf: str | None = "",
        follow: bool = False,
    ) -> Any:
        """A form. `csrf` is the session's word unless given; None leaves it out."""
        data = dict(fields or {})
        if csrf is not None:
            data["csrf"] = csrf or self.csrf()
        sent = {"Accept": "text/html", "Origin": f"http://{HOST}", **headers}
        return self.client.post(path, data=data, headers=sent, follow_redirects=follow)

    def sign_in(self, key: str, next_path: str = "/", **options: Any) -> Any:
        return self.post("/sign-in", {"key": key, "next": next_path}, csrf=None, **options)

    def csrf(self) -> str:
        """The word in the forms of this session; every page has one, to sign out."""
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', self.get("/", follow=True).text)
        assert found is not None, "nobody has signed in"
        return found[1]

    @property
    def token(self) -> str | None:
        return self.client.cookies.get(COOKIE)


def text_of(answer: Any) -> str:
    """What a page says, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def signed_in(api: Api, *scopes: str) -> Browser:
    """Somebody who signed in, with a key of these scopes, or with every scope."""
    browser = Browser(api)
    answer = browser.sign_in(api.key_with(*scopes) if scopes else api.key)
    assert answer.status_code == 303, answer.text
    return browser


def printed(_printer: Any, _page: str) -> bytes:
    """In the place of a printer, whose files tests/api/reports looks into: it takes seconds."""
    return b"%PDF-1.7"
