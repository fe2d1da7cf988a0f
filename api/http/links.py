"""The page behind this one, as a link (RFC 8288)."""

from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

from fastapi import Depends, Request, Response


class _Page(Protocol):
    next_cursor: str | None


AnyPage = TypeVar("AnyPage", bound=_Page)


async def _linked(request: Request, response: Response) -> Callable[[AnyPage], AnyPage]:
    def link(page: AnyPage) -> AnyPage:
        response.headers.update(link_headers(request, page))
        return page

    return link


def link_headers(request: Request, page: _Page) -> dict[str, str]:
    """The header `Link` to the next page; none behind the last."""
    if page.next_cursor is None:
        return {}
    following = request.url.include_query_params(cursor=page.next_cursor)
    # Relative: a proxy in front may serve it at another address.
    return {"Link": f'<{following.path}?{following.query}>; rel="next"'}


Linked = Annotated[Callable[[AnyPage], AnyPage], Depends(_linked)]
"""Gives a page back, and its answer the header `Link` to the next one."""
