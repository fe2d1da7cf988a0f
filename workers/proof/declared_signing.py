"""Whether a declared ledger is what was signed of it before, and more: what its signer asks first.

The heavy part, hashing entries and charging them anew, begins at the newest checkpoint that this
process's own key signed. What was signed before is compared by hashes.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.chain import genesis
from fedaudit.ledger.declared import Replay, RoundsSoFar, changed_reservations, drawn_hash
from fedaudit.ledger.rows import StoredRow
from fedaudit.ledger.signatures import Envelope, PublicKey, SigningKey
from fedaudit.ledger.statements import DATABASE, TRAINER, Checkpoint, growing_hashes, subjects_hash
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Histories
from fedaudit.reports.checks import canonical_hash
from fedaudit.reports.declared.declared_report import declared_report
from fedaudit.reports.declared.ledger_material import (
    stored_drawn,
    stored_histories,
    stored_material,
)
from fedaudit.reports.report import report_hash
from fedaudit.reports.sections.integrity import sign_report
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.spec.disclosure import DisclosureFloor, least_group_size
from models.clock import utc_now
from models.database import Database
from models.repositories import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    FederationRepository,
)
from models.repositories.declared_ledgers import unsigned_ledgers
from models.repositories.packed_rows import Digest
from models.tables.declared_ledgers import DeclaredLedger, DeclaredReservation, DeclaredRoundRow
from models.values import BudgetsAcross, LedgerRow
from workers.proof.signing import CHECKPOINT_SECONDS, WaitingSigner, use_key

_NO_SECRET = bytes(32)
"""Of ledgers whose rounds were all declared before they had one."""


@dataclass(frozen=True, eq=False)
class StoredLedger:
    """What the database says of one ledger and overwrites, read while no round came in."""

    row: DeclaredLedger
    histories: Histories
    drawn: Drawn
    reservations: Sequence[DeclaredReservation]
    envelopes: Sequence[Any]
    """Checkpoints, oldest first."""
    reported_entries: int
    """How many the stored report covers; -1 without one."""


@dataclass(frozen=True, eq=False)
class Inserted:
    """What is only ever inserted, up to the ledger's last round: it needs no lock to be read."""

    rounds: Sequence[DeclaredRoundRow]
    digests: Sequence[Digest]
    """Of all entries."""
    first_declaration: int | None
    """The first round of which the chain holds what it declared beside its entries."""


@dataclass(frozen=True)
class Start:
    """What was signed before."""

    checkpoint: Checkpoint | None
    """The newest that the own key signed; None without one."""
    witness: str
    """What the next one may state: TRAINER, or DATABASE where signatures are missing or foreign."""

    @property
    def covered(self) -> Checkpoint | None:
        """The checkpoint behind which alone entries need to be charged anew."""
        known = self.checkpoint is not None and self.checkpoint.state_hash is not None
        return self.checkpoint if known else None


@dataclass(frozen=True)
class Found:
    """What a ledger was found to be."""

    witness: str
    ledger_hash: str
    state_hash: str | None


def start_of(stored: StoredLedger, key: PublicKey, *, remembered: int) -> Start:
    """Where to begin. `remembered`: the entries that this process knows to be signed; -1 of none.

    TRAINER only where nothing was ever signed, or the own key signed the newest checkpoint there
    is, and nothing indicates a later one. Raises ValueError where one that names the own key was
    altered, or is not of this ledger.
    """
    known = max(stored.row.signed_entries, stored.reported_entries, remembered)
    envelopes = [Envelope.from_dict(one) for one in stored.envelopes]
    mine = [place for place, one in enumerate(envelopes) if one.key_id == key.key_id]
    if not mine:
        return Start(None, DATABASE if envelopes or known >= 0 else TRAINER)
    newest = envelopes[mine[-1]]
    if not key.verifies(newest.signature, newest.message):
        raise ValueError("the newest checkpoint has a wrong signature: it was altered")
    checkpoint = Checkpoint.of(newest)
    _check_subject(checkpoint, stored.row)
    later = mine[-1] < len(envelopes) - 1
    # Before checkpoints had a state, one was made over another key's as it stood.
    doubtful = checkpoint.state_hash is None and len(mine) < len(envelopes)
    behind = known > checkpoint.entries
    sound = checkpoint.witness == TRAINER and not (later or doubtful or behind)
    return Start(checkpoint, TRAINER if sound else DATABASE)


