"""Who signs in elsewhere: by a token of the identity provider, or by a trusted proxy's headers.

Groups decide, at each request, which projects are open and with what scopes, by a YAML (or JSON)
file: groups, with projects and scopes. In each project a row of `api_keys` represents the person.

    data-science:
      acme: [experiments:read, experiments:write, reports:read]

Tokens are JSON Web Tokens (RFC 7519) under keys that an OpenID provider publishes (RFC 7517). At
the pages people sign in by the authorisation code flow of OpenID Connect Core with PKCE (RFC 7636).
"""

import hmac
import math
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Annotated, Any
from urllib.parse import quote, urlencode, urlsplit

import httpx
import structlog
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import GuestProtocol, JWKRegistry, Key
from joserfc.jws import JWSRegistry
from pydantic import Field, TypeAdapter
from starlette.requests import HTTPConnection

from api.http.middleware import NAMES_PEOPLE
from api.http.problems import ProblemError, unavailable
from infrastructure.settings import Settings, parts_of, read_map
from models.database import Database
from models.person import Actor, Identity, Person
from models.repositories import ApiKeyRepository, AuditLogRepository
from models.tables.accounts import ApiKey
from models.values import Scope

log = structlog.get_logger()

# Public-key signatures alone: neither `none`, nor a MAC for which a public key would serve.
_SIGNED_BY = [f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)]
_REGISTRY = JWSRegistry(algorithms=[*_SIGNED_BY, "EdDSA"], strict_check_header=False)
_LEEWAY_SECONDS, _TIMEOUT_SECONDS = 30, 5.0
_FRESH_SECONDS, _LAST_SECONDS = 600.0, 6 * 3600.0
"""Keys are asked for again after the first; they serve until the second without an answer."""
_PAUSE_SECONDS = 10.0
"""Between two readings of the keys, whatever keys tokens name."""
_PROBLEMS = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""What keys and tokens end in that are none."""


class IdentityProvider:
    """Safe to share between threads. A provider that does not answer is a ProblemError (503), and
    so is a token or code that is not valid (401)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._document: Mapping[str, Any] = {}
        self._keys: list[Key] = []
        self._read_at = self._next_at = float("-inf")
        self._reading = threading.Lock()

    def authorisation_url(self, secret: str, redirect_uri: str) -> str:
        """Where a browser begins to sign in. `secret`: that browser's alone; state, nonce and
        verifier follow from it."""
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": redirect_uri,
            "scope": self._settings.oidc_scopes,
            "state": derived(secret, "state"),
            "nonce": derived(secret, "nonce"),
            "code_challenge": _encoded(sha256(derived(secret, "verifier").encode()).digest()),
            "code_challenge_method": "S256",
        }
        return f"{self._endpoint('authorization_endpoint')}?{urlencode(query)}"

    def sign_out_url(self) -> str | None:
        """Where the provider ends its session (OpenID Connect RP-Initiated Logout), as far as its
        document was read and names such a place."""
        address = str(self._document.get("end_session_endpoint", ""))
        if urlsplit(address).scheme != urlsplit(self._settings.oidc_issuer).scheme:
            return None
        return f"{address}?{urlencode({'client_id': self._settings.oidc_client_id})}"

    def redeem(self, code: str, secret: str, redirect_uri: str) -> dict[str, Any]:
        """The claims of the person for whom the provider issued the code to the browser with this
        secret."""
        client_id, plain = self._settings.oidc_client_id, self._settings.oidc_client_secret()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": derived(secret, "verifier"),
            **({} if plain else {"client_id": client_id}),
        }
        # Encoded before they are joined (RFC 6749, section 2.3.1).
        basic = (quote(client_id, safe=""), quote(plain, safe="")) if plain else None
        answer = _asked("POST", self._endpoint("token_endpoint"), data=form, auth=basic)
        if not isinstance(answer.get("id_token"), str):
            raise refused(f"the provider gave no token: {str(answer.get('error'))[:80]}")
        claims = self.claims(answer["id_token"], client_id)
        if claims.get("nonce") != derived(secret, "nonce"):
            raise refused("the token was issued for another sign-in")
        if claims.get("azp", client_id) != client_id:
            raise refused("the token was issued to another client")
        return claims

    def claims(self, token: str, audience: str) -> dict[str, Any]:
        """The claims of a token that is in force and meant for the audience."""
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
        except _PROBLEMS as error:
            raise refused(f"the token is not valid: {error}") from None
        return decoded.claims

    def _key_of(self, token: GuestProtocol) -> Key:
        kid = token.headers().get("kid")
        if monotonic() > self._read_at + _FRESH_SECONDS or not self._named(kid):
            self._read()
        if monotonic() > self._read_at + _LAST_SECONDS:
            raise away()
        found = self._named(kid)
        if len(found) != 1:
            raise refused("the token is signed with a key that is not the provider's")
        return found[0]

    def _named(self, kid: Any) -> list[Key]:
        return [key for key in self._keys if kid is None or key.kid == kid]

    def _endpoint(self, name: str) -> str:
        if monotonic() > self._read_at + _FRESH_SECONDS:
            self._read()
        return self._address(self._document, name)

    def _address(self, document: Mapping[str, Any], name: str) -> str:
        """An address that is as safe from the network as the issuer's."""
        address = str(document.get(name, ""))
        if urlsplit(address).scheme != urlsplit(self._settings.oidc_issuer).scheme:
            log.warning("identity provider states no secure address", name=name, address=address)
            raise away()
        return address

    def _read(self) -> None:
        """Read the provider's document and keys, unless they were just read. One thread reads;
        others wait only where there is nothing yet."""
        if not self._reading.acquire(blocking=not self._keys):
            return
        try:
            if monotonic() > self._next_at:
                self._next_at = monotonic() + _PAUSE_SECONDS
                issuer = self._settings.oidc_issuer
                document = _asked("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
                if document.get("issuer") != issuer:
                    log.warning("identity provider has another name", name=document.get("issuer"))
                    return
                self._keys = _usable(_asked("GET", self._address(document, "jwks_uri")))
                self._document, self._read_at = document, monotonic()
        except ProblemError:
            return  # What was read before serves for a while.
        finally:
            self._reading.release()


def refused(detail: str) -> ProblemError:
    """The answer to what does not say who someone is."""
    challenge = {"WWW-Authenticate": 'Bearer realm="fedaudit", error="invalid_token"'}
    return ProblemError("unauthorised", detail[:300], headers=challenge)


def away() -> ProblemError:
    """The answer where the provider gives none."""
    return unavailable("the identity provider does not answer as it should", retry_seconds=10)


def derived(secret: str, purpose: str) -> str:
    """One of the values of a sign-in, which all follow from the browser's secret."""
    return _encoded(hmac.digest(secret.encode(), purpose.encode(), "sha256"))


def _encoded(value: bytes) -> str:
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def _asked(method: str, url: str, **options: Any) -> dict[str, Any]:
    """An answer, also one that names an error."""
    try:
        answer = httpx.request(method, url, timeout=_TIMEOUT_SECONDS, **options)
        return dict(answer.json())
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError) as error:
        log.warning("identity provider away", url=url, error=type(error).__name__)
        raise away() from None


