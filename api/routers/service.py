"""The service itself: its health and its figures."""

import hmac

from fastapi import APIRouter, Depends, Request
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import Response

from api.http.problems import ProblemError, unavailable
from api.metrics import StateMetrics
from api.openapi import problems
from api.shared.resources import Shared
from api.shared.security import Credentials, identify
from infrastructure.settings import SettingsError
from models.vocabulary import Scope

router = APIRouter()

_SCOPE: Scope = "metrics:read"


class Health(BaseModel):
    """A sign of life."""

    status: str = "ok"


@router.get("/health/live", name="check_liveness", tags=["health"])
async def live() -> Health:
    """Whether the process answers."""
    return Health()


@router.get("/health/ready", name="check_readiness", tags=["health"], responses=problems(503))
def ready(resources: Shared) -> Health:
    """Whether the database answers and has the schema that this version needs."""
    try:
        resources.check_schema()
    except SQLAlchemyError:
        raise unavailable("the database does not answer") from None
    return Health()


def _may_read(request: Request, resources: Shared, credentials: Credentials) -> None:
    """Raises ProblemError without the token and without a key that has the scope."""
    try:
        token = resources.settings.metrics_token()
    except SettingsError:
        token = None
    sent = "" if credentials is None else credentials.credentials
    if token is not None and hmac.compare_digest(token.encode(), sent.encode()):
        return
    if not identify(request, resources, credentials).may(_SCOPE):
        detail = f"the API key lacks the scope {_SCOPE}, which `fedaudit keys create` gives"
        raise ProblemError(403, "forbidden", detail, scope=_SCOPE)


@router.get("/metrics", dependencies=[Depends(_may_read)], include_in_schema=False)
def metrics(request: Request, resources: Shared) -> Response:
    """The figures, as text for Prometheus, or as OpenMetrics where that is asked for."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = CollectorRegistry()
    registry.register(StateMetrics(resources))
    # Each part of OpenMetrics ends by itself; only the last end counts.
    state = encode(registry).removesuffix(b"# EOF\n")
    return Response(state + encode(REGISTRY), media_type=content_type)
