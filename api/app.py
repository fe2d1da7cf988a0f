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
from api.http.middleware import (
    AnswerHeaders,
    BodyLimit,
    CompressedAnswers,
    ImpliedMethods,
    ProxyHeaders,
)
from api.http.observation import Observation
from api.pages import install as pages
from api.routers import (
    administration,
    artifacts,
    attacks,
    audits,
    erasures,
    experiment_tables,
    experiments,
    federations,
    ledger_reports,
    ledger_rounds,
    ledgers,
    reports,
    service,
    sweeps,
)
from api.shared.resources import Resources
from infrastructure.settings import Settings, parts_of

_TIDY_SECONDS = 3600.0

_VERSIONED = (
    experiments.router,
    experiment_tables.router,
    sweeps.router,
    experiments.events_router,
    reports.router,
    # Before those whose paths have a number in this place.
    attacks.router,
    federations.router,
    erasures.router,
    audits.router,
    artifacts.router,
    reports.gates_router,
    ledgers.router,
    ledger_rounds.router,
    ledger_reports.router,
    administration.keys_router,
    administration.router,
)


@cache
def _routes() -> list[BaseRoute]:
    """The routes of every application in this process; they are independent of settings. FastAPI
    analyses the parameters of each, which takes longer than the rest of an application."""
    router = APIRouter(generate_unique_id_function=lambda route: route.name)
    for versioned in _VERSIONED:
        router.include_router(versioned, prefix="/v1")
    router.include_router(service.router)
    for module in pages.MODULES:
        router.include_router(module.router, include_in_schema=False)
    return router.routes


def uploads_of(settings: Settings) -> dict[str, tuple[str, int]]:
    """The paths that take files, each with the prefix of their media type and the most bytes: a
    proxy has to let them through."""
    tables = ("/v1/federations", "/federations/new")
    multipart = ("multipart/", settings.max_upload_bytes + settings.max_body_bytes)
    artifact = ("application/octet-stream", settings.max_artifact_bytes)
    return {**dict.fromkeys(tables, multipart), "/v1/artifacts": artifact}


async def _keep_tidy(resources: Resources) -> None:
    while True:
        await anyio.sleep(_TIDY_SECONDS)
        await run_sync(resources.tidy_storage)


def create_app(settings: Settings) -> FastAPI:
    """The application on one database and one broker. Its lifespan closes the connections. Raises
    SettingsError for a file of the settings that cannot be used."""
    resources = Resources(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        resources.open()
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
    app.add_middleware(
        BodyLimit, largest_bytes=settings.max_body_bytes, uploads=uploads_of(settings)
    )
    # Each is outside those before it.
    for middleware in (CompressedAnswers, ImpliedMethods, AnswerHeaders, Observation):
        app.add_middleware(middleware)
    naming = parts_of(settings.proxy_addresses) if settings.proxy_user_header else []
    app.add_middleware(ProxyHeaders, trusted=parts_of(settings.trusted_proxies), naming=naming)
    problems.install(app)
    pages.install(app)
    openapi.install(app)
    return app
