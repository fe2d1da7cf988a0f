"""The application: its routes, and what every request passes through."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI

from api import openapi
from api.http import problems
from api.http.middleware import BodyLimit, SecurityHeaders
from api.pages import install as pages
from api.routers import (
    events,
    experiment_tables,
    experiments,
    federations,
    gate_policies,
    gates,
    health,
    keys,
    queries,
    reports,
    signing_keys,
)
from api.shared.resources import Resources
from infrastructure.settings import Settings

_VERSIONED = (
    experiments,
    experiment_tables,
    events,
    reports,
    queries,
    federations,
    gates,
    gate_policies,
    keys,
    signing_keys,
)


def create_app(settings: Settings) -> FastAPI:
    """The application on one database and one broker. Its lifespan closes the connections."""
    resources = Resources(settings)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_sync(resources.tidy_storage)
        yield
        resources.close()

    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan)
    app.state.resources = resources
    app.add_middleware(
        BodyLimit,
        largest_bytes=settings.max_body_bytes,
        upload_path="/v1/federations",
        largest_upload_bytes=settings.max_upload_bytes + settings.max_body_bytes,
    )
    app.add_middleware(SecurityHeaders)
    problems.install(app)
    v1 = APIRouter(prefix="/v1")
    for module in _VERSIONED:
        v1.include_router(module.router)
    app.include_router(v1)
    app.include_router(health.router)
    pages.install(app)
    openapi.install(app)
    return app
