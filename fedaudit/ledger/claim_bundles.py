"""Claims in a form that other verifiers read: an in-toto Statement v1 in an envelope (DSSE), in a
Sigstore bundle v0.3, signed with ECDSA over P-256 and without a transparency log.

The private key is derived from the service's signing key: it is made, kept, exchanged and lost with
that key. A signed report names its public half, so anyone who trusts the report's key can trust it.
"""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import ValidationError
from sigstore_models.bundle.v1 import Bundle, VerificationMaterial
from sigstore_models.common.v1 import PublicKeyIdentifier
from sigstore_models.intoto import Envelope as BundledEnvelope
from sigstore_models.intoto import Signature

from fedaudit.ledger.statements import CLAIMS_ALGORITHM, Envelope, PublicKey, SigningKey, pae
from fedaudit.spec.canonical import canonical_json

STATEMENT = "https://in-toto.io/Statement/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
_MEDIA_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_PURPOSES = (b"fedaudit-claims-key-1-a", b"fedaudit-claims-key-1-b")
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the curve P-256."""


class ClaimsKey:
    """The private key that signs claims."""

    def __init__(self, key: SigningKey) -> None:
        """`key`: the service's, from which it follows."""
        # Twice the bits of the order leave no bias (FIPS 186-5, A.2.1).
        secret = int.from_bytes(b"".join(map(key.derived_secret, _PURPOSES)), "big")
        self._private = ec.derive_private_key(secret % (_ORDER - 1) + 1, ec.SECP256R1())
        encoded = self._private.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        self.public = PublicKey(encoded, CLAIMS_ALGORITHM)

    def sign(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """The statement in a bundle, as JSON."""
        payload = canonical_json(dict(statement))
        signature = self._private.sign(pae(PAYLOAD_TYPE, payload), ec.ECDSA(SHA256()))
        signed = Signature(sig=b64encode(signature), keyid=self.public.key_id)
        hint = PublicKeyIdentifier(hint=self.public.key_id)
        return Bundle(
            media_type=_MEDIA_TYPE,
            verification_material=VerificationMaterial(public_key=hint, tlog_entries=[]),
            dsse_envelope=BundledEnvelope(
                payload=b64encode(payload), payload_type=PAYLOAD_TYPE, signatures=[signed]
            ),
        ).to_dict()


def claim_envelope(value: Any) -> Envelope:
    """The envelope in a bundle; the signature is not checked here. Raises ValueError where it is
    not a bundle of this form."""
    try:
        bundle = Bundle.from_json(json.dumps(value))
    except (ValidationError, RecursionError):
        raise ValueError("is no Sigstore bundle v0.3") from None
    named, inner = bundle.verification_material.public_key, bundle.dsse_envelope
    if bundle.to_dict() != value or bundle.media_type != _MEDIA_TYPE:
        raise ValueError("is no Sigstore bundle v0.3 in its shortest form")
    if named is None or inner is None or len(inner.signatures) != 1:
        raise ValueError("must have one signature over an envelope, and name its public key")
    [signed] = inner.signatures
    if signed.keyid is None or signed.keyid != named.hint:
        raise ValueError("names two keys")
    return Envelope(inner.payload_type, inner.payload, signed.keyid, signed.sig)


def claim_of(envelope: Envelope) -> dict[str, Any]:
    """The statement in an envelope. Raises ValueError where it holds none."""
    statement = envelope.content(PAYLOAD_TYPE)
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT:
        raise ValueError("is no in-toto Statement v1")
    return statement
