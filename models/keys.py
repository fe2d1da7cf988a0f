"""Makes API keys: `python -P -m models.keys create --database-url URL --project P ...`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from models.database import Database
from models.repositories import ApiKeyRepository, ProjectRepository
from models.schema import schema_state


def create_key(url: str, *, project: str, scopes: Sequence[str], name: str) -> dict[str, object]:
    """Makes a key, and the project if it is new; the answer holds the plain text, this once.

    Raises RuntimeError where the schema is not the one that this version needs, and
    sqlalchemy.exc.SQLAlchemyError where the database is away.
    """
    database = Database(url)
    try:
        state = schema_state(database)
        if not state.matches:
            raise RuntimeError(
                f"the database's schema is at {state.current}, this version needs {state.head}:"
                " run `python -P -m migrations upgrade`"
            )
        with database.write() as session:
            project_id = ProjectRepository(session).get_or_create(project).id
            key, plain = ApiKeyRepository(session).create(
                project_id=project_id, name=name, scopes=scopes
            )
            return {"project": project, "id": key.id, "key": plain, "scopes": list(key.scopes)}
    finally:
        database.dispose()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; prints one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -P -m models.keys")
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a key and print it, this once")
    create.add_argument("--database-url", default=os.environ.get("FEDAUDIT_DATABASE_URL"))
    create.add_argument("--project", required=True)
    create.add_argument("--scopes", required=True, help="comma-separated")
    create.add_argument("--name", default="key")
    options = parser.parse_args(arguments)
    if not options.database_url:
        parser.error("--database-url is missing; pass it or set FEDAUDIT_DATABASE_URL")
    scopes = [scope.strip() for scope in options.scopes.split(",") if scope.strip()]
    if not scopes:
        parser.error("--scopes names no scope; pass for example experiments:read,reports:read")
    try:
        made = create_key(
            options.database_url, project=options.project, scopes=scopes, name=options.name
        )
    except (RuntimeError, ValueError, SQLAlchemyError) as error:
        sys.stderr.write(f"no key was made: {error}\n")
        return 1
    sys.stdout.write(json.dumps(made) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
