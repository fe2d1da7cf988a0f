"""What an API asks of its database."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event

from tests.api.service import Api


@contextmanager
def statements(api: Api) -> Iterator[list[str]]:
    """The statements that the API sends in the block."""
    found: list[str] = []
    engine = api.client.app.state.resources.database.engine  # type: ignore[attr-defined]

    def note(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        # Not of sessions that only read: the schema is looked at now and then.
        if "sqlite_begin" not in connection.get_execution_options():
            found.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)
