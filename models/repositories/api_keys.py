"""API keys: made once in plain text, found again by their hash."""

import hashlib
import hmac
import secrets
from collections.abc import Sequence

from sqlalchemy import select, update

from models.clock import utc_now
from models.identifiers import new_id
from models.repositories.base import Repository
from models.tables.api_keys import ApiKey

_MARK = "fa_"
_SHOWN_CHARACTERS = 10


class ApiKeyRepository(Repository):
    """Keys across projects: a key determines the project."""

    def create(self, *, project_id: str, name: str, scopes: Sequence[str]) -> tuple[ApiKey, str]:
        """A new key and its plain text, which is shown this once and cannot be read back."""
        plain = _MARK + secrets.token_urlsafe(32)
        key = ApiKey(
            id=new_id(),
            project_id=project_id,
            name=name,
            prefix=plain[:_SHOWN_CHARACTERS],
            hash=_hash(plain),
            scopes=list(scopes),
            created_at=utc_now(),
            revoked_at=None,
        )
        self.session.add(key)
        self.session.flush()
        return key, plain

    def find(self, plain: str) -> ApiKey | None:
        """The key with this plain text, unless it is revoked.

        What is looked up is a hash, so the time taken says nothing about the stored keys.
        """
        digest = _hash(plain)
        key = self._one(select(ApiKey).where(ApiKey.hash == digest, ApiKey.revoked_at.is_(None)))
        return key if key is not None and hmac.compare_digest(key.hash, digest) else None

    def is_in_force(self, id: str) -> bool:  # noqa: A002
        """Whether a key that was found before is not revoked since."""
        key = self.session.get(ApiKey, id)
        return key is not None and key.revoked_at is None

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


def _hash(plain: str) -> str:
    # A key holds 256 random bits: a slow hash would protect nothing and cost every request.
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
