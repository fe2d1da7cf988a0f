"""What was disclosed of data: across projects, because rows are the same for every reader."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import func, select

from models.clock import utc_now
from models.repositories.base import Repository
from models.tables.reports import DisclosedSet, DisclosureAnchor, DisclosureMemory
from models.values import StoredSet


class DisclosureRepository(Repository):
    """Sets of rows by the fingerprint of the data. Confidential."""

    def lock(self, fingerprint: str) -> None:
        """Until the end of the transaction no other adds to what was disclosed of the data."""
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

    def memories(self, anchors: Sequence[str]) -> list[str]:
        """Those that have one of these rows."""
        found = select(DisclosureAnchor.fingerprint).where(DisclosureAnchor.anchor.in_(anchors))
        return sorted(set(self.session.scalars(found)))

    def sets(
        self, fingerprints: Sequence[str], *, numbering: str
    ) -> Iterator[tuple[str, bytes, str, bytes]]:
        """The sets whose rows are numbered so, and the favourable of each: digests, and rows as
        they were stored; each once."""
        stored = select(
            DisclosedSet.digest,
            DisclosedSet.bits,
            DisclosedSet.favourable_digest,
            DisclosedSet.favourable_bits,
        ).where(DisclosedSet.fingerprint.in_(fingerprints), DisclosedSet.numbering == numbering)
        ordered = stored.order_by(DisclosedSet.digest, DisclosedSet.favourable_digest)
        last = None
        for found in self.session.execute(ordered):
            if last != (last := (found.digest, found.favourable_digest)):
                yield found.digest, found.bits, found.favourable_digest, found.favourable_bits

    def count(self, fingerprints: Sequence[str], *, numbering: str) -> int:
        """How many `sets` there are."""
        distinct = select(DisclosedSet.digest, DisclosedSet.favourable_digest).distinct()
        counted = distinct.where(
            DisclosedSet.fingerprint.in_(fingerprints), DisclosedSet.numbering == numbering
        )
        return self.session.scalar(select(func.count()).select_from(counted.subquery())) or 0

    def add(
        self,
        fingerprint: str,
        *,
        numbering: str,
        sets: Iterable[StoredSet],
        anchors: Sequence[str] = (),
    ) -> None:
        """Remembers sets; those that are known already are stored once. Call `lock` before.
        `anchors`: of rows by which the memory is found."""
        of_all = {"fingerprint": fingerprint, "numbering": numbering, "disclosed_at": utc_now()}
        self._insert_all_absent(DisclosedSet, [{**of_all, **vars(one)} for one in sets])
        named = [{"anchor": one, "fingerprint": fingerprint} for one in anchors]
        self._insert_all_absent(DisclosureAnchor, named)
