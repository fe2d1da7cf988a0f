"""Who calls, what the key allows, and what is left of its project's quotas."""

import math
import time
from collections.abc import Callable, Collection, MutableMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from api.http.middleware import RATE_LIMIT
from api.http.origins import refuse_foreign
from api.http.problems import ProblemError, invalid
from api.shared.identities import utf8
from api.shared.resources import Resources, Shared
from fedaudit.spec.parse import first_repeated
from infrastructure.settings import Settings
from models.person import Actor, Person
from models.repositories import ApiKeyRepository, Budgets, ProjectRepository, ProjectUsageRepository
from models.repositories.accounts import hash_of_key
from models.tables.accounts import ApiKey
from models.values import Scope

_Result = TypeVar("_Result")

_SECONDS = 60
_READING = ("GET", "HEAD")
_LISTED = {"compare_reports": "experiment_id"}  # what may be given more than once, by route
SCHEMA_SECONDS = 2.0
"""How long a schema that was right is taken to be right."""


def count_request(resources: Resources, project_id: str, scope: MutableMapping[str, Any]) -> None:
    """Raises ProblemError where the project has made all requests of this minute."""
    limit = resources.settings.quota_requests_per_minute
    if limit is None:
        return
    now = int(time.time())
    with resources.database.write() as session:
        used = ProjectUsageRepository(session, project_id).count_request(now // _SECONDS)
    left = _SECONDS - now % _SECONDS
    scope.setdefault("state", {})[RATE_LIMIT] = {
        "RateLimit-Policy": f'"requests";q={limit};w=60',
        "RateLimit": f'"requests";r={max(0, limit - used)};t={left}',
    }
    if used > limit:
        raise _over(
            "requests-per-minute",
            limit,
            f"the project has made its {limit} requests of this minute "
            f"(FEDAUDIT_QUOTA_REQUESTS_PER_MINUTE); send the request again in {left} seconds, or "
            "ask the service's operator for more",
            retry_seconds=left,
        )


def refuse_over_running(session: Session, project_id: str, settings: Settings) -> None:
    """Call it last, with the new experiment stored. Raises ProblemError, to be followed by a
    roll-back, where it is one too many."""
    limit = settings.quota_running
    if limit is None:
        return
    usage = ProjectUsageRepository(session, project_id)
    usage.hold()
    if usage.running() > limit:
        raise _over(
            "running",
            limit,
            f"the project has {limit} experiments or attacks queued or running already "
            "(FEDAUDIT_QUOTA_RUNNING); wait for the end of one, or cancel one",
            retry_seconds=60,
        )


def refuse_over_stored(session: Session, project_id: str, settings: Settings) -> None:
    """The same for a file that was stored and entered. Raises ProblemError."""
    limit = settings.quota_stored_bytes
    if limit is None:
        return
    usage = ProjectUsageRepository(session, project_id)
    usage.hold()
    if (stored := usage.stored_bytes()) > limit:
        raise _over(
            "stored-bytes",
            limit,
            f"with this file the project would store {stored} bytes, and {limit} are allowed "
            "(FEDAUDIT_QUOTA_STORED_BYTES); delete a federation or an artifact first",
            retry_seconds=3600,
        )


def _over(quota: str, limit: int, detail: str, *, retry_seconds: int) -> ProblemError:
    return ProblemError(
        "rate-limited", detail, retry_seconds=retry_seconds, quota=quota, limit=limit
    )


_CHALLENGE = 'Bearer realm="fedaudit"'

PROJECT_HEADER = "Fedaudit-Project"
_bearer = HTTPBearer(
    auto_error=False,
    description="An API key, as `fedaudit up` prints it or `keys create` makes; or a token of the "
    f"identity provider that the service is set to. Who has several projects names one in the "
    f"header `{PROJECT_HEADER}`.",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True)
class Caller:
    """An API key in force, or a person who signed in elsewhere and the row that represents them.
    Whatever it asks for is looked up in its project alone."""

    key_id: str
    project_id: str
    scopes: frozenset[str]
    key_name: str
    person: Person | None
    """Whom the key belongs to, as named by its administrator or by the identity's provider."""
    secret_hash: str
    """Hash of the secret that was sent; it may expire before the key."""
    elsewhere: bool = False
    """Whether it is a person who signed in elsewhere; their groups give the scopes."""
    ends_at: float = math.inf
    """When a token expires, in seconds since 1970."""

    @classmethod
    def of(cls, key: ApiKey, *, secret_hash: str | None = None) -> Self:
        """The caller with a key that was found in force; with its newest secret unless given."""
        person = Person.of(key.person)
        scopes, sent = frozenset(key.scopes), secret_hash or key.hash
        known = key.identity is not None
        return cls(key.id, key.project_id, scopes, key.name, person, sent, known)

    @property
    def actor(self) -> Actor:
        """Who does what this caller asks for, as it is recorded."""
        person = None if self.person is None else self.person.name
        return Actor(self.key_id, self.key_name, person)

    def may(self, scope: Scope) -> bool:
        """Whether the key has the scope; none implies another."""
        return scope in self.scopes

    def is_in_force(self, session: Session) -> bool:
        """Whether what was sent would still be taken."""
        lasts = ApiKeyRepository(session).find(self.secret_hash) is not None
        return lasts and time.time() < self.ends_at


@dataclass(frozen=True)
class Call:
    """What one call has: the service's resources, and the caller in whose name they are used."""

    resources: Resources
    caller: Caller

    @property
    def project_id(self) -> str:
        """The caller's project."""
        return self.caller.project_id

    def reading(self) -> AbstractContextManager[Session]:
        """A database session that only reads."""
        return self.resources.database.read()

    def writing(self) -> AbstractContextManager[Session]:
        """A database session whose changes are kept when the block ends."""
        return self.resources.database.write()

    def find(self, find: Callable[[Session, Caller, str], _Result], id_: str) -> _Result:
        """Find by an id with the function, in a separate transaction. Raises what it raises."""
        with self.reading() as session:
            return find(session, self.caller, id_)

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Do slow work where the project has a place for it."""
        return await self.resources.loads.run(self.project_id, work)

    def budgets(self, session: Session) -> Budgets:
        """The budgets of the caller's project."""
        return self.resources.budgets(session, self.caller.project_id)


def identify(
    request: Request, resources: Resources, credentials: HTTPAuthorizationCredentials | None
) -> Caller:
    """The caller with the key or token that was sent, or whom a trusted proxy names. Raises
    ProblemError without one in force."""
    identities = resources.identities
    if credentials is None:
        signed_in = identities.of_proxy(request)
        if signed_in is not None:
            # The proxy knows a browser by its cookie, which any site can make the browser send.
            refuse_foreign(request)
    else:
        signed_in = identities.of_token(credentials.credentials)
    if signed_in is not None:
        projects = identities.projects(signed_in.groups)
        project = _chosen(request, projects)
        row = identities.row_in(signed_in, project)
        return replace(Caller.of(row), scopes=projects[project], ends_at=signed_in.ends_at)
    if credentials is None:
        raise _unauthorised("send an API key in the header Authorization: Bearer KEY")
    secret_hash = hash_of_key(credentials.credentials)
    with resources.database.autocommit_read() as session:
        key = ApiKeyRepository(session).find(secret_hash)
    if key is None:
        raise _unauthorised(
            "the API key is unknown or revoked, or its secret was replaced", error="invalid_token"
        )
    if PROJECT_HEADER in request.headers:
        with resources.database.autocommit_read() as session:
            _chosen(request, [ProjectRepository(session).name(key.project_id)])
    return Caller.of(key, secret_hash=secret_hash)


def _chosen(request: Request, projects: Collection[str]) -> str:
    """The project that is named, or the only one. Raises ProblemError with the choices."""
    if not projects:
        raise ProblemError("forbidden", "none of your groups opens a project of this service")
    asked = utf8(request.headers.get(PROJECT_HEADER, "")) or (
        next(iter(projects)) if len(projects) == 1 else ""
    )
    if asked not in projects:
        must = f"must name one of your projects: {', '.join(projects)}"
        raise invalid(f"/header/{PROJECT_HEADER}", must)
    return asked


def allowed(scope: Scope) -> Callable[..., Call]:
    """A dependency that lets keys with the scope pass, and gives the call. It counts the request,
    and refuses one beyond the project's quota. All of it is one function, because FastAPI hands
    each to a thread."""

    def check(request: Request, resources: Shared, credentials: Credentials) -> Call:
        caller = identify(request, resources, credentials)
        if request.method not in _READING:
            resources.check_schema(within=SCHEMA_SECONDS)
        count_request(resources, caller.project_id, request.scope)
        require(caller, scope)
        listed = _LISTED.get(request.scope["route"].name)
        pairs = [one for one in request.query_params.multi_items() if one[0] != listed]
        if len(pairs) > len(dict(pairs)):
            raise invalid(f"/query/{first_repeated(pairs)}", "is given twice; keep one")
        return Call(resources, caller)

    return check


def require(caller: Caller, scope: Scope) -> None:
    """Raises ProblemError where the caller lacks the scope."""
    if not caller.may(scope):
        challenge = f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
        raise ProblemError(
            "forbidden",
            ("your groups lack" if caller.elsewhere else "the API key lacks")
            + f" the scope {scope}; use an API key that has it",
            headers={"WWW-Authenticate": challenge},
            scope=scope,
        )


def _unauthorised(detail: str, *, error: str | None = None) -> ProblemError:
    challenge = _CHALLENGE if error is None else f'{_CHALLENGE}, error="{error}"'
    return ProblemError("unauthorised", detail, headers={"WWW-Authenticate": challenge})


ExperimentsReader = Annotated[Call, Depends(allowed("experiments:read"))]
ExperimentsWriter = Annotated[Call, Depends(allowed("experiments:write"))]
ReportsReader = Annotated[Call, Depends(allowed("reports:read"))]
ReportsSigner = Annotated[Call, Depends(allowed("reports:sign"))]
LedgerReader = Annotated[Call, Depends(allowed("ledger:read"))]
FederationsReader = Annotated[Call, Depends(allowed("federations:read"))]
FederationsWriter = Annotated[Call, Depends(allowed("federations:write"))]
Administrator = Annotated[Call, Depends(allowed("admin"))]