def _usable(published: Mapping[str, Any]) -> list[Key]:
    """The published keys that verify signatures; others are left out."""
    found = []
    for one in published.get("keys", ()):
        try:
            if one["kty"] in ("RSA", "EC", "OKP") and one.get("use", "sig") == "sig":
                found.append(JWKRegistry.import_key(one))
        except _PROBLEMS as error:
            log.warning("key of the identity provider left out", detail=str(error)[:200])
    return found


BY_PROXY = "proxy"
"""The issuer of identities that a trusted proxy states."""
_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\S(.*\S)?$")]
_Projects = dict[_Name, Annotated[list[Scope], Field(min_length=1)]]
_MAP: TypeAdapter[dict[str, dict[str, list[Scope]]]] = TypeAdapter(dict[_Name, _Projects])
_MOST_GROUPS, _MOST_CHARACTERS = 1000, 255


@dataclass(frozen=True)
class SignedIn:
    """Who someone is, as it was stated for them."""

    identity: Identity
    person: Person | None
    """None where no usable name was stated."""
    groups: list[str]
    ends_at: float = math.inf
    """The end of its validity, in seconds since 1970."""


class Identities:
    """The ways to sign in elsewhere. Safe to share between threads."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Raises SettingsError for a map of groups or a secret that cannot be used."""
        self._settings, self._database = settings, database
        self._map = {} if settings.groups_map is None else read_groups_map(settings.groups_map)
        settings.oidc_client_secret()
        self.provider = IdentityProvider(settings) if settings.oidc_issuer else None
        """None where no identity provider is set."""

    def projects(self, groups: Iterable[str]) -> dict[str, frozenset[str]]:
        """The projects that the groups open now, each with all scopes that any of them gives."""
        found: dict[str, frozenset[str]] = {}
        for group in groups:
            for project, scopes in self._map.get(group, {}).items():
                found[project] = found.get(project, frozenset()) | frozenset(scopes)
        return dict(sorted(found.items()))

    def of_token(self, token: str) -> SignedIn | None:
        """Whom a bearer token names; None where it is an API key, or no tokens are taken. Raises
        ProblemError for one that is not valid."""
        audience = self._settings.oidc_audience
        # An API key has no dot.
        if self.provider is None or not audience or token.count(".") != 2:
            return None
        return self.of_claims(self.provider.claims(token, audience))

    def of_claims(self, claims: Mapping[str, Any]) -> SignedIn:
        """Whom the claims of a valid token name. Raises ProblemError for a subject that is none."""
        stated = claims.get(self._settings.oidc_groups_claim)
        groups = stated if isinstance(stated, list) else [stated]
        email = None if claims.get("email_verified") is False else claims.get("email")
        person = _person((claims.get("name"), claims.get("preferred_username"), email), email)
        identity = _identity(self._settings.oidc_issuer, claims["sub"])
        return SignedIn(identity, person, _texts(groups), float(claims["exp"]))

    def of_proxy(self, request: HTTPConnection) -> SignedIn | None:
        """Whom a trusted proxy names; None where the request comes from elsewhere or has no name.
        Raises ProblemError where a header is there twice: one may be the client's."""
        if not request.scope.get("state", {}).get(NAMES_PEOPLE):
            return None
        settings = self._settings
        user = _header(request, settings.proxy_user_header)
        groups = _header(request, settings.proxy_groups_header)
        name = _header(request, settings.proxy_name_header)
        if not user:
            return None
        known = _texts(parts_of(groups))
        return SignedIn(_identity(BY_PROXY, user), _person((name, user), None), known)

    def row_in(self, signed_in: SignedIn, project: str) -> ApiKey:
        """The row that represents someone in a project, made at their first request. Raises
        ProblemError where an administrator ended it."""
        identity, person = signed_in.identity, signed_in.person
        with self._database.autocommit_read() as session:
            row = ApiKeyRepository(session).of_identity(identity, project)
        if row is None or (person is not None and row.person != vars(person)):
            with self._database.write() as session:
                row, new = ApiKeyRepository(session).admit(identity, project, person)
                if new:
                    by = Actor(row.id, row.name, None if person is None else person.name)
                    about: dict[str, Any] = {"name": row.name, "scopes": [], "person": by.person}
                    log = AuditLogRepository(session, row.project_id)
                    log.enter("key.created", row.id, by=by, origin="api", **about)
        if row.revoked_at is not None:
            detail = f"an administrator ended your access to the project {project}"
            raise ProblemError("forbidden", detail)
        return row


