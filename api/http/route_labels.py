"""What a request is called in figures and traces: by its route, never by its address."""

from collections.abc import Mapping
from typing import Any

_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_OTHER = "other"


def method_of(scope: Mapping[str, Any]) -> str:
    """The method, or one word for all that there are not."""
    return scope["method"] if scope["method"] in _METHODS else _OTHER


def route_of(scope: Mapping[str, Any]) -> str:
    """The template of the route; its number of values is that of the routes, whatever is asked."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return _OTHER
    return f"/v1{path}" if scope["path"].startswith("/v1/") else str(path)
