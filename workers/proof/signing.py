"""Sign the state of ledgers, and what the API stores without a key.

The process that writes ledger rows signs how many there are. A worker signs the ledger that it has
in memory; the memory of a resumed run begins with stored rows, which anyone able to change the
database could have altered while no worker held them.
"""

from abc import ABC, abstractmethod
from collections.abc import Container, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.audit_log import AuditChain, SignedHead
from fedaudit.ledger.claim_bundles import ClaimsKey
from fedaudit.ledger.encoding import genesis, salt_hash
from fedaudit.ledger.run_log import BEGUN, LogEntry, LogHead, LogTree, begun_digest
from fedaudit.ledger.statements import (
    ALGORITHM,
    CLAIMS_ALGORITHM,
    DATABASE,
    WORKER,
    Checkpoint,
    Envelope,
    PublicKey,
    SigningKey,
    link_of,
)
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.sections.provenance import report_envelope
from fedaudit.runs.ledger_writer import LedgerWriter
from fedaudit.spec.canonical import canonical_hash
from infrastructure.key_files import KeyFileError
from infrastructure.settings import Settings
from infrastructure.signing_keys import ensure_key_file, key_file_of, read_key_file
from models.database import AWAY, Database
from models.repositories import (
    AuditLogRepository,
    ExperimentRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    ReportRepository,
    RunLogRepository,
    SigningKeyRepository,
    SignOffRepository,
    UnsignedAuditRepository,
)
from models.tables.base import written_time
from models.tables.experiments import Experiment, SignOff
from models.tables.ledger import RunLogEntry
from models.values import utc_now

log = structlog.get_logger()

_ENTRIES_AT_ONCE = 2_000
_USED = "fedaudit.key-in-use"
"""Where a transaction keeps which key it has listed."""
CHECKPOINT_SECONDS = 10.0
"""During a run, a checkpoint is signed with the first flush after this interval."""


class SigningKeyFile:
    """The key in a file that may be exchanged while this process runs; the embedded service creates
    one where there is none."""

    def __init__(self, settings: Settings) -> None:
        """Exits with a message where there is no usable key, or production names none."""
        try:
            self._path = key_file_of(settings)
            if settings.signing_key_file is None:
                ensure_key_file(self._path)
            self._key = SigningKey.from_pem(read_key_file(self._path))
        except KeyFileError as error:
            raise SystemExit(str(error)) from None
        self._seen = self._look()

    def current(self) -> SigningKey:
        """The file's key; where it cannot be read any more, the last one that could."""
        seen = self._look()
        if seen is None or seen == self._seen:
            return self._key
        try:
            key = SigningKey.from_pem(read_key_file(self._path))
        except (KeyFileError, ValueError) as error:
            log.error("signing key not exchanged", why=str(error)[:200])
        else:
            if key.key_id != self._key.key_id:
                log.warning("signing key exchanged", before=self._key.key_id, now=key.key_id)
            self._key = key
        self._seen = seen
        return self._key

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def announce_key(database: Database, key: SigningKey) -> None:
    """Register the key with the service; if the database is unavailable, the first signature does
    it. Exits with a message where the key is marked as compromised."""
    try:
        with database.write() as session:
            if SigningKeyRepository(session).is_compromised(key.key_id):
                raise SystemExit(
                    f"the signing key {key.key_id} is marked as compromised; exchange it with "
                    "`fedaudit signing-keys rotate`"
                )
            use_key(session, key)
    except SQLAlchemyError as error:
        log.warning("database away; key not listed yet", error=type(error).__name__)


def sign_checkpoint(
    session: Session, checkpoint: Checkpoint, *, project_id: str, key: SigningKey
) -> None:
    """Store a signed checkpoint, in the transaction of the rows that it counts."""
    use_key(session, key)
    envelope = checkpoint.sign(key)
    if LedgerCheckpointRepository(session, project_id).add(
        checkpoint.experiment_id,
        entries=checkpoint.entries,
        status=checkpoint.status,
        envelope=envelope.as_dict(),
    ):
        begun = RunLogRepository(session).begun(checkpoint.experiment_id)
        if begun is not None:
            entry = LogEntry(begun.run, checkpoint.status, link_of(envelope))
            _OpenLog(session, begun.federation_id, key).append(begun.experiment_id, entry)


def enter_runs(
    session: Session, experiments: Sequence[Experiment], *, signed: Container[str], key: SigningKey
) -> None:
    """Enter runs that begin in the logs of their data: their specs and gates, and what was signed
    of them while they waited, as services without a log did. `signed`: the experiments of which
    anything may have been."""
    logs: dict[str, _OpenLog] = {}
    for one in experiments:
        if one.federation_id not in logs:
            use_key(session, key)
            logs[one.federation_id] = _OpenLog(session, one.federation_id, key)
        log_of_data = logs[one.federation_id]
        log_of_data.runs += 1
        digest = begun_digest(
            one.id, spec_hash=canonical_hash(one.spec), gates=canonical_hash(one.spec["gates"])
        )
        log_of_data.append(one.id, LogEntry(log_of_data.runs, BEGUN, digest))
        envelopes = (
            LedgerCheckpointRepository(session).envelopes(one.id) if one.id in signed else ()
        )
        for envelope in map(Envelope.from_dict, envelopes):
            status = Checkpoint.of(envelope).status
            log_of_data.append(one.id, LogEntry(log_of_data.runs, status, link_of(envelope)))


