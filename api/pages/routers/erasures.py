"""Erasures: the list, one of them with its receipt, and the receipt to keep."""

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import TypeAdapter
from starlette.responses import HTMLResponse, Response

from api.http.answers import SmallInteger, decode_cursor, encode_cursor
from api.http.problems import not_found
from api.pages.session import FederationsVisitor
from api.pages.templates import page
from api.services.erasures import shown_erasure
from api.shared.resources import Shared
from fedaudit.spec.base import Text
from models.repositories import ErasureRepository

router = APIRouter()

_ON_A_PAGE = 25
_KEY: TypeAdapter[Any] = TypeAdapter(tuple[datetime, Text, SmallInteger])
_Number = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("/erasures")
def erasures_list(
    request: Request,
    visitor: FederationsVisitor,
    resources: Shared,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
) -> HTMLResponse:
    """The project's erasures, newest first."""
    after = decode_cursor("erasures", cursor, _KEY)
    with resources.database.read() as session:
        found = ErasureRepository(session, visitor.caller.project_id).page(
            cursor=after, limit=_ON_A_PAGE
        )
    return page(
        request,
        "erasures.html",
        visitor=visitor,
        erasures=found.items,
        first_page="/erasures" if cursor else None,
        next_cursor=encode_cursor("erasures", found.next_cursor),
    )


@router.get("/federations/{federation_id}/erasures/{number}")
def erasure_page(
    federation_id: str,
    number: _Number,
    request: Request,
    visitor: FederationsVisitor,
    resources: Shared,
) -> HTMLResponse:
    """What was removed and what remains, by the signed receipt."""
    found = shown_erasure(resources, visitor.caller, federation_id, number)
    return page(request, "erasure.html", visitor=visitor, found=found, erasure=found.body)


@router.get("/federations/{federation_id}/erasures/{number}/receipt.json")
def erasure_receipt(
    federation_id: str, number: _Number, visitor: FederationsVisitor, resources: Shared
) -> Response:
    """The receipt as it was signed (DSSE). Raises ProblemError before it is."""
    found = shown_erasure(resources, visitor.caller, federation_id, number)
    if found.body.receipt is None:
        raise not_found("receipt: the erasure is not done yet")
    headers = {
        "Content-Disposition": f'attachment; filename="{found.body.federation_id}-erasure-{number}'
        '-receipt.json"',
        "Cache-Control": "no-store",
    }
    text = json.dumps(found.body.receipt, indent=2) + "\n"
    return Response(text, media_type="application/json", headers=headers)
