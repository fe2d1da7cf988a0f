"""Makes API keys: `python -P -m models.keys create --database-url URL --project P ...`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from sqlalchemy.exc import SQLAlchemyError

from models.database import Database, schema_state
from models.person import Person
from models.repositories import ApiKeyRepository, AuditLogRepository, ProjectRepository
from models.vocabulary import SCOPES, useless_scopes


def create_key(
    url: str, *, project: str, scopes: Sequence[str], name: str, person: Person | None = None
) -> dict[str, object]:
    """Makes a key, and its project if that is new; the answer has the plain text, only this once.
    Raises ValueError for scopes that open nothing, RuntimeError for another schema,
    sqlalchemy.exc.SQLAlchemyError."""
    if useless := useless_scopes(scopes):
        raise ValueError(useless)
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
                project_id=project_id, name=name, scopes=scopes, person=person
            )
            AuditLogRepository(session, project_id).enter(
                "key.created",
                key.id,
                by=None,
                origin="command-line",
                name=name,
                scopes=list(scopes),
                person=None if person is None else person.name,
            )
            return {
                "project": project,
                "id": key.id,
                "key": plain,
                "scopes": list(key.scopes),
                "person": key.person,
            }
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
    create.add_argument("--person", help="whom the key belongs to, by name")
    create.add_argument("--person-email")
    create.add_argument("--person-role")
    options = parser.parse_args(arguments)
    if not options.database_url:
        parser.error("--database-url is missing; pass it or set FEDAUDIT_DATABASE_URL")
    scopes = [scope.strip() for scope in options.scopes.split(",") if scope.strip()]
    if not scopes:
        parser.error("--scopes names no scope; pass for example experiments:read,reports:read")
    if unknown := [scope for scope in scopes if scope not in SCOPES]:
        parser.error(f"--scopes: {', '.join(unknown)} is none of {', '.join(SCOPES)}")
    try:
        made = create_key(
            options.database_url,
            project=options.project,
            scopes=scopes,
            name=options.name,
            person=_person(options),
        )
    except (RuntimeError, ValueError, SQLAlchemyError) as error:
        # A database's own text has the statement and a link, for its author.
        sys.stderr.write(f"no key was made: {getattr(error, 'orig', None) or error}\n")
        return 1
    sys.stdout.write(json.dumps(made) + "\n")
    return 0


def _person(options: argparse.Namespace) -> Person | None:
    """Raises ValueError for a person without a name, or with one that deceives."""
    name, email, role = options.person, options.person_email, options.person_role
    if name is None:
        if email is not None or role is not None:
            raise ValueError("an address or a role needs a person; give --person as well")
        return None
    return Person(name, email=email, role=role)


if __name__ == "__main__":
    sys.exit(main())
