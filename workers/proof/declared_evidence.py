"""Whether a declared ledger is what was signed of it before, and more: what its signer asks first.

The heavy part, hashing entries and charging them anew, begins at the newest checkpoint that this
process's own key signed. What lies before it is compared by hashes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.ledger.chain import genesis
from fedaudit.ledger.checkpoints import DATABASE, TRAINER, Checkpoint, growing_hashes, subjects_hash
from fedaudit.ledger.declarations import changed_reservations, drawn_hash
from fedaudit.ledger.declared_replay import Replay
from fedaudit.ledger.declared_state import RoundsSoFar
from fedaudit.ledger.ed25519 import PublicKey
from fedaudit.ledger.envelope import Envelope
from fedaudit.ledger.rows import StoredRow
from fedaudit.privacy.declared.drawn import Drawn
from fedaudit.privacy.declared.histories import Histories
from fedaudit.reports.document.checks import canonical_hash
from fedaudit.spec.declared.ledger_terms import LedgerTerms
from models.repositories.packed_rows import Digest
from models.tables.declared.declared_ledgers import DeclaredLedger
from models.tables.declared.declared_rounds import DeclaredReservation, DeclaredRoundRow

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
    is, and nothing tells of a later one. Raises ValueError where one that names the own key was
    altered, or is not of this ledger.
    """
    told = max(stored.row.signed_entries, stored.reported_entries, remembered)
    envelopes = [Envelope.from_dict(one) for one in stored.envelopes]
    mine = [place for place, one in enumerate(envelopes) if one.key_id == key.key_id]
    if not mine:
        return Start(None, DATABASE if envelopes or told >= 0 else TRAINER)
    newest = envelopes[mine[-1]]
    if not key.verifies(newest.signature, newest.message):
        raise ValueError("the newest checkpoint has a wrong signature: it was altered")
    checkpoint = Checkpoint.of(newest)
    _check_subject(checkpoint, stored.row)
    later = mine[-1] < len(envelopes) - 1
    # Before checkpoints had a state, one was made over another key's as it stood.
    doubtful = checkpoint.state_hash is None and len(mine) < len(envelopes)
    behind = told > checkpoint.entries
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
    rounds = RoundsSoFar(row.secret or _NO_SECRET)
    last = 0 if covered is None else covered.last_round
    known, behind = _split(inserted.rounds, last), _split_digests(inserted.digests, last)
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
    _check_drawn(stored, inserted)
    _check_reservations(stored, inserted)
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


def _split(rounds: Sequence[DeclaredRoundRow], last: int) -> int:
    """How many of these come no later than a round."""
    return bisect_right(rounds, last, key=lambda one: one.round)


def _split_digests(digests: Sequence[Digest], last: int) -> int:
    return bisect_right(digests, last, key=lambda one: one[0])


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


def _check_drawn(stored: StoredLedger, inserted: Inserted) -> None:
    """Whether the newest round that says who was drawn so far says what is stored."""
    said = next((one.drawn for one in reversed(inserted.rounds) if one.drawn is not None), None)
    if said is not None and said != drawn_hash(stored.drawn, stored.row.secret or _NO_SECRET):
        raise ValueError("those who were drawn are not those that were declared")


def _check_reservations(stored: StoredLedger, inserted: Inserted) -> None:
    secret = stored.row.secret or _NO_SECRET
    changed = changed_reservations(inserted.rounds, stored.reservations, secret)
    if (number := next(changed, None)) is not None:
        raise ValueError(f"what was reserved before round {number} is not what the chain holds")
