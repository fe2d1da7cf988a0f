"""What was disclosed of data: across projects, because rows are the same whoever reads them."""

from collections.abc import Iterable, Iterator

from sqlalchemy import select

from models.clock import utc_now
from models.repositories.base import Repository
from models.tables.disclosures import DisclosedSet, DisclosureMemory
from models.values import StoredSet


class DisclosureRepository(Repository):
    """Sets of rows by the fingerprint of the data. Confidential."""

    def lock(self, fingerprint: str) -> None:
        """Until the end of the transaction nobody else adds to what was disclosed of the data."""
        self._insert_absent(DisclosureMemory, {"fingerprint": fingerprint})
        memory = select(DisclosureMemory).where(DisclosureMemory.fingerprint == fingerprint)
        self._one(memory.with_for_update())

    def sets(self, fingerprint: str, *, numbering: str) -> Iterator[bytes]:
        """The sets whose rows are numbered so, as they were stored."""
        stored = select(DisclosedSet.bits).where(
            DisclosedSet.fingerprint == fingerprint, DisclosedSet.numbering == numbering
        )
        yield from self.session.scalars(stored.order_by(DisclosedSet.digest))

    def add(self, fingerprint: str, *, numbering: str, sets: Iterable[StoredSet]) -> None:
        """Remembers sets; those that are known already are stored once. Call `lock` before."""
        for one in sets:
            self._insert_absent(
                DisclosedSet,
                {
                    "fingerprint": fingerprint,
                    "numbering": numbering,
                    "digest": one.digest,
                    "rows": one.rows,
                    "bits": one.bits,
                    "disclosed_at": utc_now(),
                },
            )
