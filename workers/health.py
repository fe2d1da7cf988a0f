"""`python -P -m workers.health`: exit code 0 if this machine's workers are listening to their
queue.

For the health check of a container: it reports problems and exits with 1 where the consumer has
given no sign of life, or where the database does not respond or has another schema.
"""

import sys

from sqlalchemy.exc import SQLAlchemyError

from infrastructure.settings import SettingsError, load_settings
from models.database import Database
from models.schema import schema_state
from workers.heartbeat import unwell


def main() -> int:
    """Report problems, if any; returns the exit code."""
    try:
        settings = load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    if (reason := unwell(settings)) is None:
        reason = _schema_fault(settings.database_url)
    sys.stdout.write(f"{reason or 'well'}\n")
    return 0 if reason is None else 1


def _schema_fault(url: str) -> str | None:
    database = Database(url)
    try:
        schema = schema_state(database)
    except SQLAlchemyError as error:
        return f"the database does not answer: {type(error).__name__}"
    finally:
        database.dispose()
    if schema.matches:
        return None
    return f"the database's schema is at {schema.current or 'nothing'}, not {schema.head}"


if __name__ == "__main__":
    sys.exit(main())
