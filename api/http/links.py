"""The page behind this one, as a link (RFC 8288)."""

from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

from fastapi import Depends, Request, Response
from starlette.datastructures import URL


class _Page(Protocol):
    next_cursor: str | None


AnyPage = TypeVar("AnyPage", bound=_Page)


async def _linked(request: Request, response: Response) -> Callable[[AnyPage], AnyPage]:
    def link(page: AnyPage) -> AnyPage:
        if page.next_cursor is not None:
            following = URL(str(request.url)).include_query_params(cursor=page.next_cursor)
            # Relative: a proxy in front may serve it at another address.
            response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
        return page

    return link


Linked = Annotated[Callable[[AnyPage], AnyPage], Depends(_linked)]
"""Gives a page back, and its answer the header `Link` to the next one."""
