"""Makes API keys, and marks signing keys as compromised: `python -P -m models.keys` does what
`fedaudit keys create` and `fedaudit signing-keys compromised` ask for in JSON on its input."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from models.database import Database, schema_fault
from models.person import Person
from models.repositories import (
    ApiKeyRepository,
    AuditLogRepository,
    ProjectRepository,
    SigningKeyRepository,
)
from models.values import useless_scopes


@contextmanager
def _writing(url: str) -> Iterator[Session]:
    """A transaction. Raises RuntimeError for another schema, sqlalchemy.exc.SQLAlchemyError."""
    with closing(Database(url)) as database:
        if fault := schema_fault(database):
            raise RuntimeError(fault)
        with database.write() as session:
            yield session


def create_key(
    url: str,
    *,
    project: str,
    scopes: Sequence[str],
    name: str,
    person: Mapping[str, Any] | None = None,
) -> dict[str, object]:
    """Makes a key, and its project if that is new; the answer has the plain text, only this once.
    Raises ValueError for scopes that open nothing and a person's name that deceives, RuntimeError
    for another schema, sqlalchemy.exc.SQLAlchemyError."""
    holder = Person.of(person)
    if useless := useless_scopes(scopes):
        raise ValueError(useless)
    with _writing(url) as session:
        project_id = ProjectRepository(session).get_or_create(project).id
        key, plain = ApiKeyRepository(session).create(
            project_id=project_id, name=name, scopes=scopes, person=holder
        )
        AuditLogRepository(session, project_id).enter(
            "key.created",
            key.id,
            by=None,
            origin="command-line",
            name=name,
            scopes=list(scopes),
            person=None if holder is None else holder.name,
        )
        made = {"id": key.id, "key": plain, "scopes": list(key.scopes), "person": key.person}
    return {"project": project, **made}


def mark_compromised(
    url: str, *, key_id: str, since: str | None, note: str | None
) -> dict[str, object]:
    """Marks a signing key as known to others since then, or now, in the log of every project: what
    it signed is evidence in each of them. Raises LookupError for an unknown key, ValueError for
    what is no time, otherwise as `create_key`."""
    begun = datetime.now(UTC) if since is None else datetime.fromisoformat(since)
    begun = begun if begun.tzinfo is not None else begun.replace(tzinfo=UTC)
    with _writing(url) as session:
        keys = SigningKeyRepository(session)
        marked = keys.mark_compromised(key_id, since=begun, note=note)
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


_ACTIONS: dict[str, Callable[..., dict[str, object]]] = {
    "create": create_key,
    "compromised": mark_compromised,
}


def main() -> int:
    """The command; prints one line of JSON."""
    asked: dict[str, Any] = json.load(sys.stdin)
    try:
        done = _ACTIONS[asked.pop("action")](**asked)
    except (LookupError, RuntimeError, ValueError, SQLAlchemyError) as error:
        # A database's own text has the statement and a link, for its author.
        sys.stderr.write(f"nothing was changed: {getattr(error, 'orig', None) or error}\n")
        return 2 if isinstance(error, RuntimeError) else 1
    sys.stdout.write(json.dumps(done) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
