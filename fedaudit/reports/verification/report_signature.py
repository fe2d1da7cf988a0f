"""Sign reports: which part of a report is signed, and where the signature is stored in it."""

from collections.abc import Mapping
from typing import Any

from fedaudit.ledger.signatures import Envelope, SigningKey, signature_bytes, to_base64
from fedaudit.reports.canonical_json import canonical_json

PAYLOAD_TYPE = "application/vnd.fedaudit.report+json"


def report_payload(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON (RFC 8785) of the report without the field `integrity.signature`.

    Raises ValueError where the document has none.
    """
    integrity = document.get("integrity")
    if not isinstance(integrity, Mapping):
        raise ValueError("the report has no section `integrity`")
    unsigned = {name: value for name, value in integrity.items() if name != "signature"}
    return canonical_json({**document, "integrity": unsigned})


def sign_report(document: Mapping[str, Any], key: SigningKey) -> dict[str, Any]:
    """The report with its signature.

    Raises ValueError where the report was not assembled for this key, whose id is part of the
    signed content.
    """
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
    """The report as a DSSE envelope; None where it is not signed.

    Raises ValueError where the signature or the key's id is malformed.
    """
    payload = report_payload(document)
    integrity = document["integrity"]
    signature, key_id = integrity.get("signature"), integrity.get("key_id")
    if signature is None:
        return None
    if not isinstance(signature, str) or not isinstance(key_id, str):
        raise ValueError("the report's signature or its key_id is no text")
    return Envelope(PAYLOAD_TYPE, payload, key_id, signature_bytes(signature))
