"""Sign how far audit logs reach: the API writes entries, and has no key to sign them with."""

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.audit_log import AuditChain, SignedHead
from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.envelope import Envelope
from models.audit_chain import written_time
from models.clock import utc_now
from models.database import Database
from models.repositories import AuditLogRepository, UnsignedAuditRepository
from workers.proof.checkpoint_signing import use_key

log = structlog.get_logger()

_ENTRIES = 2_000
"""Read of one log in a turn."""


class AuditLogSigner:
    """Signs what follows from the head that it signed before, and refuses what does not.

    It signs what the database holds: whoever can change an entry before then chooses what is
    signed.
    """

    def __init__(self, database: Database, key: SigningKey) -> None:
        self._database = database
        self._key = key
        self._refused: set[str] = set()

    def sign_waiting(self, limit: int) -> int:
        """Sign the logs of up to so many projects; returns how many. Raises SQLAlchemyError."""
        with self._database.read() as session:
            waiting = UnsignedAuditRepository(session).projects(limit + len(self._refused))
        signed = 0
        for project_id in waiting:
            if project_id in self._refused:
                continue
            try:
                with self._database.write() as session:
                    self._sign(session, project_id)
            except ValueError as error:
                self._refused.add(project_id)
                log.error("audit log not signed", project_id=project_id, why=str(error)[:200])
            else:
                signed += 1
        return signed

    def _sign(self, session: Session, project_id: str) -> None:
        """Raises ValueError where the log does not follow from what was signed."""
        entries = AuditLogRepository(session, project_id)
        head = entries.head()
        if head is None:
            return
        chain = self._signed_so_far(project_id, head.envelope)
        if chain.entries != head.signed_entries:
            raise ValueError("the signed head is not the one that the database counts on from")
        for entry in entries.block(chain.entries, limit=_ENTRIES):
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

    def _signed_so_far(self, project_id: str, stored: object) -> AuditChain:
        if stored is None:
            return AuditChain(project_id)
        envelope = Envelope.from_dict(stored)
        mine = envelope.key_id == self._key.key_id
        # Of what another key signed nothing is known here: whoever verifies judges that.
        if mine and not self._key.public.verifies(envelope.signature, envelope.message):
            raise ValueError("the signed head has a wrong signature: it was altered")
        head = SignedHead.of(envelope)
        if head.project_id != project_id:
            raise ValueError("the signed head is another project's")
        return AuditChain(project_id, head.entries, head.link)
