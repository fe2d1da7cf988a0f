"""Style sheets, scripts and drawings of the pages, kept by browsers until their content changes."""

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from api.pages.templates import ASSETS, MADE, content_mark

_YEAR = "public, max-age=31536000, immutable"
_ASK_FIRST = "no-cache"


class Assets(StaticFiles):
    """The files below `assets/`; an address with the right mark may be kept for a year."""

    def __init__(self) -> None:
        super().__init__(directory=ASSETS)

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Raises HTTPException (404) where there is no such file."""
        response = await self._content(path, scope)
        asked = scope["query_string"].decode("latin-1")
        marked = asked == f"v={content_mark(path)}"
        response.headers["Cache-Control"] = _YEAR if marked else _ASK_FIRST
        return response

    async def _content(self, path: str, scope: Scope) -> Response:
        made = MADE.get(path)
        if made is None:
            return await super().get_response(path, scope)
        return Response(made(), media_type="text/css")