class _OpenLog:
    """The log of the runs on some data, locked until the transaction ends."""

    def __init__(self, session: Session, federation_id: str, key: SigningKey) -> None:
        self._logs, self._federation_id, self._key = RunLogRepository(session), federation_id, key
        newest, self._tree = self._logs.lock(federation_id), LogTree()
        if newest is not None:
            self._tree = LogTree.restored(newest.size, newest.subtrees)

    @cached_property
    def runs(self) -> int:
        """How many have begun."""
        return self._logs.runs(self._federation_id)

    def append(self, experiment_id: str, entry: LogEntry) -> None:
        """Adds an entry, under a signed head."""
        self._tree = tree = self._tree.with_entry(entry.encoded())
        head = LogHead(f"fedaudit/{self._federation_id}", tree.size, tree.root)
        self._logs.add(
            RunLogEntry(
                federation_id=self._federation_id,
                size=tree.size,
                experiment_id=experiment_id,
                **asdict(entry),
                subtrees=b"".join(tree.subtrees),
                checkpoint=head.signed(self._key),
            )
        )


def _checkpoint(
    experiment: Experiment, *, status: str, entries: int, last: tuple[int, bytes], witness: str
) -> Checkpoint:
    """The state of a run's ledger, to be signed. `last`: round and link of the newest entry."""
    salt, (last_round, head) = experiment.ledger_salt, last
    return Checkpoint(
        experiment_id=experiment.id,
        status=status,
        entries=entries,
        last_round=last_round,
        chain_head=head.hex(),
        spec_hash=experiment.spec_hash,
        # A set of names is stored under exactly this hash of them.
        subjects_hash=experiment.subject_set_id,
        witness=witness,
        salt_hash=None if salt is None else salt_hash(salt),
    )


def writer_checkpoint(
    experiment: Experiment, ledger: LedgerWriter, *, status: str, witness: str
) -> Checkpoint:
    """The state of the ledger that a worker has in memory."""
    last = (ledger.last_round, ledger.head)
    return _checkpoint(
        experiment, status=status, entries=ledger.entries, last=last, witness=witness
    )


def sign_as_stored(
    session: Session, experiment_id: str, project_id: str, *, key: SigningKey
) -> None:
    """Sign the state of the stored ledger, for a run that no worker has in memory. The signature
    covers what the database contains, and the checkpoint says so. Raises LookupError where there is
    no such experiment."""
    experiment = ExperimentRepository(session, project_id).existing(experiment_id)
    ledger = LedgerRepository(session)
    checkpoint = _checkpoint(
        experiment,
        status="running" if experiment.finished_at is None else experiment.status,
        entries=ledger.count(experiment_id),
        last=ledger.last_row(experiment_id) or (0, genesis(experiment_id)),
        witness=DATABASE,
    )
    sign_checkpoint(session, checkpoint, project_id=project_id, key=key)


def use_key(session: Session, key: SigningKey) -> None:
    """List the key, and that of claims that follows from it, as those in use, in the transaction of
    what they sign."""
    keys, own, used = SigningKeyRepository(session), key.public, session.info
    if used.get(_USED) == key.key_id:
        return
    claims = ClaimsKey(key).public
    if not keys.are_in_use(own.key_id, claims.key_id):
        keys.use(own.key_id, algorithm=ALGORITHM, public_key=own.pem)
        follows = {"public_key": claims.pem, "derived_from": own.key_id}
        keys.use(claims.key_id, algorithm=CLAIMS_ALGORITHM, **follows)
    used[_USED] = key.key_id


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
    expected = writer_checkpoint(experiment, ledger, status="running", witness=WORKER)
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


class WaitingSigner(ABC):
    """Signs what waits in the database, and was stored by the API, which has no key. What does not
    fit what was signed before is refused, logged, and stays unsigned as long as this process runs:
    it holds up nothing else. The database decides what is signed, and so does anyone able to change
    a row before then."""

    what: ClassVar[str]
    key_names: ClassVar[tuple[str, ...]]
    """Under which names its keys are logged."""
    refused_for: ClassVar[type[Exception]] = ValueError

    def __init__(self, database: Database, key: SigningKey) -> None:
        self._database = database
        self._key = key
        self._refused: set[tuple[Any, ...]] = set()

    def sign_waiting(self, limit: int) -> int:
        """Sign up to so many; returns how many were. Raises SQLAlchemyError where the database is
        away."""
        with self._database.read() as session:
            waiting = self._waiting(session, limit + len(self._refused))
        signed = 0
        for one in waiting:
            if one in self._refused:
                continue
            try:
                signed += self._sign(*one)
            except AWAY:
                raise
            except self.refused_for as error:
                self._refused.add(one)
                why = f"{type(error).__name__}: {error}"[:200]
                named = dict(zip(self.key_names, one, strict=True))
                log.exception(f"{self.what} not signed", **named, why=why)
        return signed

    @abstractmethod
    def _waiting(self, session: Session, limit: int) -> Sequence[tuple[Any, ...]]:
        """The keys of what has no signature."""

    @abstractmethod
    def _sign(self, *key: Any) -> bool:
        """Whether it was signed. Raises `refused_for` where it does not fit."""

    def _check_own(self, envelope: Envelope, what: str) -> None:
        """Raises ValueError where the own key is named and did not sign it. Of what another key
        signed nothing is known here: verification judges that."""
        mine = envelope.key_id == self._key.key_id
        if mine and not self._key.public.verifies(envelope.signature, envelope.message):
            raise ValueError(f"{what} has a wrong signature: it was altered")


