"""Which registered tables have mostly the rows of another one, and so a budget that is separate."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, select, text

from models.repositories.base import Repository
from models.row_sketches import NEAR, Sketch, shared_rows
from models.tables.federations import Federation, NearCopy, RowSketch

# An arbitrary constant: two tables that are registered at once must not miss each other.
_ADVISORY_LOCK = 4_216_990_387_015_529


_NEAR = (
    select(NearCopy.federation_id, NearCopy.other_id, Federation.project_id, NearCopy.share)
    .join(Federation, Federation.id == NearCopy.other_id)
    .where(NearCopy.federation_id.in_(bindparam("federation_ids", expanding=True)))
    .order_by(NearCopy.share.desc(), NearCopy.other_id)
)


@dataclass(frozen=True)
class NearCopyOf:
    """Another federation that has most rows of one, or most of whose rows the one has."""

    federation_id: str
    other_id: str
    other_project_id: str
    share: float
    """Of the rows of `federation_id`, those that are the other's; estimated."""


class NearCopyRepository(Repository):
    """Compares tables across projects; its readers decide what may be shown of others."""

    def add(self, federation_id: str, sketch: Sketch) -> None:
        """Keeps a federation's sketch, and notes the near-copies among all others. What was noted
        stays when one of the two is deleted: its spending stays as well."""
        if self._dialect() == "postgresql":
            self.session.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        values = {"federation_id": federation_id, "hashes": sketch.hashes, "rows": sketch.rows}
        self._put(RowSketch, values)
        for other_id, other in self._others(federation_id):
            shares = shared_rows(sketch, other)
            if max(shares) < NEAR:
                continue
            pairs = ((federation_id, other_id), (other_id, federation_id))
            for (one, two), share in zip(pairs, shares, strict=True):
                self._put(NearCopy, {"federation_id": one, "other_id": two, "share": share})

    def of(self, federation_ids: Sequence[str]) -> list[NearCopyOf]:
        """The near-copies of these federations, the closest first."""
        rows = self._rows(_NEAR, federation_ids=federation_ids)
        return [NearCopyOf(*row) for row in rows]

    def _others(self, federation_id: str) -> list[tuple[str, Sketch]]:
        """The sketches of all other content."""
        mine = select(Federation.fingerprint).where(Federation.id == federation_id)
        rows = self.session.execute(
            select(RowSketch.federation_id, RowSketch.hashes, RowSketch.rows)
            .join(Federation, Federation.id == RowSketch.federation_id)
            .where(Federation.fingerprint != mine.scalar_subquery())
        )
        return [(id_, Sketch(hashes, rows)) for id_, hashes, rows in rows]
