"""What is laid out of data on this machine goes when nobody keeps the data any longer."""

from collections.abc import Collection

import structlog
from sqlalchemy.exc import SQLAlchemyError

from infrastructure.settings import Settings
from models.database import Database
from models.repositories import GoneContentRepository

log = structlog.get_logger()


def tidy_maps(settings: Settings, database: Database) -> None:
    """Remove maps of contents that were deleted or erased everywhere, and those long unused."""
    if settings.maps_dir is None or not settings.maps_dir.is_dir():
        return
    from fedaudit.federations.mapped import MapFolder

    def gone(fingerprints: Collection[str]) -> set[str]:
        with database.read() as session:
            return GoneContentRepository(session).among(fingerprints)

    try:
        MapFolder(settings.maps_dir, settings.max_mapped_bytes).tidy(gone)
    except (OSError, SQLAlchemyError) as error:
        log.warning("mapped data not tidied", detail=type(error).__name__)
