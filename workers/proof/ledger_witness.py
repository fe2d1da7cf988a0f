"""Which witness a resumed run's signatures may state: its worker, or the database alone.

A worker signs the ledger that it has in memory. The memory of a resumed run begins with stored
rows, which anyone able to change the database could have altered while no worker held them.
"""

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.chain import salt_hash
from fedaudit.ledger.checkpoints import DATABASE, WORKER, Checkpoint
from fedaudit.ledger.ed25519 import PublicKey
from fedaudit.ledger.envelope import Envelope
from fedaudit.runs.ledger_writer import LedgerWriter
from models.repositories import LedgerCheckpointRepository, LedgerRepository
from models.tables.experiments import Experiment

log = structlog.get_logger()


def witness_of_resumed(
    session: Session,
    experiment: Experiment,
    ledger: LedgerWriter,
    *,
    audit: LedgerAudit,
    key: PublicKey,
    begun: bool,
    interrupted: bool,
) -> str:
    """WORKER where the run starts anew, or where a worker signed exactly what is stored.

    Exactly: the rows agree with their own hashes, and a checkpoint that `key` signed and that
    states a worker as its witness counts them all and has the head that they lead to. Only the key
    in this process's hands is trusted, since those listed in the database can be added there.
    DATABASE otherwise, and where rounds were `interrupted`: that they were charged, and that no
    others were, is what the database says alone.

    `ledger` and `audit`: of the stored rows. `begun`: whether state was stored to resume from.
    """
    envelopes = LedgerCheckpointRepository(session).envelopes(experiment.id)
    totals = LedgerRepository(session).get_totals(experiment.id)
    begun = begun or bool(envelopes) or totals is not None or experiment.rounds_done > 0
    if not (begun or interrupted or ledger.entries):
        return WORKER
    same_rows = audit.consistent and audit.head == ledger.head and audit.entries == ledger.entries
    expected = Checkpoint(
        experiment_id=experiment.id,
        status="running",
        entries=ledger.entries,
        last_round=ledger.last_round,
        chain_head=ledger.head.hex(),
        spec_hash=experiment.spec_hash,
        # A set of names is stored under exactly this hash of them.
        subjects_hash=experiment.subject_set_id,
        witness=WORKER,
        salt_hash=None if ledger.salt is None else salt_hash(ledger.salt),
    )
    signed = any(_states(value, expected, key) for value in envelopes)
    if same_rows and signed and not interrupted:
        return WORKER
    log.warning(
        "resumed from rows that no worker signed",
        experiment_id=experiment.id,
        entries=ledger.entries,
        consistent=same_rows,
        signed=signed,
        interrupted=interrupted,
    )
    return DATABASE


def _states(value: object, expected: Checkpoint, key: PublicKey) -> bool:
    """Whether an envelope holds exactly this checkpoint, signed with the key."""
    try:
        envelope = Envelope.from_dict(value)
        if envelope.key_id != key.key_id or not key.verifies(envelope.signature, envelope.message):
            return False
        return Checkpoint.of(envelope) == expected
    except ValueError:
        return False
