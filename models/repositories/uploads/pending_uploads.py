"""Tables that wait for their registration, and what becomes of those that waited too long."""

from collections.abc import Sequence

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from models.clock import seconds_from_now
from models.repositories.base import Repository, ScopedRepository, table_of
from models.tables.federations import Federation
from models.tables.uploads.pending_uploads import PendingUpload


class PendingUploadRepository(ScopedRepository):
    """A project's uploads, each seen by the key that sent it alone."""

    def add(
        self,
        upload_id: str,
        *,
        api_key_id: str,
        storage_key: str,
        fingerprint: str,
        file_name: str,
        size_bytes: int,
        seconds: float,
    ) -> None:
        """Enters a stored file; the database's clock decides when it expires."""
        row = {
            "id": upload_id,
            "project_id": self.project_id,
            "api_key_id": api_key_id,
            "storage_key": storage_key,
            "fingerprint": fingerprint,
            "file_name": file_name,
            "size_bytes": size_bytes,
            "created_at": seconds_from_now(),
            "expires_at": seconds_from_now(seconds),
        }
        self.session.execute(table_of(PendingUpload).insert().values(row))

    def get(self, upload_id: str, *, api_key_id: str) -> PendingUpload | None:
        """The key's upload, if it has not expired."""
        return self._one(
            self._select(PendingUpload).where(
                PendingUpload.id == upload_id,
                PendingUpload.api_key_id == api_key_id,
                PendingUpload.expires_at > seconds_from_now(),
            )
        )

    def of_key(self, api_key_id: str) -> Sequence[PendingUpload]:
        """The key's uploads that have not expired, newest first."""
        return self._all(
            self._select(PendingUpload)
            .where(
                PendingUpload.api_key_id == api_key_id,
                PendingUpload.expires_at > seconds_from_now(),
            )
            .order_by(PendingUpload.id.desc())
        )

    def lock(self, upload_id: str, *, api_key_id: str) -> PendingUpload | None:
        """The key's upload, expired or not; nobody else registers or removes it until the
        transaction ends. None where somebody did."""
        return self._one(
            self._select(PendingUpload)
            .where(PendingUpload.id == upload_id, PendingUpload.api_key_id == api_key_id)
            .with_for_update()
        )

    def remove(self, upload_id: str) -> bool:
        """Forgets an upload; False where somebody else did already."""
        columns = table_of(PendingUpload).c
        mine = (columns.id == upload_id) & (columns.project_id == self.project_id)
        return bool(self._execute(delete(PendingUpload).where(mine)))

    def is_registered(self, storage_key: str) -> bool:
        """Whether a federation has the file, so that it must stay."""
        return _is_registered(self.session, storage_key)


class ExpiredUploadRepository(Repository):
    """Uploads of all projects whose time is over."""

    def list(self, limit: int) -> Sequence[PendingUpload]:
        """Some of them, the oldest first."""
        return self._all(
            select(PendingUpload)
            .where(PendingUpload.expires_at <= seconds_from_now())
            .order_by(PendingUpload.expires_at)
            .limit(limit)
        )

    def remove(self, upload_id: str) -> bool:
        """Forgets one; False where somebody else did already."""
        return bool(self._execute(delete(PendingUpload).where(PendingUpload.id == upload_id)))

    def is_registered(self, storage_key: str) -> bool:
        """Whether a federation has the file, so that it must stay."""
        return _is_registered(self.session, storage_key)


def _is_registered(session: Session, storage_key: str) -> bool:
    named = exists().where(table_of(Federation).c.storage_key == storage_key)
    return bool(session.scalar(select(named)))
