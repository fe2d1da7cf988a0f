"""A name for every request: in its answer, in a problem document, and on each line of the log."""

import re
import uuid
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._~-]{8,64}")
"""What is taken from a client: nothing that could break a line of a log or stand for markup."""


class RequestIds:
    """Gives each request the id that its client sent, where that is sane, or else a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get(HEADER, "")
        id_ = name_request(scope, sent)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=id_):
            await self._app(scope, receive, with_id)


def name_request(scope: MutableMapping[str, Any], sent: str = "") -> str:
    """Give a request the id that was sent with it, if that is sane, or else a new one."""
    id_ = sent if _SANE.fullmatch(sent) else str(uuid.uuid4())
    scope.setdefault("state", {})["request_id"] = id_
    return id_


def request_id(scope: Mapping[str, Any]) -> str:
    """The id that a request was given."""
    return str(scope["state"]["request_id"])


def instance_of(scope: Mapping[str, Any]) -> str:
    """The id of a request as the URI of what happened to it (RFC 9457, `instance`)."""
    id_ = request_id(scope)
    try:
        return uuid.UUID(id_).urn
    except ValueError:
        return f"urn:x-request-id:{id_}"
