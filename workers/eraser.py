"""Completes erasures step by step: names, files, then the signed receipt. Each step can be
repeated, so a killed process leaves nothing undone."""

from time import monotonic

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.audit import ErasingLedger
from fedaudit.ledger.columns import batches
from fedaudit.ledger.statements import ErasureReceipt, SigningKey, what_remains
from infrastructure.storage import Storage
from models.database import AWAY, Database
from models.repositories import (
    AnnouncementRepository,
    AuditLogRepository,
    ErasingRepository,
    ExpiredFileRepository,
    SubjectSetRepository,
)
from models.repositories.ledger import stored_rows
from models.tables.base import written_time
from models.tables.federations import Erasure
from models.values import utc_now
from workers.lost_rounds import LostRounds
from workers.proof.signing import use_key

log = structlog.get_logger()

_SECONDS = 5.0
"""Length of one turn; an erasure of many ledgers continues in the next."""
_PAUSE_SECONDS = 60.0
"""After a step that failed."""


class Eraser:
    """Goes on with what waits, one ledger or file after the other."""

    def __init__(
        self, database: Database, storage: Storage, key: SigningKey, lost_rounds: LostRounds
    ) -> None:
        self._database = database
        self._storage = storage
        self._lost_rounds = lost_rounds
        self.key = key
        self._paused: dict[str, float] = {}
        """Federations whose erasure failed, and when it is tried again."""

    def erase_waiting(self, limit: int) -> int:
        """Work on up to `limit` for a few seconds; returns how many were completed. Raises
        SQLAlchemyError; other failures are logged, and retried a minute later."""
        with self._database.read() as session:
            waiting = ErasingRepository(session).waiting(limit)
        if waiting:
            # While their ledgers have names; of runs that have ended since the last turn too.
            self._lost_rounds.enter_waiting()
        end, done = monotonic() + _SECONDS, 0
        for erasure in waiting:
            if monotonic() >= end:
                break
            if monotonic() < self._paused.get(erasure.federation_id, 0.0):
                continue
            try:
                done += self._go_on(erasure, end)
            except AWAY:
                raise
            except Exception:
                self._paused[erasure.federation_id] = monotonic() + _PAUSE_SECONDS
                log.exception("erasure waits", federation_id=erasure.federation_id)
        return done

    def _go_on(self, erasure: Erasure, end: float) -> bool:
        with self._database.read() as session:
            named = ErasingRepository(session).named_ledgers(erasure)
        for owner_id in named:
            self._erase_names(erasure, owner_id)
            if monotonic() >= end:
                return False
        if self._remove_files(erasure, end):
            return False
        with self._database.read() as session:
            if ErasingRepository(session).is_profiled(erasure):
                return False  # a worker still reads the data, and may lay them out
        if not self._database.drop_deleted():
            return False  # a long reading; the next turn tries again
        with self._database.write() as session:
            self._complete(session, erasure)
        log.info("erasure completed", federation_id=erasure.federation_id)
        return True

    def _remove_files(self, erasure: Erasure, end: float) -> int:
        """How many are left at the end of the turn."""
        files, removed = [str(one) for one in erasure.files], list[str]()
        while files and (not removed or monotonic() < end):
            # First the file, then the note: a file that is gone already is no fault.
            self._storage.delete(files[-1])
            removed.append(files.pop())
        if removed:
            with self._database.write() as session:
                ErasingRepository(session).files_left(erasure, files)
                owners = [one.rpartition("/")[2] for one in removed]
                ExpiredFileRepository(session, erasure.project_id).erased_are_removed(owners)
        return len(files)

    def _erase_names(self, erasure: Erasure, owner_id: str) -> None:
        with self._database.read() as session:
            erasing = ErasingRepository(session)
            experiment, declared = erasing.experiment(owner_id), erasing.declared(owner_id)
            if experiment is not None:
                names = list(SubjectSetRepository(session).names(experiment.subject_set_id))
                salt = experiment.ledger_salt
            elif declared is not None:
                names, salt = [str(one) for one in declared.names], declared.ledger_salt
            else:
                raise LookupError(f"no ledger {owner_id}")
        ledger = ErasingLedger(owner_id, names, salt)
        for rows in batches(stored_rows(self._database, owner_id)):
            ledger.read(rows)
        statement = ledger.statement(erased_at=written_time(utc_now()))
        if not statement.agreed:
            log.error("ledger did not agree when its names were erased", ledger_id=owner_id)
        with self._database.write() as session:
            erasing = ErasingRepository(session)
            use_key(session, self.key)
            envelope = statement.sign(self.key).as_dict()
            owner = (owner_id, erasure.project_id, erasure.federation_id)
            if not erasing.state_erased(*owner, envelope):
                return
            if experiment is None:
                erasing.rename_declared(owner_id, ledger.made_up)
            else:
                erasing.rename_experiment(experiment, ledger.made_up)

    def _complete(self, session: Session, erasure: Erasure) -> None:
        receipt = ErasureReceipt(
            federation_id=erasure.federation_id,
            number=erasure.number,
            content_hash=erasure.fingerprint,
            reference=erasure.reference,
            requested_at=written_time(erasure.requested_at),
            requested_by=dict(erasure.requested_by),
            completed_at=written_time(utc_now()),
            removed=dict(erasure.removed),
            remains=what_remains(
                uploaded=bool(erasure.removed.get("uploaded_data")), others=erasure.others
            ),
            ledgers=[str(one) for one in erasure.ledgers],
            other_projects=erasure.others,
        )
        use_key(session, self.key)
        if not ErasingRepository(session).complete(erasure, receipt.sign(self.key).as_dict()):
            return
        announcements = AnnouncementRepository(session, erasure.project_id)
        announcements.erasure_completed(erasure.federation_id, number=erasure.number)
        AuditLogRepository(session, erasure.project_id).enter(
            "erasure.completed",
            erasure.federation_id,
            by=None,
            origin="sweeper",
            number=erasure.number,
        )
