"""Sign-offs of reports, in their order."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, update

from models.clock import utc_now
from models.repositories.base import ExperimentPartRepository, table_of
from models.tables.experiments import Experiment
from models.tables.sign_offs import SignOff


class SignOffRepository(ExperimentPartRepository):
    """Sign-offs: inserted by the API, signed by the sweeper."""

    def next_number(self, experiment_id: str) -> int:
        """The number of the sign-off to come; others wait until this transaction ends."""
        mine = select(Experiment.id).where(Experiment.id == experiment_id)
        self.session.execute(mine.with_for_update())
        columns = table_of(SignOff).c
        newest = self.session.scalar(
            select(func.max(columns.number)).where(columns.experiment_id == experiment_id)
        )
        return (newest or 0) + 1

    def add(
        self,
        experiment_id: str,
        project_id: str,
        *,
        number: int,
        report_hash: str,
        decision: str,
        statement: Mapping[str, Any],
    ) -> SignOff:
        """Stores a sign-off, which is not signed yet."""
        row = SignOff(
            experiment_id=experiment_id,
            number=number,
            project_id=project_id,
            report_hash=report_hash,
            decision=decision,
            statement=dict(statement),
            created_at=utc_now(),
            envelope=None,
            signed_at=None,
        )
        self.session.add(row)
        self.session.flush()
        return row

    def list(self, experiment_id: str) -> "Sequence[SignOff]":
        """A report's sign-offs, oldest first."""
        return self._all(self._select(SignOff, experiment_id).order_by(SignOff.number))

    def get(self, experiment_id: str, number: int) -> SignOff | None:
        """One of them."""
        return self._one(self._select(SignOff, experiment_id).where(SignOff.number == number))

    def unsigned(self, limit: int) -> "Sequence[tuple[str, int]]":
        """Experiment and number of those that wait for their signature, in each chain's order."""
        columns = table_of(SignOff).c
        found = self.session.execute(
            select(columns.experiment_id, columns.number)
            .where(columns.signed_at.is_(None))
            .order_by(columns.created_at, columns.experiment_id, columns.number)
            .limit(limit)
        )
        return [(experiment_id, number) for experiment_id, number in found]

    def put_envelope(self, row: SignOff, envelope: Mapping[str, Any]) -> bool:
        """Stores the signature; False where there is one, which stays as it is."""
        return bool(
            self._execute(
                update(SignOff)
                .where(
                    SignOff.experiment_id == row.experiment_id,
                    SignOff.number == row.number,
                    SignOff.signed_at.is_(None),
                )
                .values(envelope=dict(envelope), signed_at=utc_now())
            )
        )

    def newest_of(self, ids: Sequence[str]) -> "dict[str, SignOff]":
        """The newest sign-off of each of these experiments that has one."""
        columns = table_of(SignOff).c
        newest = (
            select(columns.experiment_id, func.max(columns.number).label("number"))
            .where(columns.experiment_id.in_(ids))
            .group_by(columns.experiment_id)
            .subquery()
        )
        rows = self._all(
            select(SignOff).join(
                newest,
                (SignOff.experiment_id == newest.c.experiment_id)
                & (SignOff.number == newest.c.number),
            )
        )
        return {row.experiment_id: row for row in rows}
