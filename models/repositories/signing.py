"""Signing keys, and what is signed with them: checkpoints of ledgers, and sign-offs of reports."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select, tuple_

from models.repositories.base import ExperimentPartRepository, Repository
from models.tables.experiments import SignOff
from models.tables.ledger import LedgerCheckpoint, RunLogEntry, SigningKey
from models.values import utc_now


class SigningKeyRepository(Repository):
    """The service's keys; they belong to no project."""

    def are_in_use(self, *key_ids: str) -> bool:
        """Whether all of them are listed, and none is retired."""
        return len(self._rows(_IN_USE, key_ids=key_ids)) == len(key_ids)

    def use(
        self, key_id: str, *, algorithm: str, public_key: str, derived_from: str | None = None
    ) -> None:
        """Makes this the key in use, listed if it is new, and retires all others of its algorithm;
        no change if it is in use. `derived_from`: the key that it follows from."""
        if self.are_in_use(key_id):
            return
        row = {"key_id": key_id, "algorithm": algorithm, "public_key": public_key}
        new = {"derived_from": derived_from, "created_at": utc_now()}
        self._insert_absent(SigningKey, {**row, **new})
        self._set(SigningKey, SigningKey.key_id == key_id, retired_at=None)
        alike = (SigningKey.algorithm == algorithm, SigningKey.retired_at.is_(None))
        others = (SigningKey.key_id != key_id, *alike)
        self._set(SigningKey, *others, retired_at=utc_now())

    def mark_compromised(
        self, key_id: str, *, since: datetime, note: str | None
    ) -> tuple[SigningKey, bool] | None:
        """Marks a key as known to others since then, and with it the keys that follow from it or
        from which it follows; returns the key, and whether this is news. None for an unknown key.
        The time can be moved earlier, never later."""
        known = self._one(select(SigningKey).where(SigningKey.key_id == key_id).with_for_update())
        if known is None:
            return None
        is_news = known.compromised_at is None or since < known.compromised_at
        origin = known.derived_from or key_id
        lost = (SigningKey.key_id == origin) | (SigningKey.derived_from == origin)
        for one in self._all(select(SigningKey).where(lost)):
            if one.compromised_at is None or since < one.compromised_at:
                one.compromised_at = since
            one.compromised_note = one.compromised_note if note is None else note
        self.session.flush()
        return known, is_news

    def is_compromised(self, key_id: str) -> bool:
        """Whether it is marked."""
        return self._exists(SigningKey.key_id == key_id, SigningKey.compromised_at.is_not(None))

    def list(self) -> list[SigningKey]:
        """Every key, also the retired ones, in the order of first use."""
        return self._all(select(SigningKey).order_by(SigningKey.created_at, SigningKey.key_id))


class LedgerCheckpointRepository(ExperimentPartRepository):
    """Signed checkpoints, which are only ever inserted."""

    def add(
        self, experiment_id: str, *, entries: int, status: str, envelope: Mapping[str, Any]
    ) -> bool:
        """Stores a checkpoint; False where there is one of the same count and status, which stays
        as it is."""
        row = self._owned(experiment_id, entries=entries, status=status, envelope=envelope)
        return self._insert_absent(LedgerCheckpoint, {**row, "created_at": utc_now()})

    def envelopes(self, experiment_id: str) -> "Sequence[dict[str, Any]]":
        """The envelopes, by entries; the end of a run follows what was made during it."""
        rows = self._all(self._select(LedgerCheckpoint, experiment_id))
        rows.sort(key=lambda row: (row.entries, row.status != "running", row.created_at))
        return [row.envelope for row in rows]


# Any constant: who appends to a log holds this lock.
_LOCK = 7_302_117_645_208_332
_ENTRIES = select(RunLogEntry).order_by(RunLogEntry.size.desc())
_NEWEST_ENTRY = _ENTRIES.where(RunLogEntry.federation_id == bindparam("federation_id")).limit(1)
_BEGUN = _ENTRIES.where(RunLogEntry.experiment_id == bindparam("experiment_id")).limit(1)
_LOCKED = select(func.pg_advisory_xact_lock(_LOCK))
_IN_USE = select(SigningKey.key_id).where(
    SigningKey.key_id.in_(bindparam("key_ids", expanding=True)), SigningKey.retired_at.is_(None)
)


class RunLogRepository(Repository):
    """Logs of the runs on federations, which are only ever appended to."""

    def lock(self, federation_id: str) -> RunLogEntry | None:
        """The newest entry; others wait until this transaction ends."""
        if self._dialect() == "postgresql":
            # One lock for all logs: a transaction that appends to several waits in no order.
            self._rows(_LOCKED)
        return next(iter(self._rows(_NEWEST_ENTRY, federation_id=federation_id)), None)

    def runs(self, federation_id: str) -> int:
        """How many have begun."""
        mine = select(func.max(RunLogEntry.run)).where(RunLogEntry.federation_id == federation_id)
        return self.session.scalar(mine) or 0

    def begun(self, experiment_id: str) -> RunLogEntry | None:
        """The newest entry of an experiment; None where it never began under a log."""
        return next(iter(self._rows(_BEGUN, experiment_id=experiment_id)), None)

    def add(self, row: RunLogEntry) -> None:
        """Appends an entry, at the latest when the transaction ends."""
        self.session.add(row)

    def list(self, federation_id: str) -> "Sequence[RunLogEntry]":
        """Every entry, oldest first."""
        return self._all(_ENTRIES.where(RunLogEntry.federation_id == federation_id))[::-1]


class SignOffRepository(ExperimentPartRepository):
    """Sign-offs: inserted by the API, signed by the sweeper."""

    def list(self, experiment_id: str) -> "Sequence[SignOff]":
        """A report's sign-offs, oldest first."""
        return self._all(self._select(SignOff, experiment_id).order_by(SignOff.number))

    def get(self, experiment_id: str, number: int) -> SignOff | None:
        """One of them."""
        return self._one(self._select(SignOff, experiment_id).where(SignOff.number == number))

    def unsigned(self, limit: int) -> "Sequence[tuple[str, int]]":
        """Experiment and number of those that wait for their signature, in each chain's order."""
        key = (SignOff.experiment_id, SignOff.number)
        waiting = select(*key).where(SignOff.signed_at.is_(None))
        found = self.session.execute(waiting.order_by(SignOff.created_at, *key).limit(limit))
        return [(experiment_id, number) for experiment_id, number in found]

    def put_envelope(self, row: SignOff, envelope: Mapping[str, Any]) -> bool:
        """Stores the signature; False where there is one, which stays as it is."""
        mine = (SignOff.experiment_id == row.experiment_id, SignOff.number == row.number)
        signed = {"envelope": envelope, "signed_at": utc_now()}
        return self._set(SignOff, *mine, SignOff.signed_at.is_(None), **signed)

    def newest_of(self, ids: Sequence[str]) -> "dict[str, SignOff]":
        """The newest sign-off of each of these experiments that has one."""
        mine = select(SignOff.experiment_id, func.max(SignOff.number))
        newest = mine.where(SignOff.experiment_id.in_(ids)).group_by(SignOff.experiment_id)
        key = tuple_(SignOff.experiment_id, SignOff.number)
        return {row.experiment_id: row for row in self._all(select(SignOff).where(key.in_(newest)))}
