"""The pages of the application: their routes, their files, their errors, and the API's page."""

import json
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from inspect import isawaitable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from api.pages import (
    audits,
    compare,
    experiment,
    federations,
    ledgers,
    lists,
    new_experiment,
    new_federation,
    reports,
    sign_in,
    sweeps,
)
from api.pages.session import HOME, SignInNeededError, local_path, visitor_if_any
from api.pages.templates import Assets, page

MODULES: tuple[ModuleType, ...] = (
    sign_in,
    lists,
    new_experiment,
    experiment,
    reports,
    compare,
    audits,
    ledgers,
    sweeps,
    new_federation,
    federations,
)
"""The more special path first: `/experiments/new` before `/experiments/{experiment_id}`."""

Handler = Callable[[Request, Any], Awaitable[Response]]
MaybeSlow = Callable[[Request, Any], Response | Awaitable[Response]]

_HEADLINES = {
    "validation-error": "Something in the address or the form is not right",
    "forbidden": "Your key does not allow this",
    "not-found": "There is nothing here",
    "conflict": "That does not fit the present state",
    "unavailable": "The service cannot answer just now",
    "internal-error": "The service failed",
}
_OF_THE_BODY = ("content-type", "content-length")
_HERE = Path(__file__).parent
_DOCS_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs() -> FileResponse:
    """Swagger UI, from this service's own files: nothing is fetched elsewhere."""
    return FileResponse(_HERE / "docs.html", headers={"Content-Security-Policy": _DOCS_POLICY})


@router.get("/docs/start.js")
async def start() -> FileResponse:
    """The script that starts Swagger UI."""
    return FileResponse(_HERE / "docs.js", media_type="text/javascript")


def install(app: FastAPI) -> None:
    """What the pages need beside their routes. Called after `problems.install`, whose answers they
    show. Raises RuntimeError where the assets of Swagger UI are not installed."""
    app.mount("/assets", Assets(), name="assets")
    # Only the package's files are needed; importing it would cost start-up time.
    found = find_spec("fastapi_offline")
    if found is None or found.origin is None:
        raise RuntimeError("fastapi-offline is not installed; install fedaudit with its needs")
    app.include_router(router)
    app.mount("/docs/assets", StaticFiles(directory=Path(found.origin).parent / "static"))
    endpoints = frozenset(route.endpoint for module in MODULES for route in module.router.routes)
    for kind, handler in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _as_page(handler, endpoints))
    app.add_exception_handler(SignInNeededError, _to_sign_in)


def _as_page(handler: MaybeSlow, endpoints: frozenset[Any]) -> Handler:
    async def handle(request: Request, error: Any) -> Response:
        found = handler(request, error)
        answer = await found if isawaitable(found) else found
        if request.scope.get("endpoint") not in endpoints:
            wants_page = "text/html" in request.headers.get("accept", "")
            if request.url.path.startswith("/v1/") or not wants_page:
                return answer
        problem = json.loads(bytes(answer.body))
        visitor = getattr(request.state, "visitor", None)
        if visitor is None and answer.status_code == 404:  # no route has identified the visitor
            visitor = await run_sync(visitor_if_any, request, request.app.state.resources)
        shown = page(
            request,
            "problem.html",
            visitor=visitor,
            status=answer.status_code,
            headline=_HEADLINES.get(problem["type"].rpartition("/")[2], problem["title"]),
            problem={"errors": [], "scope": None, **problem},
        )
        for name, value in answer.headers.items():
            if name not in _OF_THE_BODY:
                shown.headers[name] = value
        return shown

    return handle


async def _to_sign_in(request: Request, _error: Any) -> Response:
    way_back = HOME
    if request.method == "GET":
        way_back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    # A cookie that is sent to its own site alone is left out when another site's link leads here;
    # a page of ours that goes on by itself brings it along.
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        return page(request, "arrived.html", visitor=None, target=local_path(way_back))
    query = "" if way_back == HOME else f"?{urlencode({'next': way_back})}"
    target = f"/sign-in{query}"
    return RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
