"""Sessions at the pages: begun with an API key, found by the hash of their token."""

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, delete, or_, select

from models.clock import seconds_from_now
from models.repositories.api_keys import opens
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

    def begin(self, key: ApiKey, *, seconds: float, secret_hash: str | None = None) -> str:
        """The token of a new session, returned this once. Sessions that expired are removed.

        The database's clock decides when it ends. `secret_hash`: of the secret that it is begun
        with, and ends with; the key's newest unless given.
        """
        self._execute(delete(WebSession).where(WebSession.expires_at <= seconds_from_now()))
        token = secrets.token_urlsafe(32)
        row = {
            "token_hash": _hash(token),
            "api_key_id": key.id,
            "project_id": key.project_id,
            "key_hash": secret_hash or key.hash,
            "created_at": seconds_from_now(),
            "expires_at": seconds_from_now(seconds),
        }
        self.session.execute(table_of(WebSession).insert().values(row))
        return token

    def find(self, token: str) -> FoundSession | None:
        """None for an unknown token, a session that ended, or one whose key was
        revoked or given another secret."""
        found = self.session.execute(
            select(ApiKey, Project.name)
            .join(WebSession, WebSession.api_key_id == ApiKey.id)
            .join(Project, Project.id == ApiKey.project_id)
            .where(
                WebSession.token_hash == _hash(token),
                WebSession.expires_at > seconds_from_now(),
                or_(opens(table_of(WebSession).c.key_hash), _unrecorded()),
            )
        ).one_or_none()
        return None if found is None else FoundSession(*found)

    def end(self, token: str) -> None:
        """Ends a session; nothing happens where there is none."""
        self._execute(delete(WebSession).where(WebSession.token_hash == _hash(token)))


def _unrecorded() -> ColumnElement[bool]:
    """A session of before its secret was recorded, with a key that still has its first one."""
    unknown = and_(WebSession.key_hash.is_(None), ApiKey.rotated_at.is_(None))
    return and_(unknown, ApiKey.revoked_at.is_(None))


def _hash(token: str) -> str:
    # A token holds 256 random bits: a slow hash would protect nothing and cost every request.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
