"""What was disclosed of data, and contents alike: across projects, as rows are the same to all."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import bindparam, func, select, text

from models.repositories.base import Repository, table_of
from models.tables.experiments import DisclosedSet, DisclosureAnchor, DisclosureMemory
from models.tables.federations import Federation, NearCopy, RowSketch
from models.values import StoredSet, utc_now

SKETCHED = 256
"""k: the hashes that are kept of a table."""
NEAR = 0.9
"""The share of a table's rows from which it is a near-copy of another."""
LEAST_COMMON = 30
"""Hashes that near-copies have in common at least: a table of a guessed row, and of others that
cannot be there, must not say whether a stranger's has the row."""
HASH_BITS = 63


@dataclass(frozen=True, eq=False)
class Sketch:
    """A table's smallest hashes, ascending and distinct, as int64; and how many distinct rows it
    has, estimated where it has more than SKETCHED.

    A bottom-k sketch (Broder 1997): of the k smallest hashes of both tables together, the share
    that both have estimates the share of distinct rows that both have (the Jaccard index), with a
    standard error of at most 1 / (2 sqrt(k)): 3 points. Distinct rows are counted: tables whose
    columns allow few different rows look alike."""

    hashes: NDArray[np.int64]
    rows: int

    @classmethod
    def of(cls, hashes: NDArray[np.int64]) -> "Sketch":
        """Sketch the hashes of all rows, or the smallest SKETCHED distinct ones of them."""
        kept = np.unique(hashes)[:SKETCHED]
        if len(kept) < SKETCHED:
            return cls(kept, len(kept))
        return cls(kept, round((SKETCHED - 1) / (float(kept[-1]) / 2.0**HASH_BITS)))


def shared_rows(one: Sketch, other: Sketch) -> tuple[float, float]:
    """The shares of the rows of each that are rows of the other, between 0 and 1."""
    smallest = np.union1d(one.hashes, other.hashes)[:SKETCHED]
    if not smallest.size:
        return 0.0, 0.0
    both = np.intersect1d(one.hashes, other.hashes, assume_unique=True)
    jaccard = float(np.isin(smallest, both, assume_unique=True).mean())
    shared = jaccard / (1.0 + jaccard) * (one.rows + other.rows)
    return min(1.0, shared / max(one.rows, 1)), min(1.0, shared / max(other.rows, 1))


_ASKED_AT_ONCE = 1000


