"""The page behind this one, as a link (RFC 8288)."""

from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

from fastapi import Depends, Request, Response

from api.http.json_answers import JSON, WrittenPage


class _Page(Protocol):
    next_cursor: str | None


AnyPage = TypeVar("AnyPage", bound=_Page)


async def _linked(request: Request, response: Response) -> Callable[[AnyPage], AnyPage]:
    def link(page: AnyPage) -> AnyPage:
        response.headers.update(link_headers(request, page.next_cursor))
        return page

    return link


async def _linked_answer(request: Request) -> Callable[[WrittenPage], Response]:
    def answer(page: WrittenPage) -> Response:
        headers = link_headers(request, page.next_cursor)
        return Response(page.content, headers=headers, media_type=JSON)

    return answer


def link_headers(request: Request, cursor: str | None) -> dict[str, str]:
    """The header `Link` to the next page; none behind the last."""
    if cursor is None:
        return {}
    following = request.url.include_query_params(cursor=cursor)
    # Relative: a proxy in front may serve it at another address.
    return {"Link": f'<{following.path}?{following.query}>; rel="next"'}


Linked = Annotated[Callable[[AnyPage], AnyPage], Depends(_linked)]
"""Gives a page back, and its answer the header `Link` to the next one."""
LinkedAnswer = Annotated[Callable[[WrittenPage], Response], Depends(_linked_answer)]
"""Answers with a page that is written, and with the same header."""
