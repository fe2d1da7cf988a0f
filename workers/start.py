"""The common start of a worker and the sweeper."""

import structlog
from sqlalchemy.exc import SQLAlchemyError

from infrastructure.logs import configure_logs
from infrastructure.settings import Settings, SettingsError, load_settings
from infrastructure.tracing import configure_tracing
from models.database import Database
from models.schema import schema_state

log = structlog.get_logger()


def start(name: str) -> tuple[Settings, Database]:
    """The settings and an open database; exits with a message where they cannot be used.

    `name`: what traces call this process.
    A database that does not respond yet is not an error: it may become available later.
    """
    try:
        settings = load_settings()
        configure_tracing(name)
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    configure_logs(settings.log_format)
    if settings.embedded:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    # A worker that froze in a transaction must not hold its unit longer than its lease.
    database = Database(settings.database_url, transaction_seconds=settings.lease_seconds)
    try:
        schema = schema_state(database)
    except SQLAlchemyError as error:
        log.warning("database away; starting all the same", error=type(error).__name__)
        return settings, database
    if not schema.matches:
        raise SystemExit(
            f"the database's schema is at {schema.current or 'nothing'} and this version needs "
            f"{schema.head}; run `fedaudit migrate`"
        )
    return settings, database
