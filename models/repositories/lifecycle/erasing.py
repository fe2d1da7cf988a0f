"""The rest of an erasure, which the sweeper does: names, files, and the receipt."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, exists, select, update

from models.clock import utc_now
from models.repositories.base import Repository, table_of
from models.repositories.subject_sets import SubjectSetRepository
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.lifecycle.erasures import ErasedLedger, Erasure
from models.tables.subject_sets import SubjectSet
from models.tables.units import Unit


class ErasingRepository(Repository):
    """Erasures of all projects that are not done."""

    def waiting(self, limit: int) -> Sequence[Erasure]:
        """Some of them, the oldest first."""
        open_ones = select(Erasure).where(Erasure.completed_at.is_(None))
        return self._all(open_ones.order_by(Erasure.requested_at).limit(limit))

    def named_ledgers(self, erasure: Erasure) -> Sequence[str]:
        """Those of its ledgers that have their clients' names still."""
        done = select(ErasedLedger.owner_id).where(ErasedLedger.owner_id.in_(erasure.ledgers))
        without = set(self.session.scalars(done))
        return [one for one in erasure.ledgers if one not in without]

    def is_profiled(self, erasure: Erasure) -> bool:
        """Whether a worker still profiles the data, and may keep something of them."""
        profiling = exists().where(
            Federation.id == erasure.federation_id,
            Unit.id == Federation.unit_id,
            Unit.state == "leased",
        )
        return bool(self.session.scalar(select(profiling)))

    def experiment(self, owner_id: str) -> Experiment | None:
        """The experiment with this id; None where it is a ledger of a training elsewhere."""
        return self._one(select(Experiment).where(Experiment.id == owner_id))

    def declared(self, owner_id: str) -> DeclaredLedger | None:
        """The ledger of a training elsewhere with this id."""
        return self._one(select(DeclaredLedger).where(DeclaredLedger.id == owner_id))

    def state_erased(
        self, owner_id: str, project_id: str, federation_id: str, envelope: Mapping[str, Any]
    ) -> bool:
        """Stores the statement that stands for a ledger's names, first in the transaction that
        removes them; False where another process was faster."""
        row = {
            "owner_id": owner_id,
            "project_id": project_id,
            "federation_id": federation_id,
            "erased_at": utc_now(),
            "envelope": dict(envelope),
        }
        return self._insert_absent(ErasedLedger, row)

    def rename_experiment(self, experiment: Experiment, names: Sequence[str]) -> None:
        """Gives its ledger these names, and forgets its salt: with it anybody could try the old
        names on the digests of its entries.

        The old names are removed unless another experiment has them, as one on the same content by
        another project may.
        """
        before = experiment.subject_set_id
        renamed = SubjectSetRepository(self.session).put(names)
        values = {"subject_set_id": renamed, "ledger_salt": None}
        self._execute(update(Experiment).where(Experiment.id == experiment.id).values(values))
        used = exists().where(table_of(Experiment).c.subject_set_id == before)
        self._execute(delete(SubjectSet).where(SubjectSet.id == before, ~used))

    def rename_declared(self, ledger_id: str, names: Sequence[str]) -> None:
        """The same of a ledger of a training elsewhere."""
        mine = DeclaredLedger.id == ledger_id
        self._execute(update(DeclaredLedger).where(mine).values(names=list(names)))

    def files_left(self, erasure: Erasure, files: Sequence[str]) -> None:
        """Notes which files are still to be removed."""
        self._change(erasure, {"files": list(files)})

    def complete(self, erasure: Erasure, envelope: Mapping[str, Any]) -> bool:
        """Stores the receipt; False where there is one."""
        values = {"completed_at": utc_now(), "envelope": dict(envelope)}
        return self._change(erasure, values)

    def _change(self, erasure: Erasure, values: Mapping[str, Any]) -> bool:
        return bool(
            self._execute(
                update(Erasure)
                .where(
                    Erasure.federation_id == erasure.federation_id,
                    Erasure.number == erasure.number,
                    Erasure.completed_at.is_(None),
                )
                .values(**values)
            )
        )
