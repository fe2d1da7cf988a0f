"""What was disclosed of data: across projects, because rows are the same whoever reads them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import func, select

from models.clock import utc_now
from models.repositories.base import Repository
from models.tables.disclosures import DisclosedSet, DisclosureMemory
from models.values import StoredSet


class DisclosureRepository(Repository):
    """Sets of rows by the fingerprint of the data. Confidential."""

    def lock(self, fingerprint: str) -> None:
        """Until the end of the transaction nobody else adds to what was disclosed of the data."""
        self._locked(fingerprint)

    def profile_cuts(self, fingerprint: str) -> dict[str, Any]:
        """How profiles of the data were cut, by attribute; locked as by `lock`."""
        return dict(self._locked(fingerprint).profile_cuts)

    def set_profile_cuts(self, fingerprint: str, cuts: Mapping[str, Any]) -> None:
        """Overwrites them. Call `profile_cuts` before, in the same transaction."""
        self._locked(fingerprint).profile_cuts = dict(cuts)
        self.session.flush()

    def _locked(self, fingerprint: str) -> DisclosureMemory:
        self._insert_absent(DisclosureMemory, {"fingerprint": fingerprint, "profile_cuts": {}})
        memory = select(DisclosureMemory).where(DisclosureMemory.fingerprint == fingerprint)
        return self.session.scalars(
            memory.with_for_update(), execution_options={"populate_existing": True}
        ).one()

    def sets(self, fingerprint: str, *, numbering: str) -> Iterator[tuple[bytes, bytes]]:
        """The sets whose rows are numbered so, and the favourable of each, as they were stored."""
        stored = select(DisclosedSet.bits, DisclosedSet.favourable_bits).where(
            DisclosedSet.fingerprint == fingerprint, DisclosedSet.numbering == numbering
        )
        ordered = stored.order_by(DisclosedSet.digest, DisclosedSet.favourable_digest)
        for found in self.session.execute(ordered):
            yield found.bits, found.favourable_bits

    def count(self, fingerprint: str, *, numbering: str) -> int:
        """How many `sets` there are."""
        counted = (
            select(func.count())
            .select_from(DisclosedSet)
            .where(DisclosedSet.fingerprint == fingerprint, DisclosedSet.numbering == numbering)
        )
        return self.session.scalar(counted) or 0

    def add(self, fingerprint: str, *, numbering: str, sets: Iterable[StoredSet]) -> None:
        """Remembers sets; those that are known already are stored once. Call `lock` before."""
        of_all = {"fingerprint": fingerprint, "numbering": numbering, "disclosed_at": utc_now()}
        self._insert_all_absent(DisclosedSet, [{**of_all, **vars(one)} for one in sets])
