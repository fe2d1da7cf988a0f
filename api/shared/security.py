"""Who calls, for which project, and what the key allows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.http.conditional import KEPT
from api.http.problems import ProblemError
from api.shared.quotas import count_request
from api.shared.resources import Resources, Shared
from models.person import Actor, Person
from models.repositories import ApiKeyRepository
from models.repositories.accounts import hash_of_key
from models.tables.accounts import ApiKey
from models.vocabulary import Scope

_CHALLENGE = 'Bearer realm="fedaudit"'

_bearer = HTTPBearer(
    auto_error=False, description="An API key, as `fedaudit up` prints it or `keys create` makes."
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True)
class Caller:
    """An API key in force. Whatever it asks for is looked up in its project alone."""

    key_id: str
    project_id: str
    scopes: frozenset[str]
    key_name: str
    person: Person | None
    """Whom the key belongs to, as named by its administrator."""
    secret_hash: str
    """Of the secret that was sent; it may end before the key does."""

    @classmethod
    def of(cls, key: ApiKey, *, secret_hash: str | None = None) -> Self:
        """The caller with a key that was found in force; with its newest secret unless given."""
        person = Person.of(key.person)
        scopes = frozenset(key.scopes)
        return cls(key.id, key.project_id, scopes, key.name, person, secret_hash or key.hash)

    @property
    def actor(self) -> Actor:
        """Who does what this caller asks for, as it is recorded."""
        person = None if self.person is None else self.person.name
        return Actor(self.key_id, self.key_name, person)

    def may(self, scope: Scope) -> bool:
        """Whether the key has the scope; none implies another."""
        return scope in self.scopes


def identify(resources: Resources, credentials: HTTPAuthorizationCredentials | None) -> Caller:
    """The caller with the key that was sent. Raises ProblemError without one in force."""
    if credentials is None:
        raise _unauthorised("send an API key in the header Authorization: Bearer KEY")
    with resources.database.autocommit_read() as session:
        key = ApiKeyRepository(session).find(credentials.credentials)
    if key is None:
        raise _unauthorised(
            "the API key is unknown or revoked, or its secret was replaced", error="invalid_token"
        )
    return Caller.of(key, secret_hash=hash_of_key(credentials.credentials))


def allowed(scope: Scope) -> Callable[..., Caller]:
    """A dependency that lets keys with the scope pass, and gives the caller. It counts the request,
    and refuses one beyond the project's quota. All of it is one function, because FastAPI hands
    each to a thread."""

    def check(request: Request, resources: Shared, credentials: Credentials) -> Caller:
        caller = identify(resources, credentials)
        count_request(resources, caller.project_id, request.scope)
        if not caller.may(scope):
            raise ProblemError(
                403,
                "forbidden",
                f"the API key lacks the scope {scope}",
                headers={
                    "WWW-Authenticate": f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
                },
                scope=scope,
            )
        # Reports are made to be passed on; nothing else may be written down on the way.
        setattr(request.state, KEPT, scope == "reports:read")
        return caller

    return check


def _unauthorised(detail: str, *, error: str | None = None) -> ProblemError:
    challenge = _CHALLENGE if error is None else f'{_CHALLENGE}, error="{error}"'
    return ProblemError(401, "unauthorised", detail, headers={"WWW-Authenticate": challenge})


ExperimentsReader = Annotated[Caller, Depends(allowed("experiments:read"))]
ExperimentsWriter = Annotated[Caller, Depends(allowed("experiments:write"))]
ReportsReader = Annotated[Caller, Depends(allowed("reports:read"))]
ReportsSigner = Annotated[Caller, Depends(allowed("reports:sign"))]
LedgerReader = Annotated[Caller, Depends(allowed("ledger:read"))]
FederationsReader = Annotated[Caller, Depends(allowed("federations:read"))]
FederationsWriter = Annotated[Caller, Depends(allowed("federations:write"))]
Administrator = Annotated[Caller, Depends(allowed("admin"))]
