"""Who signs in elsewhere: by a token of the identity provider, or by a trusted proxy's headers.

Their groups decide, at each request, which projects are open and with what scopes. In each of their
projects a row of `api_keys` stands for them, which no secret opens: whatever refers to a key refers
to that.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from starlette.requests import HTTPConnection

from api.http.middleware import PEER
from api.http.problems import ProblemError, unavailable
from api.shared.groups import GroupsMap, read_groups_map
from infrastructure.identity_provider import IdentityProvider, ProviderAwayError, TokenRefusedError
from infrastructure.settings import Settings
from models.database import Database
from models.person import Actor, Identity, Person
from models.repositories import ApiKeyRepository, AuditLogRepository, ProjectRepository
from models.tables.accounts import ApiKey

PROJECT_HEADER = "Fedaudit-Project"
BY_PROXY = "proxy"
"""The issuer of identities that a trusted proxy states."""
_MOST_SUBJECT, _MOST_GROUP = 255, 200
_MOST_GROUPS = 1000


@dataclass(frozen=True)
class SignedIn:
    """Who someone is, as it was stated for them."""

    identity: Identity
    person: Person | None
    """None where no usable name was stated."""
    groups: tuple[str, ...]
    ends_at: float = math.inf
    """Until when that holds, in seconds since 1970."""


class Identities:
    """The ways to sign in elsewhere. Safe to share between threads."""

    def __init__(self, settings: Settings, database: Database) -> None:
        """Raises SettingsError for a map of groups or a secret that cannot be used."""
        self._settings = settings
        self._database = database
        path = settings.groups_map
        self.map = GroupsMap({}) if path is None else read_groups_map(path)
        self.provider = IdentityProvider(settings) if settings.oidc_issuer else None
        """None where no identity provider is set."""
        settings.oidc_client_secret()

    def projects(self, groups: Sequence[str]) -> dict[str, frozenset[str]]:
        """The projects that the groups open now, with scopes. Raises ProblemError for none."""
        found = self.map.projects(groups)
        if not found:
            named = ", ".join(groups[:20]) or "none was stated"
            raise ProblemError(
                403,
                "forbidden",
                f"none of your groups opens a project here ({named}); ask whoever runs the "
                "service to map one of them (FEDAUDIT_GROUPS_MAP)",
            )
        return found

    def of_token(self, token: str) -> SignedIn | None:
        """Whom a bearer token names; None where it is none, or none are taken. Raises ProblemError,
        TokenRefusedError."""
        audience = self._settings.oidc_audience
        # An API key has no dot.
        if self.provider is None or not audience or token.count(".") != 2:
            return None
        try:
            return self.of_claims(self.provider.claims(token, audience))
        except ProviderAwayError:
            raise unavailable("the identity provider does not answer", retry_seconds=5) from None

    def of_claims(self, claims: Mapping[str, Any]) -> SignedIn:
        """Whom the claims of a valid token name. Raises TokenRefusedError without a subject."""
        stated = claims.get(self._settings.oidc_groups_claim)
        groups = [stated] if isinstance(stated, str) else stated
        email = None if claims.get("email_verified") is False else claims.get("email")
        return _signed_in(
            self._settings.oidc_issuer,
            claims["sub"],
            names=[claims.get("name"), claims.get("preferred_username"), email],
            email=email,
            groups=groups if isinstance(groups, list) else [],
            ends_at=float(claims["exp"]),
        )

    def of_proxy(self, request: HTTPConnection) -> SignedIn | None:
        """Whom a trusted proxy names; None where the request comes from elsewhere, or names nobody.
        Raises TokenRefusedError where a header is there twice: one may be the client's."""
        settings, peer = self._settings, request.scope.get("state", {}).get(PEER)
        if not settings.proxy_user_header or not _is_in(peer, settings):
            return None
        names = ("user", "groups", "name", "email")
        stated = {
            name: _header(request, getattr(settings, f"proxy_{name}_header")) for name in names
        }
        if not stated["user"]:
            return None
        return _signed_in(
            BY_PROXY,
            stated["user"],
            names=[stated["name"], stated["user"]],
            email=stated["email"],
            groups=[one.strip() for one in (stated["groups"] or "").split(",")],
        )

    def row_in(self, signed_in: SignedIn, project: str) -> ApiKey:
        """The row that stands for someone in a project, made at their first request. Raises
        ProblemError where an administrator ended it."""
        identity, person = signed_in.identity, signed_in.person
        with self._database.autocommit_read() as session:
            row = ApiKeyRepository(session).of_identity(identity, project)
        if row is None:
            row = self._admitted(signed_in, project)
        elif person is not None and row.person != person.as_dict():
            with self._database.write() as session:
                ApiKeyRepository(session).rename(row.id, person)
                row.person = person.as_dict()
        if row.revoked_at is not None:
            detail = f"an administrator ended your access to the project {project}"
            raise ProblemError(403, "forbidden", detail)
        return row

    def _admitted(self, signed_in: SignedIn, project: str) -> ApiKey:
        identity, person = signed_in.identity, signed_in.person
        with self._database.write() as session:
            keys = ApiKeyRepository(session)
            project_id = ProjectRepository(session).get_or_create(project).id
            made = keys.admit(identity, project, project_id, person)
            row = keys.of_identity(identity, project)
            if row is None:
                raise LookupError(f"the row of {identity} in {project} was made and is lost")
            if made:
                name = None if person is None else person.name
                AuditLogRepository(session, project_id).enter(
                    "key.created",
                    row.id,
                    by=Actor(row.id, row.name, name),
                    name=row.name,
                    scopes=[],
                    person=name,
                )
        return row


def _is_in(peer: Any, settings: Settings) -> bool:
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    return any(address in network for network in settings.identifying_networks)


def _header(request: HTTPConnection, name: str) -> str | None:
    found = request.headers.getlist(name) if name else []
    if len(found) > 1:
        raise TokenRefusedError(f"the header {name} is there {len(found)} times")
    return utf8(found[0]).strip() if found else None


def utf8(header: str) -> str:
    """A header's text, which the server reads by the letter."""
    return header.encode("latin-1", "replace").decode("utf-8", "replace")


def _signed_in(
    issuer: str,
    subject: str,
    *,
    names: Sequence[Any],
    email: Any,
    groups: Sequence[Any],
    ends_at: float = math.inf,
) -> SignedIn:
    if not 0 < len(subject) <= _MOST_SUBJECT or not subject.isprintable():
        raise TokenRefusedError("the subject is empty, too long or cannot be printed")
    known = [one for one in groups if isinstance(one, str) and 0 < len(one) <= _MOST_GROUP]
    person = next((one for name in names if (one := _person(name, email))), None)
    return SignedIn(Identity(issuer, subject), person, tuple(known[:_MOST_GROUPS]), ends_at)


def _person(name: Any, email: Any) -> Person | None:
    """The person of this name; None for one that is empty or deceives. An address that is none is
    left out."""
    if not isinstance(name, str):
        return None
    for address in (email, None):
        try:
            return Person(name, email=address if isinstance(address, str) else None)
        except ValueError:
            continue
    return None
