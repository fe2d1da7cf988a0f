"""The application: its routes, and what every request passes through."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute

from api import openapi
from api.http import problems
from api.http.access_log import AccessLog
from api.http.compression import CompressedAnswers
from api.http.conditional import ConditionalAnswers
from api.http.head import HeadAnswers
from api.http.middleware import BodyLimit, SecurityHeaders, Upload
from api.http.rate_limits import RateLimitHeaders
from api.http.request_ids import RequestIds
from api.http.request_metrics import RequestMetrics
from api.http.traces import Traces
from api.metrics.state_metrics import StateMetrics
from api.pages import install as pages
from api.routers import (
    artifacts,
    attacks,
    audit_log,
    audits,
    events,
    experiment_tables,
    experiments,
    federation_erasures,
    federation_registrations,
    federations,
    gate_policies,
    gates,
    health,
    keys,
    ledger_reports,
    ledgers,
    metrics,
    problem_kinds,
    queries,
    reports,
    sign_offs,
    signing_keys,
    sweeps,
    webhook_deliveries,
    webhooks,
)
from api.shared.resources import Resources
from infrastructure.settings import Settings
from infrastructure.telemetry import is_tracing_asked_for

_TIDY_SECONDS = 3600.0

_VERSIONED = (
    experiments,
    experiment_tables,
    sweeps,
    events,
    reports,
    attacks,
    sign_offs,
    queries,
    federation_erasures,
    federation_registrations,
    federations,
    audits,
    artifacts,
    gates,
    gate_policies,
    ledgers,
    ledger_reports,
    keys,
    signing_keys,
    audit_log,
    webhooks,
    webhook_deliveries,
)


@cache
def _routes() -> list[BaseRoute]:
    """The routes of every application in this process.

    They know nothing of settings. FastAPI works out what each takes from a request when it first
    looks at it; for all of them that takes longer than all else that an application is made of.
    """
    router = APIRouter(generate_unique_id_function=openapi.operation_id)
    for module in _VERSIONED:
        router.include_router(module.router, prefix="/v1")
    for module in (health, metrics, problem_kinds):
        router.include_router(module.router)
    for module in pages.MODULES:
        router.include_router(module.router, include_in_schema=False)
    return router.routes


async def _keep_tidy(resources: Resources) -> None:
    while True:
        await anyio.sleep(_TIDY_SECONDS)
        await run_sync(resources.tidy_storage)


def create_app(settings: Settings) -> FastAPI:
    """The application on one database and one broker. Its lifespan closes the connections."""
    resources = Resources(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        resources.printer.open()
        await run_sync(resources.tidy_storage)
        async with anyio.create_task_group() as chores:
            chores.start_soon(_keep_tidy, resources)
            yield
            chores.cancel_scope.cancel()
        resources.close()

    app = FastAPI(
        routes=_routes(), docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan
    )
    app.state.resources = resources
    app.state.state_metrics = StateMetrics(resources)
    app.add_middleware(
        BodyLimit,
        largest_bytes=settings.max_body_bytes,
        uploads={
            "/v1/federations": Upload(
                media_type="multipart/",
                largest_bytes=settings.max_upload_bytes + settings.max_body_bytes,
            ),
            "/federations/new": Upload(
                media_type="multipart/",
                largest_bytes=settings.max_upload_bytes + settings.max_body_bytes,
            ),
            "/v1/artifacts": Upload(
                media_type="application/octet-stream", largest_bytes=settings.max_artifact_bytes
            ),
        },
    )
    # Each is outside those before it.
    app.add_middleware(RateLimitHeaders)
    app.add_middleware(ConditionalAnswers)
    app.add_middleware(CompressedAnswers)
    app.add_middleware(HeadAnswers)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(AccessLog)
    if is_tracing_asked_for():
        app.add_middleware(Traces)
    app.add_middleware(RequestIds)
    app.add_middleware(RequestMetrics)
    problems.install(app)
    pages.install(app)
    openapi.install(app)
    return app
