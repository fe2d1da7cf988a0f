"""Marks signing keys as compromised: `python -P -m models.signing_keys compromised --key-id ID`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from models.database import Database
from models.repositories import AuditLogRepository, ProjectRepository, SigningKeyRepository


def mark_compromised(
    url: str, *, key_id: str, since: datetime, note: str | None
) -> dict[str, object]:
    """Marks a key as known to others. Raises LookupError for an unknown key,
    sqlalchemy.exc.SQLAlchemyError."""
    database = Database(url)
    try:
        with database.write() as session:
            keys = SigningKeyRepository(session)
            marked = keys.mark_compromised(key_id, since=since, note=note)
            if marked is None:
                known = ", ".join(one.key_id for one in keys.list()) or "none"
                raise LookupError(f"{key_id} is no key of this service; known are: {known}")
            found, is_news = marked
            assert found.compromised_at is not None
            if is_news:
                _enter(session, found.key_id, since=found.compromised_at)
            return {
                "key_id": found.key_id,
                "compromised_at": found.compromised_at.isoformat(),
                "compromised_note": found.compromised_note,
                "in_use": found.retired_at is None,
            }
    finally:
        database.dispose()


def _enter(session: Session, key_id: str, *, since: datetime) -> None:
    """In the log of every project: what the key signed is evidence in each of them."""
    for project_id in ProjectRepository(session).ids():
        AuditLogRepository(session, project_id).enter(
            "signing-key.compromised",
            key_id,
            by=None,
            origin="command-line",
            since=since.isoformat(),
        )


def _time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; prints one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -P -m models.signing_keys")
    commands = parser.add_subparsers(dest="command", required=True)
    marking = commands.add_parser("compromised", help="say that others may have a key")
    marking.add_argument("--database-url", default=os.environ.get("FEDAUDIT_DATABASE_URL"))
    marking.add_argument("--key-id", required=True)
    marking.add_argument("--since", type=_time, default=None, help="as 2026-01-31T12:00:00Z; now")
    marking.add_argument("--note")
    options = parser.parse_args(arguments)
    if not options.database_url:
        parser.error("--database-url is missing; pass it or set FEDAUDIT_DATABASE_URL")
    try:
        marked = mark_compromised(
            options.database_url,
            key_id=options.key_id,
            since=options.since or datetime.now(UTC),
            note=options.note,
        )
    except (LookupError, SQLAlchemyError) as error:
        sys.stderr.write(f"no key was marked: {getattr(error, 'orig', None) or error}\n")
        return 1
    sys.stdout.write(json.dumps(marked) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
