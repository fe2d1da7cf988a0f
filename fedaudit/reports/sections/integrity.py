"""The section `integrity`: what binds a report to its ledger, and to who signed it."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedaudit.ledger.signatures import Envelope, Keyring, SigningKey, signature_bytes, to_base64
from fedaudit.reports.canonical_json import canonical_json
from fedaudit.reports.checks import (
    Check,
    agrees,
    check,
    numbered,
    shown,
    unchecked,
    unknown_key,
    value_at,
)
from fedaudit.reports.ledger_totals import RunEvidence
from fedaudit.reports.sections.material import ReportMaterial
from fedaudit.reports.sections.part import Part, Reasons
from fedaudit.reports.sections.section import Section


class Integrity(Part):
    """What binds the report to its ledger, and to whoever signed it."""

    ledger_hash: str
    chain_head: str
    entries: int
    signature: str | None
    """Ed25519, in base64, over the DSSE encoding of the report without this field."""
    key_id: str | None
    reasons: Reasons


PAYLOAD_TYPE = "application/vnd.fedaudit.report+json"


def report_payload(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON (RFC 8785) of the report without the field `integrity.signature`. Raises
    ValueError where the document has none."""
    integrity = document.get("integrity")
    if not isinstance(integrity, Mapping):
        raise ValueError("the report has no section `integrity`")
    unsigned = {name: value for name, value in integrity.items() if name != "signature"}
    return canonical_json({**document, "integrity": unsigned})


def sign_report(document: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """The report with its signature. Raises ValueError where the report was not assembled for this
    key, whose id is part of the signed content."""
    integrity = {**document["integrity"]}
    if integrity["key_id"] != key.key_id:
        raise ValueError(f"the report names the key {integrity['key_id']}, not {key.key_id}")
    integrity["reasons"] = {
        name: why for name, why in integrity["reasons"].items() if name != "signature"
    }
    signed = {**document, "integrity": integrity}
    envelope = Envelope.sign(PAYLOAD_TYPE, report_payload(signed), key)
    integrity["signature"] = to_base64(envelope.signature)
    return signed


def report_envelope(document: Mapping[str, Any]) -> Envelope | None:
    """The report as a DSSE envelope; None where it is not signed. Raises ValueError where the
    signature or the key's id is malformed."""
    payload = report_payload(document)
    integrity = document["integrity"]
    signature, key_id = integrity.get("signature"), integrity.get("key_id")
    if signature is None:
        return None
    if not isinstance(signature, str) or not isinstance(key_id, str):
        raise ValueError("the report's signature or its key_id is no text")
    return Envelope(PAYLOAD_TYPE, payload, key_id, signature_bytes(signature))


def signature_check(
    report: Mapping[str, Any], keyring: Keyring, *, with_checkpoints: bool
) -> Check:
    """Checkpoints and reports are signed by the
    same process, so neither occurs without the other."""
    name = "report.signature"
    try:
        envelope = report_envelope(report)
    except (ValueError, RecursionError) as error:
        return check(name, False, good="", bad=f"the report cannot be checked: {error}")
    if (
        envelope is None
        and not with_checkpoints
        and value_at(report, "integrity", "key_id") is None
    ):
        return unchecked(name, "the report is not signed")
    if envelope is None:
        return check(name, False, good="", bad="the report was signed, and has no signature now")
    key = keyring.get(envelope.key_id)
    if key is None:
        return check(name, False, good="", bad=unknown_key("the report", envelope.key_id))
    return check(
        name,
        key.verifies(envelope.signature, envelope.message),
        good=f"the report was signed with the key {envelope.key_id}",
        bad=f"the report is not what the key {envelope.key_id} signed: it was altered",
    )


def _integrity_checks(found: RunEvidence) -> Iterator[Check]:
    report, audit = found.report, found.audit
    yield agrees(report, "integrity.ledger_hash", audit.ledger_hash)
    yield agrees(report, "integrity.chain_head", audit.head.hex())
    said = value_at(report, "integrity", "entries")
    bad = f"the report counts {shown(said)} entries, the ledger has {audit.entries}"
    if type(said) is int and said > audit.entries and audit.unchained is None:
        bad += f": {numbered(audit.entries + 1, said)} are missing"
    yield check(
        "report.entries",
        type(said) is int and said == audit.entries,
        good=f"the ledger has the {audit.entries} entries that the report counts",
        bad=bad,
    )


def _integrity(material: ReportMaterial) -> Integrity:
    """Without the signature, which `sign_report` adds."""
    missing = ("signature", "key_id") if material.key_id is None else ("signature",)
    return Integrity(
        ledger_hash=material.ledger_hash,
        chain_head=material.chain_head,
        entries=material.entries,
        signature=None,
        key_id=material.key_id,
        reasons=dict.fromkeys(missing, "the report is not signed"),
    )


UNSIGNED = (
    "The report is not signed. Its hash chain shows changed or missing entries, but not that the "
    "newest ones were cut off, unless the chain's head is kept elsewhere."
)
SIGNED = (
    "The signature shows that whoever held the key stated this, and that nothing was changed "
    "since. It does not show that what was stated is true, nor when."
)
INTEGRITY = Section[ReportMaterial, RunEvidence](
    "integrity",
    _integrity,
    _integrity_checks,
    lambda material: [UNSIGNED if material.key_id is None else SIGNED],
)
