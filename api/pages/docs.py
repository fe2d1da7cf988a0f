"""The interactive documentation, from this service's own files: nothing is fetched elsewhere."""

from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, FastAPI
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

router = APIRouter(include_in_schema=False)

_HERE = Path(__file__).parent
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


@router.get("/docs")
async def docs() -> FileResponse:
    """Swagger UI."""
    return FileResponse(_HERE / "docs.html", headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/start.js")
async def start() -> FileResponse:
    """What starts Swagger UI."""
    return FileResponse(_HERE / "docs.js", media_type="text/javascript")


def install(app: FastAPI) -> None:
    """Serve the documentation. Raises RuntimeError where the assets are not installed."""
    # The package is wanted for its files; importing it would cost start-up time.
    found = find_spec("fastapi_offline")
    if found is None or found.origin is None:
        raise RuntimeError("fastapi-offline is not installed; install fedaudit with its needs")
    app.include_router(router)
    app.mount("/docs/assets", StaticFiles(directory=Path(found.origin).parent / "static"))
