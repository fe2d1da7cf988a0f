"""API keys: made once in plain text, found again by their hash."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, bindparam, or_, select, update

from models.clock import seconds_from_now, utc_now
from models.identifiers import new_id
from models.person import Actor, Person
from models.prepared import PreparedRows
from models.repositories.base import Repository
from models.tables.api_keys import ApiKey

_MARK = "fa_"
_SHOWN_CHARACTERS = 10


class ApiKeyRepository(Repository):
    """Keys across projects: a key determines the project."""

    def create(
        self,
        *,
        project_id: str,
        name: str,
        scopes: Sequence[str],
        person: Person | None = None,
        created_by: Actor | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key and its plain text, which is shown this once and cannot be read back."""
        plain = _new_secret()
        key = ApiKey(
            id=new_id(),
            project_id=project_id,
            name=name,
            prefix=plain[:_SHOWN_CHARACTERS],
            hash=hash_of_key(plain),
            scopes=list(scopes),
            person=None if person is None else person.as_dict(),
            created_at=utc_now(),
            created_by=None if created_by is None else created_by.as_dict(),
            revoked_at=None,
        )
        self.session.add(key)
        self.session.flush()
        return key, plain

    def find(self, plain: str) -> ApiKey | None:
        """The key with this plain text, unless it is revoked.

        What is looked up is a hash, so the time taken says nothing about the stored keys.
        """
        return _OPENED.one(self.session, secret_hash=hash_of_key(plain))

    def is_in_force(self, secret_hash: str) -> bool:
        """Whether a secret that opened a key before still does."""
        return _OPENED.one(self.session, secret_hash=secret_hash) is not None

    def rotate(self, project_id: str, id: str, *, overlap: timedelta) -> tuple[ApiKey, str] | None:  # noqa: A002
        """The key with a new secret, and its plain text; None where this project has no such key
        in force.

        The secret before it opens the key for `overlap` more; one that was replaced before that
        ends at once.
        """
        mine = (ApiKey.id == id, ApiKey.project_id == project_id, ApiKey.revoked_at.is_(None))
        key = self._one(select(ApiKey).where(*mine).with_for_update())
        if key is None:
            return None
        plain, now = _new_secret(), utc_now()
        key.previous_hash = key.hash if overlap else None
        key.previous_until = now + overlap if overlap else None
        key.hash, key.prefix = hash_of_key(plain), plain[:_SHOWN_CHARACTERS]
        key.rotated_at = now
        self.session.flush()
        return key, plain

    def list(self, project_id: str) -> list[ApiKey]:
        """A project's keys, also the revoked ones, oldest first."""
        return self._all(select(ApiKey).where(ApiKey.project_id == project_id).order_by(ApiKey.id))

    def revoke(self, project_id: str, id: str) -> bool:  # noqa: A002
        """Ends a key; False where this project has no such key in force."""
        return bool(
            self._execute(
                update(ApiKey)
                .where(
                    ApiKey.id == id, ApiKey.project_id == project_id, ApiKey.revoked_at.is_(None)
                )
                .values(revoked_at=utc_now())
            )
        )


def hash_of_key(plain: str) -> str:
    """What is stored of a secret."""
    # A key holds 256 random bits: a slow hash would protect nothing and cost every request.
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()


def opens(secret_hash: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a key is in force, and that this secret opens it: its own, or the one
    before while that is let in beside it. The database's clock decides."""
    before = and_(ApiKey.previous_hash == secret_hash, ApiKey.previous_until > seconds_from_now())
    return and_(ApiKey.revoked_at.is_(None), or_(ApiKey.hash == secret_hash, before))


_OPENED = PreparedRows(
    select(ApiKey).where(opens(bindparam("secret_hash", type_=ApiKey.hash.type)))
)


def _new_secret() -> str:
    return _MARK + secrets.token_urlsafe(32)
