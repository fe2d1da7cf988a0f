"""Who signs in elsewhere: by a token of the identity provider, or by a trusted proxy's headers.

Groups decide, at each request, which projects are open and with what scopes, by a YAML (or JSON)
file: groups, with projects and scopes. In each project a row of `api_keys` represents the person.

    data-science:
      acme: [experiments:read, experiments:write, reports:read]
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from starlette.requests import HTTPConnection

from api.http.middleware import NAMES_PEOPLE
from api.http.problems import ProblemError
from api.shared.identity_provider import IdentityProvider, refused
from infrastructure.settings import Settings, parts_of, read_map
from models.database import Database
from models.person import Actor, Identity, Person
from models.repositories import ApiKeyRepository, AuditLogRepository
from models.tables.accounts import ApiKey
from models.vocabulary import Scope

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
        user, groups, name = (
            _header(request, one)
            for one in (
                settings.proxy_user_header,
                settings.proxy_groups_header,
                settings.proxy_name_header,
            )
        )
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
        if row is None or (person is not None and row.person != person.as_dict()):
            with self._database.write() as session:
                row, new = ApiKeyRepository(session).admit(identity, project, person)
                if new:
                    by = Actor(row.id, row.name, None if person is None else person.name)
                    about: dict[str, Any] = {"name": row.name, "scopes": [], "person": by.person}
                    log = AuditLogRepository(session, row.project_id)
                    log.enter("key.created", row.id, by=by, origin="api", **about)
        if row.revoked_at is not None:
            detail = f"an administrator ended your access to the project {project}"
            raise ProblemError(403, "forbidden", detail)
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