class SignOffSigner(WaitingSigner):
    """Signs what people stated of reports, each in its chain."""

    what = "sign-off"
    key_names = ("experiment_id", "number")

    def _waiting(self, session: Session, limit: int) -> Sequence[tuple[str, int]]:
        return SignOffRepository(session).unsigned(limit)

    def _sign(self, experiment_id: str, number: int) -> bool:
        with self._database.write() as session:
            row = SignOffRepository(session).get(experiment_id, number)
            if row is None:
                return False
            sign_off = Statement.of_fields(row.statement)
            names = ("experiment_id", "number", "report_hash", "decision")
            if any(getattr(sign_off, name) != getattr(row, name) for name in names):
                raise ValueError("the row and its statement differ")
            report = ReportRepository(session).get(experiment_id)
            if report is None or canonical_hash(report.document) != row.report_hash:
                raise ValueError("the stored report is not the one that was signed off")
            if (signed := report_envelope(report.document)) is not None:
                self._check_own(signed, "the report")
            envelope = sign_off.sign_after(self._before(session, row), self._key)
            use_key(session, self._key)
            return SignOffRepository(session).put_envelope(row, envelope.as_dict())

    def _before(self, session: Session, row: SignOff) -> Envelope | None:
        if row.number == 1:
            return None
        before = SignOffRepository(session).get(row.experiment_id, row.number - 1)
        if before is None or before.envelope is None:
            raise ValueError("the sign-off before it is missing, or has no signature")
        envelope = Envelope.from_dict(before.envelope)
        self._check_own(envelope, "the sign-off before it")
        chained = Statement.of(envelope)
        if (chained.experiment_id, chained.number) != (before.experiment_id, before.number):
            raise ValueError("the sign-off before it is not the one that was signed there")
        return envelope


class AuditLogSigner(WaitingSigner):
    """Signs how far audit logs reach, where that follows from the head that was signed before, and
    from what this process remembers to have signed: a log that was set back, or begun anew, is
    noticed."""

    what = "audit log"
    key_names = ("project_id",)

    def __init__(
        self, database: Database, key: SigningKey, *, signed: dict[str, AuditChain]
    ) -> None:
        """`signed`: by project, how far each log reached when it was signed last, which outlives an
        exchange of the key."""
        super().__init__(database, key)
        self._signed = signed

    def _waiting(self, session: Session, limit: int) -> Sequence[tuple[str]]:
        return [(one,) for one in UnsignedAuditRepository(session).projects(limit)]

    def _sign(self, project_id: str) -> bool:
        with self._database.write() as session:
            entries = AuditLogRepository(session, project_id)
            head = entries.head()
            if head is None:
                return True
            chain = self._signed_so_far(project_id, head.envelope)
            if chain.entries != head.signed_entries:
                raise ValueError("the signed head is not the one that the database counts on from")
            for entry in entries.block(chain.entries, limit=_ENTRIES_AT_ONCE):
                chain.read({**entry.content(), "link": entry.link})
            if chain.entries == head.signed_entries:
                raise ValueError(f"entry {chain.entries + 1} is missing")
            if chain.entries == head.entries and chain.link != head.link:
                raise ValueError("the newest entry is not the one that was written last")
            signed = SignedHead(
                project_id=project_id,
                entries=chain.entries,
                link=chain.link,
                signed_at=written_time(utc_now()),
            )
            use_key(session, self._key)
            entries.put_signature(chain.entries, signed.sign(self._key).as_dict())
        self._signed[project_id] = chain
        return True

    def _signed_so_far(self, project_id: str, stored: object) -> AuditChain:
        known = self._signed.get(project_id)
        if stored is None and known is None:
            return AuditChain(project_id)
        envelope = Envelope.from_dict(stored)
        self._check_own(envelope, "the signed head")
        head = SignedHead.of(envelope)
        if head.project_id != project_id:
            raise ValueError("the signed head is another project's")
        found = AuditChain(project_id, head.entries, head.link)
        # Another sweeper may have signed later ones.
        if known is not None and found != known and found.entries <= known.entries:
            raise ValueError(f"{known.entries} entries were signed, and the log was set back")
        return found
