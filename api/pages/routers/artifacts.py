"""The project's files of parameters that experiments start from."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from api.pages.session import ExperimentsVisitor
from api.pages.templates import page
from api.schemas.base import PageParameters
from api.services.artifacts import artifact_page
from api.shared.resources import Shared

router = APIRouter()

_ON_A_PAGE = 50


@router.get("/artifacts")
def artifacts_list(
    request: Request,
    visitor: ExperimentsVisitor,
    resources: Shared,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
) -> HTMLResponse:
    """Newest first, with the experiments that start from each."""
    asked = PageParameters(limit=_ON_A_PAGE, cursor=cursor)
    found = artifact_page(resources, visitor.caller, asked)
    return page(
        request,
        "artifacts.html",
        visitor=visitor,
        artifacts=found.items,
        next_cursor=found.next_cursor,
    )
