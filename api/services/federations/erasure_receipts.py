"""Erasures for a reader: what a signed receipt says, and whether the service's signature holds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from api.http.problems import not_found
from api.schemas.federations import ErasureBody
from api.services.base.lookups import find_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.signatures import Envelope, PublicKey
from fedaudit.ledger.statements import ErasureReceipt
from models.repositories import ErasureRepository, SigningKeyRepository
from models.tables.federations import Erasure
from models.tables.ledger import SigningKey

_SAID = (
    "reference",
    "requested_at",
    "requested_by",
    "completed_at",
    "removed",
    "remains",
    "ledgers",
    "other_projects",
)
"""What a receipt says of what is shown."""


@dataclass(frozen=True)
class ShownErasure:
    """One erasure: what its receipt says where the signature holds, else what is stored."""

    body: ErasureBody
    federation: str
    """Its name."""
    key_id: str | None
    """Whose signature it is; None until it is done."""
    fault: str | None
    """Why the receipt proves nothing."""
    compromised_at: datetime | None
    """Since when others may have had the key."""


def shown_erasure(
    resources: Resources, caller: Caller, federation_id: str, number: int
) -> ShownErasure:
    """One erasure of a federation. Raises ProblemError where there is none of this number."""
    with resources.database.read() as session:
        found = find_federation(session, caller, federation_id)
        row = ErasureRepository(session, caller.project_id).get(found.id, number)
        keys = {one.key_id: one for one in SigningKeyRepository(session).list()}
    if row is None:
        raise not_found("erasure of this federation")
    body = ErasureBody.of(row)
    if row.envelope is None:
        return ShownErasure(body, found.name, None, None, None)
    key_id, said = _read(row, row.envelope, keys)
    if isinstance(said, str):
        return ShownErasure(body, found.name, key_id, said, None)
    body = ErasureBody.model_validate({**body.model_dump(), **{name: said[name] for name in _SAID}})
    signed_by = keys.get(key_id or "")
    return ShownErasure(
        body, found.name, key_id, None, None if signed_by is None else signed_by.compromised_at
    )


def _read(
    row: Erasure, value: Mapping[str, Any], keys: Mapping[str, SigningKey]
) -> tuple[str | None, dict[str, Any] | str]:
    """The key that a receipt names, and what it says; or why it proves nothing."""
    try:
        envelope = Envelope.from_dict(value)
    except ValueError as error:
        return None, f"the receipt {error}"
    key_id, known = envelope.key_id, keys.get(envelope.key_id)
    if known is None or envelope.payload_type != ErasureReceipt.payload_type():
        return key_id, "the receipt was not signed by a key of this service"
    public = PublicKey.from_pem(known.public_key.encode())
    if public.key_id != key_id or not public.verifies(envelope.signature, envelope.message):
        return key_id, "the signature does not hold: the receipt was altered"
    said: dict[str, Any] = json.loads(envelope.payload)
    if (said["federation_id"], said["number"]) != (row.federation_id, row.number):
        return key_id, "the receipt is of another erasure"
    return key_id, said