class DisclosureRepository(Repository):
    """Sets of rows by the fingerprint of the data. Confidential."""

    def lock(self, *fingerprints: str) -> Sequence[DisclosureMemory]:
        """Let no other transaction add to what was disclosed of these data until this one ends."""
        # In one order, so that two that lock the same memories do not wait for each other.
        ordered, key = sorted(set(fingerprints)), DisclosureMemory.fingerprint
        new = [{"fingerprint": one, "profile_cuts": {}} for one in ordered]
        self._insert_all_absent(DisclosureMemory, new)
        memories = select(DisclosureMemory).where(key.in_(ordered)).order_by(key)
        return self._all(memories.with_for_update())

    def profile_cuts(self, fingerprint: str) -> dict[str, Any]:
        """How profiles of the data were cut, by attribute; locked as by `lock`."""
        [memory] = self.lock(fingerprint)
        return dict(memory.profile_cuts)

    def set_profile_cuts(self, fingerprint: str, cuts: Mapping[str, Any]) -> None:
        """Overwrites them. Call `profile_cuts` before, in the same transaction."""
        mine = DisclosureMemory.fingerprint == fingerprint
        self._set(DisclosureMemory, mine, profile_cuts=cuts)

    def memories(self, anchors: Collection[str]) -> set[tuple[str, str]]:
        """Each of these rows with the memories that have it."""
        anchor, found, asked = DisclosureAnchor.anchor, set[tuple[str, str]](), sorted(anchors)
        for begin in range(0, len(asked), _ASKED_AT_ONCE):
            some = anchor.in_(asked[begin : begin + _ASKED_AT_ONCE])
            rows = self.session.execute(select(anchor, DisclosureAnchor.fingerprint).where(some))
            found |= {(row[0], row[1]) for row in rows}
        return found

    def sets(
        self, fingerprint: str, numbering: str, *, since: datetime | None = None
    ) -> list[StoredSet]:
        """The sets whose rows are numbered so; those stored `since` a time, if there is one."""
        columns = [table_of(DisclosedSet).c[one.name] for one in fields(StoredSet)]
        own = [DisclosedSet.fingerprint == fingerprint, DisclosedSet.numbering == numbering]
        own += [DisclosedSet.disclosed_at >= since] if since else []
        return [StoredSet(*row) for row in self._rows(select(*columns).where(*own))]

    def held(self, fingerprints: Collection[str]) -> dict[tuple[str, str], tuple[int, datetime]]:
        """How many `sets` there are, by fingerprint and numbering, and when the newest of them was
        stored; of those that have any."""
        names = DisclosedSet.fingerprint, DisclosedSet.numbering
        of_each = func.count(), func.max(DisclosedSet.disclosed_at)
        held = select(*names, *of_each).where(names[0].in_(fingerprints)).group_by(*names)
        return {(row[0], row[1]): (row[2], row[3]) for row in self.session.execute(held)}

    def add(self, sets: Iterable[StoredSet], *, anchored: Iterable[tuple[str, str]] = ()) -> None:
        """Remembers sets; those that are known already are stored once. Call `lock` before.
        `anchored`: rows, each with the memory that is found by it."""
        now = utc_now()
        rows = [{**vars(one), "disclosed_at": now} for one in sets]
        self._insert_all_absent(DisclosedSet, rows)
        named = [{"anchor": row, "fingerprint": memory} for row, memory in anchored]
        self._insert_all_absent(DisclosureAnchor, named)


# An arbitrary constant: two tables that are registered at once must not miss each other.
_ADVISORY_LOCK = 4_216_990_387_015_529


_NEAR = (
    select(NearCopy.federation_id, NearCopy.other_id, Federation.project_id)
    .join(Federation, Federation.id == NearCopy.other_id)
    .where(NearCopy.federation_id.in_(bindparam("federation_ids", expanding=True)))
    .order_by(NearCopy.share.desc(), NearCopy.other_id)
)


class NearCopyRepository(Repository):
    """Compares tables across projects; its readers decide what may be shown of others."""

    def add(self, federation_id: str, sketch: Sketch) -> None:
        """Keeps a federation's sketch, and notes the near-copies among all others. What was noted
        stays when one of the two is deleted: its spending stays as well."""
        if self._dialect() == "postgresql":
            self.session.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        values = {"federation_id": federation_id, "hashes": sketch.hashes, "rows": sketch.rows}
        self._put(RowSketch, values)
        mine = select(Federation.fingerprint).where(Federation.id == federation_id)
        others = self.session.execute(
            select(RowSketch.federation_id, RowSketch.hashes, RowSketch.rows)
            .join(Federation, Federation.id == RowSketch.federation_id)
            .where(Federation.fingerprint != mine.scalar_subquery())
        )
        for other_id, hashes, rows in others.all():
            shares = shared_rows(sketch, Sketch(hashes, rows))
            if max(shares) < NEAR or len(np.intersect1d(sketch.hashes, hashes)) < LEAST_COMMON:
                continue
            pairs = ((federation_id, other_id), (other_id, federation_id))
            for (one, two), share in zip(pairs, shares, strict=True):
                self._put(NearCopy, {"federation_id": one, "other_id": two, "share": share})

    def of(self, federation_ids: Sequence[str]) -> Sequence[tuple[str, str, str]]:
        """Each near-copy of these federations, the closest first: the federation, the other one,
        which has most of its rows or most of whose rows it has, and the other one's project."""
        return self._rows(_NEAR, federation_ids=federation_ids)
