"""Signing in without a client's secret, at a provider that demands the proof of RFC 7636."""

from typing import Any, ClassVar

import oidc_provider_mock._app as provider
from authlib.oauth2.rfc7636 import CodeChallenge
from oidc_provider_mock import User, run_server_in_thread

from tests.api.elsewhere.providers import api_of
from tests.api.elsewhere.test_sessions import PEOPLE, begun, led_back, signed_in
from tests.api.pages.browser import Browser, text_of


class _Proof(CodeChallenge):
    SUPPORTED_CODE_CHALLENGE_METHOD: ClassVar = ["S256"]
    announced: ClassVar[dict[str, str]] = {}

    def get_authorization_code_challenge(self, code: Any) -> str:
        return self.announced[code.code]

    def get_authorization_code_challenge_method(self, code: Any) -> str:
        return "S256"


class _PublicGrant(provider.AuthorizationCodeGrant):
    """The mock's grant of codes, to clients that have no secret and prove who asked."""

    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar = ["none"]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        _Proof(required=True)(self)

    def save_authorization_code(self, code: str, request: Any) -> None:
        _Proof.announced[code] = request.payload.data["code_challenge"]
        super().save_authorization_code(code, request)

    def validate_token_request(self) -> None:
        assert "Authorization" not in self.request.headers
        super().validate_token_request()


def test_a_client_without_a_secret_proves_that_it_asked(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr(provider, "AuthorizationCodeGrant", _PublicGrant)
    ada = User(sub="ada-1", claims=PEOPLE["ada-1"])
    with run_server_in_thread(user_claims=[ada], require_nonce=True) as server:
        issuer = f"http://localhost:{server.server_port}"
        with api_of(sqlite_url, tmp_path, oidc_issuer=issuer) as api:
            browser = Browser(api)
            back = led_back(begun(browser)[0], "ada-1")
            with monkeypatch.context() as other:
                other.setattr("api.shared.identity_provider.derived", lambda *_: "y" * 43)
                answer = browser.get(back)
            assert (answer.status_code, "invalid_grant" in text_of(answer)) == (401, True)
            assert signed_in(browser, "ada-1").status_code == 200
            assert "Signed in as Ada Lovelace , project acme" in text_of(browser.get("/"))
