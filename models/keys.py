"""Makes API keys, and marks signing keys as compromised: `python -P -m models.keys create
--project P ...` and `... compromised --key-id ID`, with `--database-url URL`."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from models.database import Database, schema_state
from models.person import Person
from models.repositories import (
    ApiKeyRepository,
    AuditLogRepository,
    ProjectRepository,
    SigningKeyRepository,
)
from models.vocabulary import SCOPES, useless_scopes


@contextmanager
def _writing(url: str) -> Iterator[Session]:
    """A transaction. Raises RuntimeError for another schema, sqlalchemy.exc.SQLAlchemyError."""
    database = Database(url)
    try:
        state = schema_state(database)
        if not state.matches:
            raise RuntimeError(
                f"the database's schema is at {state.current}, this version needs {state.head}:"
                " run `python -P -m migrations upgrade`"
            )
        with database.write() as session:
            yield session
    finally:
        database.dispose()


def create_key(
    url: str, *, project: str, scopes: Sequence[str], name: str, person: Person | None = None
) -> dict[str, object]:
    """Makes a key, and its project if that is new; the answer has the plain text, only this once.
    Raises ValueError for scopes that open nothing, RuntimeError for another schema,
    sqlalchemy.exc.SQLAlchemyError."""
    if useless := useless_scopes(scopes):
        raise ValueError(useless)
    with _writing(url) as session:
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
        made = {"id": key.id, "key": plain, "scopes": list(key.scopes), "person": key.person}
    return {"project": project, **made}


def mark_compromised(
    url: str, *, key_id: str, since: datetime, note: str | None
) -> dict[str, object]:
    """Marks a signing key as known to others, in the log of every project: what it signed is
    evidence in each of them. Raises LookupError for an unknown key, otherwise as `create_key`."""
    with _writing(url) as session:
        keys = SigningKeyRepository(session)
        marked = keys.mark_compromised(key_id, since=since, note=note)
        if marked is None:
            known = ", ".join(one.key_id for one in keys.list()) or "none"
            raise LookupError(f"{key_id} is no key of this service; known are: {known}")
        found, is_news = marked
        assert found.compromised_at is not None
        stated = found.compromised_at.isoformat()
        for project_id in ProjectRepository(session).ids() if is_news else ():
            AuditLogRepository(session, project_id).enter(
                "signing-key.compromised",
                found.key_id,
                by=None,
                origin="command-line",
                since=stated,
            )
        noted = {"compromised_at": stated, "compromised_note": found.compromised_note}
        return {"key_id": found.key_id, **noted, "in_use": found.retired_at is None}


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _scopes(text: str) -> list[str]:
    found = [scope.strip() for scope in text.split(",") if scope.strip()]
    if not found:
        raise argparse.ArgumentTypeError(
            "names no scope; pass for example experiments:read,reports:read"
        )
    if unknown := [scope for scope in found if scope not in SCOPES]:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown)} is none of {', '.join(SCOPES)}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; prints one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -P -m models.keys")
    commands = parser.add_subparsers(dest="command", required=True)
    create = commands.add_parser("create", help="make a key and print it, this once")
    create.add_argument("--project", required=True)
    create.add_argument("--scopes", required=True, type=_scopes, help="comma-separated")
    create.add_argument("--name", default="key")
    create.add_argument("--person", help="whom the key belongs to, by name")
    create.add_argument("--person-email")
    create.add_argument("--person-role")
    marking = commands.add_parser("compromised", help="say that others may have a signing key")
    marking.add_argument("--key-id", required=True)
    marking.add_argument("--since", type=_time, help="as 2026-01-31T12:00:00Z; now")
    marking.add_argument("--note")
    for command in (create, marking):
        named = os.environ.get("FEDAUDIT_DATABASE_URL")
        command.add_argument("--database-url", default=named, required=not named)
    options = parser.parse_args(arguments)
    try:
        done = _done(options)
    except (LookupError, RuntimeError, ValueError, SQLAlchemyError) as error:
        # A database's own text has the statement and a link, for its author.
        sys.stderr.write(f"nothing was changed: {getattr(error, 'orig', None) or error}\n")
        return 1
    sys.stdout.write(json.dumps(done) + "\n")
    return 0


def _done(options: argparse.Namespace) -> dict[str, object]:
    """What the command prints. Raises ValueError for a person without a name, or with one that
    deceives, and otherwise as the command does."""
    url = options.database_url
    if options.command == "compromised":
        since = options.since or datetime.now(UTC)
        return mark_compromised(url, key_id=options.key_id, since=since, note=options.note)
    name, email, role = options.person, options.person_email, options.person_role
    if name is None and (email is not None or role is not None):
        raise ValueError("an address or a role needs a person; give --person as well")
    person = None if name is None else Person(name, email=email, role=role)
    return create_key(
        url, project=options.project, scopes=options.scopes, name=options.name, person=person
    )


if __name__ == "__main__":
    sys.exit(main())
