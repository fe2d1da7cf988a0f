"""An OpenID provider: where people sign in, and whose signed tokens say who calls.

Tokens are JSON Web Tokens (RFC 7519) under keys that the provider publishes (RFC 7517). At the
pages people sign in by the authorisation code flow of OpenID Connect Core with PKCE (RFC 7636).
"""

import hmac
import threading
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from time import monotonic
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx
import structlog
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import GuestProtocol, JWKRegistry, Key
from joserfc.jws import JWSRegistry

from infrastructure.settings import Settings, is_secure

log = structlog.get_logger()

_SIGNED_BY = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Public-key signatures alone: neither `none`, nor a MAC for which a public key would serve."""
_REGISTRY = JWSRegistry(algorithms=_SIGNED_BY, strict_check_header=False)
_KEY_TYPES = ("RSA", "EC", "OKP")
_LEEWAY_SECONDS = 30
_TIMEOUT_SECONDS = 5.0
_FRESH_SECONDS = 600.0
"""Keys older than this are asked for again, so that one which was withdrawn ends."""
_LAST_SECONDS = 6 * 3600.0
"""For so long keys serve while the provider does not answer."""
_PAUSE_SECONDS, _RETRY_SECONDS = 60.0, 5.0
"""Between two readings, whatever keys are named in tokens: after one that succeeded, or failed."""


class ProviderAwayError(Exception):
    """The provider does not answer, or not as it should."""


class TokenRefusedError(Exception):
    """A token, or a code for one, is not valid; the message says why."""


class IdentityProvider:
    """Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._document: Mapping[str, Any] = {}
        self._keys: list[Key] = []
        self._read_at = float("-inf")
        self._next_at = float("-inf")
        self._reading = threading.Lock()

    def authorisation_url(self, secret: str, redirect_uri: str) -> str:
        """Where a browser begins to sign in. `secret`: that browser's alone; state, nonce and
        verifier follow from it. Raises ProviderAwayError."""
        challenge = sha256(derived(secret, "verifier").encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.oidc_scopes,
            "state": derived(secret, "state"),
            "nonce": derived(secret, "nonce"),
            "code_challenge": _encoded(challenge),
            "code_challenge_method": "S256",
        }
        address = self._endpoint("authorization_endpoint")
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def redeem(self, code: str, secret: str, redirect_uri: str) -> dict[str, Any]:
        """The claims of the person for whom the provider issued the code to the browser with this
        secret. Raises TokenRefusedError and ProviderAwayError."""
        client_id, plain = self._settings.oidc_client_id, self._settings.oidc_client_secret()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": derived(secret, "verifier"),
            "client_id": client_id,
        }
        address = self._endpoint("token_endpoint")
        methods = self._document.get("token_endpoint_auth_methods_supported")
        credentials = None
        if plain and isinstance(methods, list) and "client_secret_basic" not in methods:
            form["client_secret"] = plain
        elif plain:
            # Encoded before they are joined (RFC 6749, section 2.3.1).
            credentials = (quote(client_id, safe=""), quote(plain, safe=""))
        answer = _asked("POST", address, data=form, auth=credentials)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise TokenRefusedError(f"the provider gave no token: {str(answer.get('error'))[:80]}")
        claims = self.claims(token, client_id)
        if not hmac.compare_digest(
            str(claims.get("nonce")).encode(), derived(secret, "nonce").encode()
        ):
            raise TokenRefusedError("the token was issued for another sign-in")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != client_id:
            raise TokenRefusedError("the token was issued to another client")
        return claims

    def claims(self, token: str, audience: str) -> dict[str, Any]:
        """The claims of a token that is in force and meant for the audience. Raises
        TokenRefusedError and ProviderAwayError."""
        rules = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": self._settings.oidc_issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        try:
            decoded = jwt.decode(token, self._key_of, registry=_REGISTRY)
            rules.validate(decoded.claims)
        # What is no token at all fails in the decoder's parts.
        except (JoseError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise TokenRefusedError(f"the token is not valid: {error}") from None
        return decoded.claims

    def _key_of(self, token: GuestProtocol) -> Key:
        kid = token.headers().get("kid")
        self._read(needed=monotonic() > self._read_at + _FRESH_SECONDS)
        self._read(needed=not self._named(kid))
        if monotonic() > self._read_at + _LAST_SECONDS:
            raise ProviderAwayError("the provider's keys cannot be read")
        found = self._named(kid)
        if len(found) != 1:
            raise TokenRefusedError("the token is signed with a key that is not the provider's")
        return found[0]

    def _named(self, kid: Any) -> list[Key]:
        return [key for key in self._keys if kid is None or key.kid == kid]

    def _endpoint(self, name: str) -> str:
        self._read(needed=monotonic() > self._read_at + _FRESH_SECONDS)
        address = self._document.get(name)
        if not isinstance(address, str) or not is_secure(address):
            raise ProviderAwayError(f"the provider states no secure {name}")
        return address

    def _read(self, *, needed: bool) -> None:
        """Read the provider's document and keys, where they are needed and were not just read. One
        thread reads; others wait only where there is nothing yet."""
        if not needed or not self._reading.acquire(blocking=not self._keys):
            return
        try:
            if monotonic() < self._next_at:
                return
            self._next_at = monotonic() + _RETRY_SECONDS
            issuer = self._settings.oidc_issuer
            document = _asked("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
            if document.get("issuer") != issuer:
                raise ProviderAwayError(f"the provider calls itself {document.get('issuer')!r}")
            if not is_secure(address := str(document.get("jwks_uri"))):
                raise ProviderAwayError("the provider states no secure jwks_uri")
            self._keys = _usable(_asked("GET", address).get("keys"))
            self._document, self._read_at = document, monotonic()
            self._next_at = monotonic() + _PAUSE_SECONDS
        except ProviderAwayError as error:
            log.warning("identity provider away", detail=str(error)[:300])
        finally:
            self._reading.release()


def derived(secret: str, purpose: str) -> str:
    """One of the values of a sign-in, which all follow from the browser's secret."""
    return _encoded(hmac.digest(secret.encode(), purpose.encode(), "sha256"))


def _encoded(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _asked(method: str, url: str, **options: Any) -> dict[str, Any]:
    """An answer, also one that names an error. Raises ProviderAwayError."""
    try:
        answer = httpx.request(method, url, timeout=_TIMEOUT_SECONDS, **options)
        found = answer.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise ProviderAwayError(f"{url}: {type(error).__name__}") from None
    if not isinstance(found, dict) or answer.status_code >= 500:
        raise ProviderAwayError(f"{url} answered {answer.status_code}")
    return cast(dict[str, Any], found)


def _usable(published: Any) -> list[Key]:
    """The published keys that verify signatures; others are left out."""
    found = []
    for one in published if isinstance(published, list) else ():
        if isinstance(one, dict) and one.get("kty") in _KEY_TYPES and one.get("use") != "enc":
            try:
                found.append(JWKRegistry.import_key(one))
            except (JoseError, ValueError, TypeError) as error:
                log.warning("key of the identity provider left out", detail=str(error)[:200])
    return found
