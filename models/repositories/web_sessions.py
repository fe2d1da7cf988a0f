"""Sessions at the pages: begun with an API key, found by the hash of their token."""

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, select

from models.clock import seconds_from_now
from models.repositories.base import Repository, table_of
from models.tables.api_keys import ApiKey
from models.tables.projects import Project
from models.tables.web_sessions import WebSession


@dataclass(frozen=True)
class FoundSession:
    """A session in force: the key it was begun with, as it is now, and that key's project."""

    key: ApiKey
    project_name: str


class WebSessionRepository(Repository):
    """Sessions across projects: the key of a session determines the project."""

    def begin(self, key: ApiKey, *, seconds: float) -> str:
        """The token of a new session, returned this once. Sessions that expired are removed.

        The database's clock decides when it ends.
        """
        self._execute(delete(WebSession).where(WebSession.expires_at <= seconds_from_now()))
        token = secrets.token_urlsafe(32)
        row = {
            "token_hash": _hash(token),
            "api_key_id": key.id,
            "project_id": key.project_id,
            "created_at": seconds_from_now(),
            "expires_at": seconds_from_now(seconds),
        }
        self.session.execute(table_of(WebSession).insert().values(row))
        return token

    def find(self, token: str) -> FoundSession | None:
        """None for an unknown token, a session that ended, or one whose key was revoked."""
        found = self.session.execute(
            select(ApiKey, Project.name)
            .join(WebSession, WebSession.api_key_id == ApiKey.id)
            .join(Project, Project.id == ApiKey.project_id)
            .where(
                WebSession.token_hash == _hash(token),
                WebSession.expires_at > seconds_from_now(),
                ApiKey.revoked_at.is_(None),
            )
        ).one_or_none()
        return None if found is None else FoundSession(*found)

    def end(self, token: str) -> None:
        """Ends a session; nothing happens where there is none."""
        self._execute(delete(WebSession).where(WebSession.token_hash == _hash(token)))


def _hash(token: str) -> str:
    # A token holds 256 random bits: a slow hash would protect nothing and cost every request.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
