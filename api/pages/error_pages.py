"""Refusals as pages: what the API answers as a problem document, in words for people."""

import json
from collections.abc import Awaitable, Callable, Collection
from inspect import isawaitable
from typing import Any
from urllib.parse import urlencode

from anyio.to_thread import run_sync
from fastapi import FastAPI, Request
from starlette.responses import RedirectResponse, Response

from api.pages.origins import HOME, local_path
from api.pages.session import SignInNeededError, Visitor, visitor_of
from api.pages.templates import page

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


def install(app: FastAPI, endpoints: Collection[Callable[..., Any]]) -> None:
    """Let failures of these endpoints be pages, and of addresses that browsers ask for in vain."""
    known = frozenset(endpoints)
    for kind, handler in list(app.exception_handlers.items()):
        app.add_exception_handler(kind, _as_page(handler, known))
    app.add_exception_handler(SignInNeededError, _to_sign_in)


def _as_page(handler: MaybeSlow, endpoints: frozenset[Callable[..., Any]]) -> Handler:
    async def handle(request: Request, error: Any) -> Response:
        found = handler(request, error)
        answer = await found if isawaitable(found) else found
        if request.scope.get("endpoint") not in endpoints and not _is_lost_browser(request):
            return answer
        problem = json.loads(bytes(answer.body))
        visitor = getattr(request.state, "visitor", None)
        if visitor is None and answer.status_code == 404:  # no route has looked who asks
            visitor = await run_sync(_signed_in, request)
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


def _signed_in(request: Request) -> Visitor | None:
    try:
        return visitor_of(request, request.app.state.resources)
    except SignInNeededError:
        return None


def _is_lost_browser(request: Request) -> bool:
    """Somebody at a browser, at an address that is neither a page nor below the API."""
    wants_page = "text/html" in request.headers.get("accept", "")
    return wants_page and not request.url.path.startswith("/v1/")


async def _to_sign_in(request: Request, error: Any) -> Response:
    # A cookie that is sent to its own site alone is left out when another site's link leads here;
    # a page of ours that goes on by itself brings it along.
    if request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site":
        return page(request, "arrived.html", visitor=None, target=local_path(error.next_path))
    query = "" if error.next_path == HOME else f"?{urlencode({'next': error.next_path})}"
    target = f"/sign-in{query}"
    return RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
