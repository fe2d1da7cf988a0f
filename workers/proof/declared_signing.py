"""Whether a declared ledger is what was signed of it before, and more: what its signer asks first.

Entries are hashed and charged anew from the first on, or from where this process signed last. What
its own key signed before is compared by hashes.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.columns import batches
from fedaudit.ledger.declared import Replay, changed_rounds, declaration_of, state_hash
from fedaudit.ledger.encoding import ledger_hash, salt_hash
from fedaudit.ledger.statements import (
    DATABASE,
    TRAINER,
    Checkpoint,
    Envelope,
    PublicKey,
    SigningKey,
    growing_hashes,
    subjects_hash,
)
from fedaudit.privacy.declared.figures import drawn_clients
from fedaudit.privacy.declared.histories import Tally
from fedaudit.reports.declared.declared_report import declared_report
from fedaudit.reports.declared.ledger_material import DeclaredMaterial
from fedaudit.reports.report import report_hash
from fedaudit.reports.sections.provenance import sign_report
from fedaudit.spec.canonical import canonical_hash
from fedaudit.spec.declared_ledgers import LedgerTerms
from fedaudit.spec.disclosure import DisclosureFloor, least_group_size
from fedaudit.stored import KeyedDigest, LedgerRow
from models.database import Database
from models.repositories import (
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    FederationRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
)
from models.repositories.declared_ledgers import unsigned_ledgers
from models.repositories.ledger import stored_rows
from models.tables.ledger import DeclaredLedger
from models.values import utc_now
from workers.proof.signing import CHECKPOINT_SECONDS, WaitingSigner, sign_checkpoint

_NO_SECRET = bytes(32)
"""Secret of ledgers whose rounds were all declared before they had one."""


@dataclass(frozen=True)
class Start:
    """What was signed before."""

    checkpoint: Checkpoint | None
    """The newest that the own key signed; None without one."""
    witness: str
    """What the next one may state: TRAINER, or DATABASE where signatures are missing or foreign."""

    @property
    def covered(self) -> Checkpoint | None:
        """The same, where it covers what rounds declared beside their entries."""
        known = self.checkpoint is not None and self.checkpoint.state_hash is not None
        return self.checkpoint if known else None


def start_of(
    row: DeclaredLedger, stored: Sequence[Any], key: PublicKey, *, known_entries: int
) -> Start:
    """Where to begin. `stored`: checkpoints, oldest first. `known_entries`: how many are known to
    be signed, whatever checkpoints say; -1 of none.

    TRAINER only where nothing was ever signed, or the own key signed the newest checkpoint there
    is, and nothing indicates a later one. Raises ValueError where one that names the own key was
    altered, or is not of this ledger.
    """
    envelopes = [Envelope.from_dict(one) for one in stored]
    mine = [place for place, one in enumerate(envelopes) if one.key_id == key.key_id]
    if not mine:
        return Start(None, DATABASE if envelopes or known_entries >= 0 else TRAINER)
    newest = envelopes[mine[-1]]
    if not key.verifies(newest.signature, newest.message):
        raise ValueError("the newest checkpoint has a wrong signature: it was altered")
    checkpoint = Checkpoint.of(newest)
    if (checkpoint.experiment_id, checkpoint.spec_hash) != (row.id, row.terms_hash):
        raise ValueError("the newest checkpoint is of another ledger, or of other terms")
    if checkpoint.entries > row.entries:
        raise ValueError(f"{checkpoint.entries} entries were signed, and {row.entries} are there")
    unchanged = checkpoint.subjects_hash == subjects_hash(row.names)
    if not unchanged and checkpoint.subjects_hash not in growing_hashes(row.names):
        raise ValueError("the subjects are not those that were signed")
    later = mine[-1] < len(envelopes) - 1
    # Before checkpoints had a state, one was made over another key's as it stood.
    doubtful = checkpoint.state_hash is None and len(mine) < len(envelopes)
    behind = known_entries > checkpoint.entries
    sound = checkpoint.witness == TRAINER and not (later or doubtful or behind)
    return Start(checkpoint, TRAINER if sound else DATABASE)


def check_ledger(
    row: DeclaredLedger,
    material: DeclaredMaterial,
    start: Start,
    replay: Replay,
    *,
    before: Sequence[Tally],
    digests: Sequence[KeyedDigest],
) -> str | None:
    """Whether entries and rounds follow from what was signed, and from each other; the state hash
    to be signed next.

    `replay` has read all entries; `before`: its tallies behind `start.covered`. `digests`: of all
    entries. Raises ValueError where something does not follow.
    """
    covered = start.covered
    if canonical_hash(row.terms) != row.terms_hash:
        raise ValueError("the terms are not those that were stated")
    secret = row.secret or _NO_SECRET
    rounds = material.rounds
    declarations = [declaration_of(one, secret) for one in rounds]
    if covered is not None:
        last = covered.last_round
        known = bisect_right(rounds, last, key=lambda one: one.round)
        behind = bisect_right(digests, last, key=lambda one: one[0])
        found = state_hash(declarations[:known], digests[:behind], before, secret)
        if found != covered.state_hash:
            raise ValueError(f"what is stored up to round {last} is not what was signed")
    entered = {number: declaration for number, (_, declaration) in replay.rounds.items()}
    changed = changed_rounds(
        rounds, entered, reserved=material.reservations, drawn=material.drawn, secret=secret
    )
    if (words := next(changed, None)) is not None:
        raise ValueError(f"{words}: not what the chain holds")
    chained = False
    for one in rounds:
        head, declaration = replay.rounds[one.round]
        if declaration is None and chained:
            raise ValueError(f"round {one.round} has no declaration, and the one before it has")
        chained = declaration is not None
        if one.head != head.hex():
            raise ValueError(f"round {one.round} does not have the head of its newest entry")
    return None if row.secret is None else state_hash(declarations, digests, replay.tallies, secret)


def read_to_end(
    row: DeclaredLedger, start: Start, replay: Replay, entries: Iterable[LedgerRow]
) -> Sequence[Tally]:
    """Read the `entries` behind those that `replay` has read; returns its tallies as they were
    behind `start.covered`. Raises ValueError where they do not lead through the newest checkpoint
    to the ledger's head."""
    replay.name(row.names)
    last = 0 if start.covered is None else start.covered.last_round
    before: Sequence[Tally] | None = None
    for is_covered, some in groupby(entries, key=lambda one: one.round <= last):
        if not is_covered:
            before = replay.tallies
        for rows in batches(some):
            replay.read(rows)
    signed = start.checkpoint
    if signed is not None and signed.entries:
        head = replay.audit.heads.get(signed.entries)
        if head is None or head.hex() != signed.chain_head:
            raise ValueError("the entries do not lead through the newest checkpoint")
    if (replay.audit.entries, replay.audit.head) != (row.entries, bytes(row.head)):
        raise ValueError("the entries do not lead to the ledger's head")
    return replay.tallies if before is None else before


