"""The receipt of an erasure: what was removed, what remains and why, signed by the service."""

from dataclasses import asdict, dataclass
from typing import Any

import rfc8785

from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.envelope import Envelope

PAYLOAD_TYPE = "application/vnd.fedaudit.erasure-receipt+json"
VERSION = 1

_ALWAYS = {
    "ledgers": "how often each client, known by a made-up name, took part and what it cost: what "
    "was spent on these people cannot be taken back, and their signed ledgers prove it",
    "budgets": "totals, and what is reserved and spent: whoever registers the same content again "
    "finds them",
    "reports": "signed reports and sign-offs, with figures of groups that are large enough to be "
    "shown, and the specs that they are about: names of columns, groups and labels",
    "content-hash": "the SHA-256 of the data, by which the same content is recognised",
    "disclosure-memory": "which rows, by their number, reports have told something of together, "
    "and how profiles cut them: so that no later report gives away what these kept back",
    "settings": "who set which budget and disclosure policy, the names that people gave to the "
    "federation and its experiments, and the audit log",
}
_OF_PATH = {
    "source-file": "the file of the data, where it lies below the sources folder: it is not the "
    "service's to remove"
}
_OF_OTHERS = {
    "other-projects": "what other projects of this service hold of the same content: their files, "
    "names, models and reports are theirs to erase, and their audit logs say that this one did"
}
_BACKUPS = {
    "elsewhere": "backups, and whatever left the service before: bundles, reports, models and "
    "exported tables"
}


@dataclass(frozen=True, kw_only=True)
class ErasureReceipt:
    """One erasure that is done."""

    federation_id: str
    number: int
    content_hash: str
    reference: str | None
    requested_at: str
    requested_by: dict[str, Any]
    completed_at: str
    removed: dict[str, int]
    """How many of each thing, by name."""
    remains: dict[str, str]
    """What remains, and why."""
    ledgers: list[str]
    """Experiments, and ledgers of trainings elsewhere, that have made-up names now."""
    other_projects: int

    def sign(self, key: SigningKey) -> Envelope:
        """Canonical JSON (RFC 8785) in an envelope, signed by the service."""
        payload = rfc8785.dumps({"erasure_receipt_version": VERSION, **asdict(self)})
        return Envelope.sign(PAYLOAD_TYPE, payload, key)


def what_remains(*, uploaded: bool, others: int) -> dict[str, str]:
    """What an erasure leaves, by name, with its reason."""
    remains = dict(_ALWAYS)
    if not uploaded:
        remains |= _OF_PATH
    if others:
        remains |= _OF_OTHERS
    return remains | _BACKUPS
