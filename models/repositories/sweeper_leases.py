"""Electing one sweeper among several."""

from sqlalchemy import delete, or_, update

from models.clock import seconds_from_now
from models.repositories.base import Repository
from models.tables.sweeper_leases import SweeperLease


class SweeperLeaseRepository(Repository):
    """Named duties, each with one holder at a time."""

    def acquire(self, name: str, *, holder: str, lease_seconds: float) -> bool:
        """Takes or extends the duty; False while another holds it."""
        until = seconds_from_now(lease_seconds)
        row = {"name": name, "holder": holder}
        if self._insert_absent(SweeperLease, row, lease_until=until):
            return True
        free = or_(SweeperLease.holder == holder, SweeperLease.lease_until <= seconds_from_now())
        return bool(
            self._execute(
                update(SweeperLease)
                .where(SweeperLease.name == name, free)
                .values(holder=holder, lease_until=until)
            )
        )

    def release(self, name: str, *, holder: str) -> bool:
        """Gives the duty up, so that another need not wait for the lease to end."""
        return bool(
            self._execute(
                delete(SweeperLease).where(SweeperLease.name == name, SweeperLease.holder == holder)
            )
        )
