"""Sign what trainers elsewhere declared: the API takes rounds, and has no key to sign them with."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from fedaudit.ledger.checkpoints import TRAINER, Checkpoint, subjects_hash
from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.reports.assemble import report_hash
from fedaudit.reports.declared.declared_material import DeclaredMaterial
from fedaudit.reports.declared.declared_report import declared_report
from fedaudit.reports.declared.stored_material import (
    stored_drawn,
    stored_histories,
    stored_material,
)
from fedaudit.reports.verification.report_signature import sign_report
from fedaudit.spec.disclosure import DisclosureFloor, least_group_size
from models.clock import utc_now
from models.database import Database
from models.repositories import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    FederationRepository,
)
from models.repositories.declared.declared_ledgers import unsigned_ledgers
from models.values import BudgetsAcross, LedgerRow
from workers.proof.checkpoint_signing import CHECKPOINT_SECONDS, use_key
from workers.proof.declared_evidence import Found, Inserted, StoredLedger, check_ledger, start_of

log = structlog.get_logger()

_ROWS = 500
_REMEMBERED = 10_000
_AWAY = (OperationalError, InterfaceError, PoolTimeoutError)
"""The database does not respond: no ledger was refused, and the next tick tries again."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """A ledger as it stood, and what its report is made of besides."""

    ledger: StoredLedger
    least_group_size: int


class DeclaredLedgerSigner:
    """Signs ledgers with rounds that no signature covers, each at most every ten seconds.

    It signs what the database holds, if that follows from what its own key signed before: whoever
    can change a round within these seconds chooses what is signed, and the trainer, who was told
    the chain's head behind the round, can show it. The ledger is locked while it is read and while
    signatures are stored, and not while they are made.
    """

    def __init__(
        self,
        database: Database,
        key: SigningKey,
        *,
        seconds: float = CHECKPOINT_SECONDS,
        floor: DisclosureFloor | None = None,
        across: BudgetsAcross = "service",
    ) -> None:
        """`floor`: of groups that reports show; `across`: whose policies bind, as in settings."""
        self._database = database
        self._key = key
        self._seconds = seconds
        self._floor = floor or DisclosureFloor()
        self._across = across
        self._refused: set[str] = set()
        self._signed: OrderedDict[str, int] = OrderedDict()
        """Entries that this process knows to be signed, of the ledgers signed last: a database that
        was set back is noticed."""

    def sign_waiting(self, limit: int) -> int:
        """Sign up to so many; returns how many were. Raises SQLAlchemyError where the database is
        away.

        A ledger that cannot be signed, for whatever reason, is logged and left out until this
        process ends: it holds up no other.
        """
        with self._database.read() as session:
            waiting = [
                (row.id, row.project_id)
                for row in unsigned_ledgers(
                    session, seconds=self._seconds, limit=limit + len(self._refused)
                )
                if row.id not in self._refused
            ]
        signed = 0
        for ledger_id, project_id in waiting:
            try:
                signed += self._sign(ledger_id, project_id)
            except _AWAY:
                raise
            except Exception as error:
                self._refused.add(ledger_id)
                why = f"{type(error).__name__}: {error}"[:200]
                log.exception("ledger not signed", ledger_id=ledger_id, why=why)
        return signed

    def _sign(self, ledger_id: str, project_id: str) -> bool:
        """Raises ValueError where what is stored does not follow from what was signed before."""
        with self._database.write() as session:
            seen = self._read(session, ledger_id, project_id)
        if seen is None:
            return False
        stored = seen.ledger
        start = start_of(stored, self._key.public, remembered=self._signed.get(ledger_id, -1))
        if start.witness != TRAINER:
            log.warning("signatures of a ledger are missing or foreign", ledger_id=ledger_id)
        covered = start.covered
        entries = self._entries(stored, behind=0 if covered is None else covered.last_round)
        inserted = self._inserted(stored)
        found = check_ledger(stored, start, inserted, entries=entries)
        material = self._material(seen, inserted, found)
        document = sign_report(declared_report(material), self._key)
        with self._database.write() as session:
            return self._store(session, stored, self._checkpoint(stored, found), document)

    def _read(self, session: Session, ledger_id: str, project_id: str) -> _Seen | None:
        """What is stored; None where all of it is signed. Locked, so that nothing comes in between
        its parts."""
        row = DeclaredLedgerRepository(session, project_id).lock(ledger_id)
        if row is None or row.entries == row.signed_entries:
            return None
        parts = DeclaredPartRepository(session, project_id)
        report = parts.report(ledger_id)
        policies = []
        if row.federation_id is not None:
            federations = FederationRepository(session, project_id, across=self._across)
            policies = federations.disclosures(row.federation_id)
        return _Seen(
            ledger=StoredLedger(
                row=row,
                histories=stored_histories(row.names, parts.tallies(ledger_id)),
                drawn=stored_drawn(row.drawn_names, row.drawn_counts),
                reservations=parts.reservations(ledger_id),
                envelopes=parts.envelopes(ledger_id),
                reported_entries=-1 if report is None else report.entries,
            ),
            least_group_size=least_group_size(self._floor, policies),
        )

    def _entries(self, stored: StoredLedger, *, behind: int) -> Iterator[LedgerRow]:
        """Those of the rounds behind one, in short transactions: entries are only ever inserted."""
        row, after = stored.row, None
        while True:
            with self._database.read() as session:
                rows = DeclaredEntryRepository(session).rows_after(
                    row.id, behind + 1, row.last_round, after=after, limit=_ROWS
                )
            yield from rows
            if len(rows) < _ROWS:
                return
            last = rows[-1]
            after = (last.round, last.release, last.subject_kind, last.observer)

    def _inserted(self, stored: StoredLedger) -> Inserted:
        row = stored.row
        with self._database.read() as session:
            entries = DeclaredEntryRepository(session)
            return Inserted(
                rounds=DeclaredPartRepository(session).rounds(row.id, upto=row.last_round),
                digests=[one for one in entries.digests(row.id) if one[0] <= row.last_round],
                first_declaration=entries.first_declaration(row.id),
            )

    def _material(self, seen: _Seen, inserted: Inserted, found: Found) -> DeclaredMaterial:
        stored = seen.ledger
        return stored_material(
            stored.row.id,
            stored.row.terms,
            histories=stored.histories,
            drawn=stored.drawn,
            rounds=inserted.rounds,
            reservations=stored.reservations,
            first_declaration=inserted.first_declaration,
            least_group_size=seen.least_group_size,
            entries=stored.row.entries,
            ledger_hash=found.ledger_hash,
            chain_head=bytes(stored.row.head),
            now=utc_now(),
            key_id=self._key.key_id,
            witness=found.witness,
        )

    def _checkpoint(self, stored: StoredLedger, found: Found) -> Checkpoint:
        row = stored.row
        return Checkpoint(
            experiment_id=row.id,
            status="running",
            entries=row.entries,
            last_round=row.last_round,
            chain_head=bytes(row.head).hex(),
            spec_hash=row.terms_hash,
            subjects_hash=subjects_hash(row.names),
            witness=found.witness,
            state_hash=found.state_hash,
        )

    def _store(
        self,
        session: Session,
        stored: StoredLedger,
        checkpoint: Checkpoint,
        document: dict[str, Any],
    ) -> bool:
        """False, and nothing stored, where another process signed meanwhile. Rounds that came in
        are signed next."""
        ledger_id, project_id = stored.row.id, stored.row.project_id
        ledgers = DeclaredLedgerRepository(session, project_id)
        now = ledgers.lock(ledger_id)
        if now is None or now.signed_entries != stored.row.signed_entries:
            return False
        use_key(session, self._key)
        parts = DeclaredPartRepository(session, project_id)
        envelope = checkpoint.sign(self._key).as_dict()
        entries = checkpoint.entries
        parts.add_checkpoint(ledger_id, project_id, entries=entries, envelope=envelope)
        parts.put_report(
            ledger_id,
            project_id,
            entries=entries,
            document=document,
            report_hash=report_hash(document),
        )
        ledgers.change(ledger_id, {"signed_entries": entries, "signed_at": utc_now()})
        self._signed[ledger_id] = entries
        self._signed.move_to_end(ledger_id)
        while len(self._signed) > _REMEMBERED:
            self._signed.popitem(last=False)
        return True