log = structlog.get_logger()

_REMEMBERED, _REPLAYED = 10_000, 64


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
    ) -> None:
        """`floor`: of groups that reports show."""
        super().__init__(database, key)
        self._seconds = seconds
        self._floor = floor or DisclosureFloor()
        self._signed: OrderedDict[str, int] = OrderedDict()
        """Entries that this process knows to be signed, of the ledgers signed last: a database that
        was set back is noticed."""
        self._replays: OrderedDict[str, Replay] = OrderedDict()
        """What was read of the ledgers signed last: new entries alone are charged anew."""

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
            reservations = DeclaredPartRepository(session, project_id).reservations(row.id)
            envelopes = LedgerCheckpointRepository(session, project_id).envelopes(row.id)
            policies, federations = [], FederationRepository(session, project_id)
            if row.federation_id is not None:
                policies = federations.disclosures(row.federation_id)
            units = federations.units(row.federation_id, row.terms["unit"])
        known = max(row.signed_entries, self._signed.get(ledger_id, -1))
        start = start_of(row, envelopes, self._key.public, known_entries=known)
        if start.witness != TRAINER:
            log.warning("signatures of a ledger are missing or foreign", ledger_id=ledger_id)
        with self._database.read() as session:
            # Only ever inserted: up to the ledger's last round it needs no lock to be read.
            inserted = LedgerRepository(session)
            digests = list(inserted.digests(row.id, upto=row.last_round))
            first_declaration = inserted.first_declaration(row.id)
            rounds = DeclaredPartRepository(session).rounds(row.id, upto=row.last_round)
        terms = LedgerTerms.model_validate(row.terms)
        replay = self._replay_from(row, terms, start)
        first = replay.charged.last_round + 1
        entries = stored_rows(self._database, row.id, first=first, last=row.last_round)
        before = read_to_end(row, start, replay, entries)
        material = DeclaredMaterial(
            ledger_id=row.id,
            terms=terms,
            histories=replay.charged.histories,
            drawn=drawn_clients(row.drawn_names, row.drawn_counts),
            rounds=rounds,
            reservations=reservations,
            first_declaration=first_declaration,
            least_group_size=least_group_size(self._floor, policies),
            federation_units=units,
            made_at=utc_now(),
            ledger_hash=ledger_hash(digests),
            chain_head=replay.audit.head.hex(),
            entries=replay.audit.entries,
            witness=start.witness,
            key_id=self._key.key_id,
        )
        state_hash = check_ledger(row, material, start, replay, before=before, digests=digests)
        document = sign_report(declared_report(material), self._key)
        checkpoint = Checkpoint(
            experiment_id=row.id,
            status="running",
            entries=row.entries,
            last_round=row.last_round,
            chain_head=material.chain_head,
            spec_hash=row.terms_hash,
            subjects_hash=subjects_hash(row.names),
            witness=start.witness,
            state_hash=state_hash,
            salt_hash=None if row.ledger_salt is None else salt_hash(row.ledger_salt),
        )
        with self._database.write() as session:
            if not self._store(session, row, checkpoint, document):
                return False
        _remember(self._signed, row.id, checkpoint.entries, most=_REMEMBERED)
        _remember(self._replays, row.id, replay, most=_REPLAYED)
        return True

    def _replay_from(self, row: DeclaredLedger, terms: LedgerTerms, start: Start) -> Replay:
        """What was read of a ledger when this process signed it, if that was its newest signature
        and the names stayed; else one that begins anew."""
        known, covered = self._replays.pop(row.id, None), start.covered
        if known is not None and covered is not None:
            names = known.charged.histories.names
            where = (known.audit.entries, known.audit.head.hex())
            if where == (covered.entries, covered.chain_head) and row.names[: len(names)] == names:
                return known
        return Replay(terms, row.id, row.ledger_salt)

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
        sign_checkpoint(session, checkpoint, project_id=row.project_id, key=self._key)
        report = {"report": document, "report_hash": report_hash(document)}
        entries = {"signed_entries": checkpoint.entries, "signed_at": utc_now()}
        ledgers.change(row.id, {**entries, **report})
        return True


Kept = TypeVar("Kept")


def _remember(kept: OrderedDict[str, Kept], ledger_id: str, value: Kept, *, most: int) -> None:
    kept[ledger_id] = value
    kept.move_to_end(ledger_id)
    while len(kept) > most:
        kept.popitem(last=False)
