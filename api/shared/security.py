"""Who calls, for which project, and what the key allows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.http.problems import ProblemError
from api.shared.resources import Shared
from models.repositories import ApiKeyRepository

Scope = Literal[
    "experiments:read",
    "experiments:write",
    "reports:read",
    "ledger:read",
    "federations:read",
    "federations:write",
    "admin",
]
SCOPES: tuple[str, ...] = get_args(Scope)

_CHALLENGE = 'Bearer realm="fedaudit"'

_bearer = HTTPBearer(
    auto_error=False, description="An API key, as `fedaudit up` prints it or `keys create` makes."
)


@dataclass(frozen=True)
class Caller:
    """An API key in force. Whatever it asks for is looked up in its project alone."""

    key_id: str
    project_id: str
    scopes: frozenset[str]

    def may(self, scope: Scope) -> bool:
        """Whether the key has the scope; none implies another."""
        return scope in self.scopes


def _identify(
    resources: Shared,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Caller:
    if credentials is None:
        raise _unauthorised("send an API key in the header Authorization: Bearer KEY")
    with resources.database.read() as session:
        key = ApiKeyRepository(session).find(credentials.credentials)
    if key is None:
        raise _unauthorised("the API key is unknown or revoked", error="invalid_token")
    return Caller(key.id, key.project_id, frozenset(key.scopes))


def allowed(scope: Scope) -> Callable[[Caller], Caller]:
    """A dependency that lets keys with the scope pass, and gives the caller."""

    def check(caller: Annotated[Caller, Depends(_identify)]) -> Caller:
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
        return caller

    return check


def _unauthorised(detail: str, *, error: str | None = None) -> ProblemError:
    challenge = _CHALLENGE if error is None else f'{_CHALLENGE}, error="{error}"'
    return ProblemError(401, "unauthorised", detail, headers={"WWW-Authenticate": challenge})


ExperimentsReader = Annotated[Caller, Depends(allowed("experiments:read"))]
ExperimentsWriter = Annotated[Caller, Depends(allowed("experiments:write"))]
ReportsReader = Annotated[Caller, Depends(allowed("reports:read"))]
LedgerReader = Annotated[Caller, Depends(allowed("ledger:read"))]
FederationsReader = Annotated[Caller, Depends(allowed("federations:read"))]
FederationsWriter = Annotated[Caller, Depends(allowed("federations:write"))]
Administrator = Annotated[Caller, Depends(allowed("admin"))]
