"""Sign the state of ledgers: the process that writes ledger rows signs how many there are."""

from pathlib import Path
from time import monotonic

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from fedaudit.ledger.chain import genesis, salt_hash
from fedaudit.ledger.checkpoints import DATABASE, Checkpoint
from fedaudit.ledger.ed25519 import ALGORITHM, SigningKey
from infrastructure.settings import Settings
from infrastructure.signing_keys import SigningKeyError, ensure_key_file, key_file_of, read_key_file
from models.database import Database
from models.repositories import (
    ExperimentRepository,
    LedgerCheckpointRepository,
    LedgerRepository,
    SigningKeyRepository,
)

log = structlog.get_logger()

CHECKPOINT_SECONDS = 10.0
"""During a run, a checkpoint is signed with the first flush after this interval."""


def load_signing_key(settings: Settings) -> SigningKey:
    """The key named in the settings; the embedded service creates one where there is none.

    Exits with a message where there is no usable key.
    """
    try:
        path = key_file_of(settings)
        if settings.signing_key_file is None:
            ensure_key_file(path)
        return SigningKey.from_pem(read_key_file(path))
    except SigningKeyError as error:
        raise SystemExit(str(error)) from None


class SigningKeyFile:
    """The key in a file that may be exchanged while this process runs."""

    def __init__(self, settings: Settings) -> None:
        """Exits with a message where there is no usable key."""
        self._path = key_file_of_or_exit(settings)
        self._key = load_signing_key(settings)
        self._seen = self._look()

    def current(self) -> SigningKey:
        """The file's key; where it cannot be read any more, the last one that could."""
        seen = self._look()
        if seen is None or seen == self._seen:
            return self._key
        try:
            key = SigningKey.from_pem(read_key_file(self._path))
        except (SigningKeyError, ValueError) as error:
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


def key_file_of_or_exit(settings: Settings) -> Path:
    """Where the key is; exits with a message where production names none."""
    try:
        return key_file_of(settings)
    except SigningKeyError as error:
        raise SystemExit(str(error)) from None


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
    LedgerCheckpointRepository(session).add(
        checkpoint.experiment_id,
        project_id,
        entries=checkpoint.entries,
        status=checkpoint.status,
        envelope=checkpoint.sign(key).as_dict(),
    )


def sign_as_stored(
    session: Session, experiment_id: str, project_id: str, *, key: SigningKey
) -> None:
    """Sign the state of the stored ledger, for a run that no worker has in memory.

    The signature covers what the database contains, and the checkpoint says so. Raises LookupError
    where there is no such experiment.
    """
    experiment = ExperimentRepository(session, project_id).get(experiment_id)
    if experiment is None:
        raise LookupError(f"no experiment {experiment_id}")
    ledger = LedgerRepository(session)
    newest = ledger.last_row(experiment_id)
    ended = experiment.finished_at is not None
    checkpoint = Checkpoint(
        experiment_id=experiment_id,
        status=experiment.status if ended else "running",
        entries=ledger.count(experiment_id),
        last_round=0 if newest is None else newest[0],
        chain_head=(genesis(experiment_id) if newest is None else newest[1]).hex(),
        spec_hash=experiment.spec_hash,
        # A set of names is stored under exactly this hash of them.
        subjects_hash=experiment.subject_set_id,
        witness=DATABASE,
        salt_hash=None if experiment.ledger_salt is None else salt_hash(experiment.ledger_salt),
    )
    sign_checkpoint(session, checkpoint, project_id=project_id, key=key)


class CheckpointClock:
    """When the next checkpoint of each run is due."""

    def __init__(self, *, seconds: float = CHECKPOINT_SECONDS) -> None:
        self._seconds = seconds
        self._signed: dict[str, float] = {}

    def due(self, experiment_id: str) -> bool:
        """Whether the newest checkpoint is old enough; the first flush only starts the clock."""
        now = monotonic()
        return now - self._signed.setdefault(experiment_id, now) >= self._seconds

    def signed(self, experiment_id: str) -> None:
        """Record that a checkpoint was stored."""
        self._signed[experiment_id] = monotonic()


def use_key(session: Session, key: SigningKey) -> None:
    """List the key as the one in use, in the transaction of what it signs."""
    SigningKeyRepository(session).use(key.key_id, algorithm=ALGORITHM, public_key=key.public.pem)
