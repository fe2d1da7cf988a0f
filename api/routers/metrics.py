"""Figures for Prometheus: of the whole service, for those who run it."""

import hmac
from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from api.http.problems import ProblemError
from api.http.request_metrics import request_registry
from api.metrics.state_metrics import StateMetrics
from api.shared.resources import Resources, Shared
from api.shared.security import identify
from infrastructure.settings import SettingsError
from models.vocabulary import Scope

router = APIRouter(tags=["metrics"], include_in_schema=False)

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


@router.get("/metrics", dependencies=[Depends(_may_read)])
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
