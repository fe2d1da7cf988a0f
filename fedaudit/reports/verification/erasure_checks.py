"""Whether a ledger without its clients' names is the one that the service stated it to be."""

from collections.abc import Iterator
from dataclasses import dataclass

from fedaudit.ledger.audit import LedgerAudit
from fedaudit.ledger.signatures import Envelope, Keyring
from fedaudit.ledger.statements import ErasedNames
from fedaudit.reports.document.checks import Check, check, unknown_key


@dataclass(frozen=True)
class ReadErasure:
    """The statement that stands for the names, or what is wrong with it."""

    statement: ErasedNames | None
    envelope: Envelope | None
    fault: str = ""

    @property
    def signers(self) -> list[str | None]:
        """The key that the result depends on; None for a statement that cannot be read."""
        return [None if self.envelope is None else self.envelope.key_id]


def read_erasure(value: object) -> ReadErasure | None:
    """The statement in an envelope, whose signature is checked later; None where there is none."""
    if value is None:
        return None
    try:
        envelope = Envelope.from_dict(value)
        return ReadErasure(ErasedNames.of(envelope), envelope)
    except ValueError as error:
        return ReadErasure(None, None, f"the statement on the erased names {error}")


def erasure_checks(found: ReadErasure, audit: LedgerAudit, keyring: Keyring) -> Iterator[Check]:
    """The checks, in the order in which they are reported; they stand for that of the digests."""
    statement, envelope = found.statement, found.envelope
    if statement is None or envelope is None:
        yield check("erasure.signature", False, good="", bad=found.fault)
        return
    yield _signature(envelope, keyring)
    stated = (statement.entries, statement.chain_head, statement.ledger_hash)
    same = (
        stated == (audit.entries, audit.head.hex(), audit.ledger_hash)
        and statement.experiment_id == audit.experiment_id
        and statement.erased_hash == audit.erased_hash
    )
    yield check(
        "erasure.ledger",
        same and not audit.altered.count,
        good=f"the clients' names were erased on {statement.erased_at}; the entries are those "
        "that they were then",
        bad="the entries are not those of the ledger whose names were erased: some were altered, "
        "added or removed since",
    )
    yield check(
        "erasure.digests",
        statement.agreed,
        good="every entry had its digest when the names were still there, as was signed then",
        bad="the ledger did not agree with its digests when the names were erased",
    )


def _signature(envelope: Envelope, keyring: Keyring) -> Check:
    what, key = "the statement on the erased names", keyring.get(envelope.key_id)
    return check(
        "erasure.signature",
        key is not None and key.verifies(envelope.signature, envelope.message),
        good=f"{what} has a right signature",
        bad=unknown_key(what, envelope.key_id)
        if key is None
        else f"{what} has a wrong signature: it was altered",
    )