def read_groups_map(path: Path) -> dict[str, dict[str, list[Scope]]]:
    """Projects with scopes, by group. Raises SettingsError naming the field at fault."""
    form = "GROUP: {PROJECT: [SCOPE, ...]}"
    return read_map(path, _MAP, setting="FEDAUDIT_GROUPS_MAP", form=form)


def _header(request: HTTPConnection, name: str) -> str:
    found = request.headers.getlist(name) if name else []
    if len(found) > 1:
        raise refused(f"the header {name} is there {len(found)} times")
    return utf8("".join(found)).strip()


def utf8(header: str) -> str:
    """A header's text, which is read by the letter until here. Raises ProblemError for another
    encoding: two names could become the same one."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        raise refused("a header is not in UTF-8") from None


def _texts(groups: Iterable[Any]) -> list[str]:
    found = [one for one in groups if isinstance(one, str) and len(one) <= _MOST_CHARACTERS]
    return found[:_MOST_GROUPS]


def _identity(issuer: str, subject: str) -> Identity:
    if not 0 < len(subject) <= _MOST_CHARACTERS or not subject.isprintable():
        raise refused("the subject is empty, too long or cannot be printed")
    return Identity(issuer, subject)


def _person(names: Iterable[Any], email: Any) -> Person | None:
    """The person, by the first name that is neither empty nor deceptive; without an invalid
    address."""
    for name in names:
        for address in (email, None):
            try:
                return Person(name or "", email=address)
            except (ValueError, TypeError):
                continue
    return None
