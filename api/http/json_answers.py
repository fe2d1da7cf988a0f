"""Answers that are made where they are found out."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel
from starlette.responses import Response

JSON = "application/json"


@dataclass(frozen=True)
class WrittenPage:
    """A page of a long list whose JSON is written already."""

    content: bytes
    next_cursor: str | None


def json_answer(
    body: BaseModel, *, status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A body as FastAPI would send it: for routes that are asked often and answer at length.

    FastAPI has a thread check a body that a route returns, and writes it in the event loop, where
    every other request waits. This does neither, so the route names its `response_model` itself.
    """
    return Response(body.model_dump_json(), status_code, headers, media_type=JSON)