def check_ledger(
    stored: StoredLedger, start: Start, inserted: Inserted, *, entries: Iterable[StoredRow]
) -> Found:
    """Whether entries, rounds and tallies follow from what was signed, and from each other.

    `entries`: those behind `start.covered`, in order. Raises ValueError where something does not
    follow.
    """
    row, covered = stored.row, start.covered
    if canonical_hash(row.terms) != row.terms_hash:
        raise ValueError("the terms are not those that were stated")
    replay = _replayed(stored, start, entries)
    before = replay.before(stored.histories)
    secret = row.secret or _NO_SECRET
    rounds = RoundsSoFar(secret)
    last = 0 if covered is None else covered.last_round
    known = bisect_right(inserted.rounds, last, key=lambda one: one.round)
    behind = bisect_right(inserted.digests, last, key=lambda one: one[0])
    for one in inserted.rounds[:known]:
        rounds.add_round(one)
    for digest in inserted.digests[:behind]:
        rounds.add_entry(digest)
    if covered is not None and rounds.state_hash(before) != covered.state_hash:
        raise ValueError(f"what is stored up to round {last} is not what was signed")
    if covered is None and before:
        raise ValueError("tallies count more than the entries charged")
    _check_rounds(inserted.rounds[known:], rounds, replay)
    for digest in inserted.digests[behind:]:
        rounds.add_entry(digest)
    _check_beside(stored, inserted, secret)
    state = None if row.secret is None else rounds.state_hash(stored.histories.tallies.values())
    return Found(start.witness, rounds.ledger_hash, state)


def _check_subject(checkpoint: Checkpoint, row: DeclaredLedger) -> None:
    stated = (checkpoint.experiment_id, checkpoint.spec_hash)
    if stated != (row.id, row.terms_hash):
        raise ValueError("the newest checkpoint is of another ledger, or of other terms")
    if checkpoint.entries > row.entries:
        raise ValueError(f"{checkpoint.entries} entries were signed, and {row.entries} are there")
    unchanged = checkpoint.subjects_hash == subjects_hash(row.names)
    if not unchanged and checkpoint.subjects_hash not in growing_hashes(row.names):
        raise ValueError("the subjects are not those that were signed")


def _replayed(stored: StoredLedger, start: Start, entries: Iterable[StoredRow]) -> Replay:
    """The entries, which lead through every signed head to the ledger's."""
    row, covered, signed = stored.row, start.covered, start.checkpoint
    replay = Replay(
        LedgerTerms.model_validate(row.terms),
        row.names,
        head=genesis(row.id) if covered is None else bytes.fromhex(covered.chain_head),
        entries=0 if covered is None else covered.entries,
    )
    for one in entries:
        replay.read(one)
    if covered is None and signed is not None and signed.entries:
        head = replay.heads.get(signed.entries)
        if head is None or head.hex() != signed.chain_head:
            raise ValueError("the entries do not lead through the newest checkpoint")
    if (replay.entries, replay.head) != (row.entries, bytes(row.head)):
        raise ValueError("the entries do not lead from the newest checkpoint to the head")
    return replay


def _check_rounds(
    declared: Sequence[DeclaredRoundRow], rounds: RoundsSoFar, replay: Replay
) -> None:
    """Whether the stored rounds are those whose entries were read, and as the chain holds them."""
    if [one.round for one in declared] != list(replay.rounds):
        raise ValueError("the rounds are not those that have entries")
    chained = False
    for one in declared:
        head, declaration = replay.rounds[one.round]
        found = rounds.add_round(one)
        if declaration is None and chained:
            raise ValueError(f"round {one.round} has no declaration, and the one before it has")
        chained = declaration is not None
        if chained and declaration != found:
            raise ValueError(f"round {one.round} is not what was declared")
        if one.head != head.hex():
            raise ValueError(f"round {one.round} does not have the head of its newest entry")


def _check_beside(stored: StoredLedger, inserted: Inserted, secret: bytes) -> None:
    """Whether the newest round that says who was drawn so far says what is stored, and the chain
    holds what was reserved."""
    said = next((one.drawn for one in reversed(inserted.rounds) if one.drawn is not None), None)
    if said is not None and said != drawn_hash(stored.drawn, secret):
        raise ValueError("those who were drawn are not those that were declared")
    changed = changed_reservations(inserted.rounds, stored.reservations, secret)
    if (number := next(changed, None)) is not None:
        raise ValueError(f"what was reserved before round {number} is not what the chain holds")


log = structlog.get_logger()

_ROWS = 500
_REMEMBERED = 10_000


