"""Sign what people stated of reports: the API takes sign-offs, and has no key to sign them with."""

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.envelope import Envelope
from fedaudit.ledger.sign_offs import ChainedSignOff, link_of, sign_off_of
from fedaudit.reports.document.checks import canonical_hash
from fedaudit.reports.verification.report_signature import report_envelope
from models.database import Database
from models.repositories import ReportRepository, SignOffRepository
from models.tables.reports import SignOff
from workers.proof.checkpoint_signing import use_key

log = structlog.get_logger()


class SignOffSigner:
    """Signs what waits; what does not fit its report or its chain is refused, and stays unsigned.

    It signs what the database holds: whoever can change a sign-off before then chooses what is
    signed.
    """

    def __init__(self, database: Database, key: SigningKey) -> None:
        self._database = database
        self._key = key
        self._refused: set[tuple[str, int]] = set()

    def sign_waiting(self, limit: int) -> int:
        """Sign up to so many; returns how many were. Raises SQLAlchemyError."""
        with self._database.read() as session:
            waiting = SignOffRepository(session).unsigned(limit + len(self._refused))
        signed = 0
        for experiment_id, number in waiting:
            if (experiment_id, number) in self._refused:
                continue
            try:
                with self._database.write() as session:
                    signed += self._sign(session, experiment_id, number)
            except ValueError as error:
                self._refused.add((experiment_id, number))
                log.error(
                    "sign-off not signed",
                    experiment_id=experiment_id,
                    number=number,
                    why=str(error)[:200],
                )
        return signed

    def _sign(self, session: Session, experiment_id: str, number: int) -> bool:
        """Raises ValueError where the row cannot be read, or does not fit what is signed."""
        row = SignOffRepository(session).get(experiment_id, number)
        if row is None:
            return False
        sign_off = sign_off_of(row.statement)
        stated = (sign_off.experiment_id, sign_off.number, sign_off.report_hash, sign_off.decision)
        if stated != (row.experiment_id, row.number, row.report_hash, row.decision):
            raise ValueError("the row and its statement differ")
        self._check_report(session, row)
        envelope = ChainedSignOff(sign_off, self._previous(session, row)).sign(self._key)
        use_key(session, self._key)
        return SignOffRepository(session).put_envelope(row, envelope.as_dict())

    def _check_report(self, session: Session, row: SignOff) -> None:
        report = ReportRepository(session).get(row.experiment_id)
        if report is None or canonical_hash(report.document) != row.report_hash:
            raise ValueError("the stored report is not the one that was signed off")
        envelope = report_envelope(report.document)
        if envelope is not None:
            self._check_signature(envelope, "the report")

    def _previous(self, session: Session, row: SignOff) -> str:
        if row.number == 1:
            return row.report_hash
        before = SignOffRepository(session).get(row.experiment_id, row.number - 1)
        if before is None or before.envelope is None:
            raise ValueError("the sign-off before it is missing, or has no signature")
        envelope = Envelope.from_dict(before.envelope)
        self._check_signature(envelope, "the sign-off before it")
        chained = ChainedSignOff.of(envelope).sign_off
        if (chained.experiment_id, chained.number) != (before.experiment_id, before.number):
            raise ValueError("the sign-off before it is not the one that was signed there")
        return link_of(envelope)

    def _check_signature(self, envelope: Envelope, what: str) -> None:
        """Of what another key signed nothing is known here: whoever verifies judges that."""
        mine = envelope.key_id == self._key.key_id
        if mine and not self._key.public.verifies(envelope.signature, envelope.message):
            raise ValueError(f"{what} has a wrong signature: it was altered")
