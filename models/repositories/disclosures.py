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

    def sets(self, fingerprint: str, *, numbering: str) -> Iterator[tuple[bytes, bytes]]:
        """The sets whose rows are numbered so, and the favourable of each, as they were stored."""
        stored = select(DisclosedSet.bits, DisclosedSet.favourable_bits).where(
            DisclosedSet.fingerprint == fingerprint, DisclosedSet.numbering == numbering
        )
        ordered = stored.order_by(DisclosedSet.digest, DisclosedSet.favourable_digest)
        for found in self.session.execute(ordered):
            yield found.bits, found.favourable_bits

    def add(self, fingerprint: str, *, numbering: str, sets: Iterable[StoredSet]) -> None:
        """Remembers sets; those that are known already are stored once. Call `lock` before."""
        for one in sets:
            self._insert_absent(
                DisclosedSet,
                {
                    "fingerprint": fingerprint,
                    "numbering": numbering,
                    **vars(one),
                    "disclosed_at": utc_now(),
                },
            )
