"""Where a problem's `type` leads: what such a problem means, as a page or as JSON."""

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from api.http.negotiation import Accept, preferred
from api.http.problem_meanings import MEANINGS
from api.http.problems import TITLES, not_found, type_of
from api.pages.templates import page

router = APIRouter(include_in_schema=False)


@router.get("/problems/{slug}")
def problem_kind(request: Request, slug: str, accept: Accept) -> Response:
    """What a kind of problem means and what to do about it. No key is needed."""
    found = MEANINGS.get(slug)
    if found is None:
        raise not_found("kind of problem")
    if preferred(accept, ("text/html", "application/json")) == "application/json":
        told = {"type": type_of(slug), "title": TITLES[slug], **vars(found)}
        return JSONResponse(told)
    return page(
        request, "problem_kind.html", visitor=None, title=TITLES[slug], slug=slug, kind=found
    )
