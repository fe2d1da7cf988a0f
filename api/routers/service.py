"""The service itself: its health, its figures, and what its problems mean."""

import hmac
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, Response

from api.http.answers import Accept, preferred
from api.http.observation import request_registry
from api.http.problems import MEANINGS, TITLES, ProblemError, not_found, type_of
from api.metrics import StateMetrics
from api.openapi import problems
from api.pages.templates import page
from api.shared.resources import Resources, Shared
from api.shared.security import identify
from infrastructure.settings import SettingsError
from models.schema import schema_state
from models.scopes import Scope

router = APIRouter(prefix="/health", tags=["health"])


class Health(BaseModel):
    """A sign of life."""

    status: str = "ok"


@router.get("/live")
async def live() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/ready", responses={503: problems()[503]})
def ready(resources: Shared) -> Health:
    """Whether the database answers and has the schema that this version needs."""
    try:
        state = schema_state(resources.database)
    except SQLAlchemyError:
        raise ProblemError(503, "unavailable", "the database does not answer") from None
    if not state.matches:
        raise ProblemError(
            503,
            "unavailable",
            f"the database's schema is {state.current or 'empty'} and {state.head} is needed; "
            "run `fedaudit migrate`",
        )
    return Health()


metrics_router = APIRouter(tags=["metrics"], include_in_schema=False)

_SCOPE: Scope = "metrics:read"
_bearer = HTTPBearer(auto_error=False)


def _may_read(
    resources: Shared, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> None:
    """Raises ProblemError for whoever has neither the token nor a key with the scope."""
    if credentials is not None and _is_token(resources, credentials.credentials):
        return
    if not identify(resources, credentials).may(_SCOPE):
        raise ProblemError(
            403,
            "forbidden",
            f"the API key lacks the scope {_SCOPE}, which `fedaudit keys create` gives",
            scope=_SCOPE,
        )


@metrics_router.get("/metrics", dependencies=[Depends(_may_read)])
def metrics(request: Request) -> Response:
    """The figures, as text for Prometheus, or as OpenMetrics where that is asked for."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = CollectorRegistry()
    registry.register(cast(StateMetrics, request.app.state.state_metrics))
    # Each part of OpenMetrics ends by itself; only the last end counts.
    state = encode(registry).removesuffix(b"# EOF\n")
    return Response(state + encode(request_registry()), media_type=content_type)


def _is_token(resources: Resources, sent: str) -> bool:
    try:
        token = resources.settings.metrics_token()
    except SettingsError:
        return False
    return token is not None and hmac.compare_digest(token.encode(), sent.encode())


problems_router = APIRouter(include_in_schema=False)


@problems_router.get("/problems/{slug}")
def problem_kind(request: Request, slug: str, accept: Accept) -> Response:
    """What a kind of problem means and what to do about it. No key is needed."""
    found = MEANINGS.get(slug)
    if found is None:
        raise not_found("kind of problem")
    if preferred(accept, ("text/html", "application/json")) == "application/json":
        told = {"type": type_of(slug), "title": TITLES[slug], **vars(found)}
        return JSONResponse(told)
    return page(
        request, "problem_kind.html", visitor=None, title=TITLES[slug], slug=slug, kind=found
    )