class DeclaredLedgerSigner(WaitingSigner):
    """Signs ledgers with rounds that no signature covers, each at most every ten seconds.

    It signs what follows from what its own key signed before. Within these seconds anyone able to
    change a round chooses what is signed, and the trainer, who has the chain's head behind the
    round, can show it. The ledger is locked while it is read and while signatures are stored, and
    not while they are made. A ledger that cannot be signed, for whatever reason, is left out.
    """

    what = "ledger"
    key_names = ("ledger_id", "project_id")
    refused_for = Exception

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
        super().__init__(database, key)
        self._seconds = seconds
        self._floor = floor or DisclosureFloor()
        self._across = across
        self._signed: OrderedDict[str, int] = OrderedDict()
        """Entries that this process knows to be signed, of the ledgers signed last: a database that
        was set back is noticed."""

    def _waiting(self, session: Session, limit: int) -> Sequence[tuple[str, str]]:
        found = unsigned_ledgers(session, seconds=self._seconds, limit=limit)
        return [(row.id, row.project_id) for row in found]

    def _sign(self, ledger_id: str, project_id: str) -> bool:
        """False where all of it is signed, or another process signed it meanwhile."""
        with self._database.write() as session:
            # Locked, so that nothing comes in between its parts.
            row = DeclaredLedgerRepository(session, project_id).lock(ledger_id)
            if row is None or row.entries == row.signed_entries:
                return False
            stored = _stored(session, row)
            policies = []
            if row.federation_id is not None:
                federations = FederationRepository(session, project_id, across=self._across)
                policies = federations.disclosures(row.federation_id)
        start = start_of(stored, self._key.public, remembered=self._signed.get(ledger_id, -1))
        if start.witness != TRAINER:
            log.warning("signatures of a ledger are missing or foreign", ledger_id=ledger_id)
        behind = 0 if start.covered is None else start.covered.last_round
        inserted = self._inserted(row)
        found = check_ledger(stored, start, inserted, entries=self._entries(row, behind=behind))
        material = stored_material(
            row.id,
            row.terms,
            histories=stored.histories,
            drawn=stored.drawn,
            rounds=inserted.rounds,
            reservations=stored.reservations,
            first_declaration=inserted.first_declaration,
            least_group_size=least_group_size(self._floor, policies),
            entries=row.entries,
            ledger_hash=found.ledger_hash,
            chain_head=bytes(row.head),
            now=utc_now(),
            key_id=self._key.key_id,
            witness=found.witness,
        )
        document = sign_report(declared_report(material), self._key)
        checkpoint = Checkpoint(
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
        with self._database.write() as session:
            return self._store(session, row, checkpoint, document)

    def _entries(self, row: DeclaredLedger, *, behind: int) -> Iterator[LedgerRow]:
        """Those of the rounds behind one, in short transactions: entries are only ever inserted."""
        after = None
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

    def _inserted(self, row: DeclaredLedger) -> Inserted:
        with self._database.read() as session:
            entries = DeclaredEntryRepository(session)
            return Inserted(
                rounds=DeclaredPartRepository(session).rounds(row.id, upto=row.last_round),
                digests=[one for one in entries.digests(row.id) if one[0] <= row.last_round],
                first_declaration=entries.first_declaration(row.id),
            )

    def _store(
        self,
        session: Session,
        row: DeclaredLedger,
        checkpoint: Checkpoint,
        document: dict[str, Any],
    ) -> bool:
        """False, and nothing stored, where another process signed meanwhile. Rounds that came in
        are signed next."""
        ledgers = DeclaredLedgerRepository(session, row.project_id)
        now = ledgers.lock(row.id)
        if now is None or now.signed_entries != row.signed_entries:
            return False
        use_key(session, self._key)
        parts, owner = DeclaredPartRepository(session, row.project_id), (row.id, row.project_id)
        envelope = checkpoint.sign(self._key).as_dict()
        entries = checkpoint.entries
        parts.add_checkpoint(*owner, entries=entries, envelope=envelope)
        hashed = report_hash(document)
        parts.put_report(*owner, entries=entries, document=document, report_hash=hashed)
        ledgers.change(row.id, {"signed_entries": entries, "signed_at": utc_now()})
        self._signed[row.id] = entries
        self._signed.move_to_end(row.id)
        while len(self._signed) > _REMEMBERED:
            self._signed.popitem(last=False)
        return True


def _stored(session: Session, row: DeclaredLedger) -> StoredLedger:
    parts = DeclaredPartRepository(session, row.project_id)
    report = parts.report(row.id)
    return StoredLedger(
        row=row,
        histories=stored_histories(row.names, parts.tallies(row.id)),
        drawn=stored_drawn(row.drawn_names, row.drawn_counts),
        reservations=parts.reservations(row.id),
        envelopes=parts.envelopes(row.id),
        reported_entries=-1 if report is None else report.entries,
    )
