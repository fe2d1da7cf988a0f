"""Signed statements: the Dead Simple Signing Envelope (github.com/secure-systems-lab/dsse), v1.

The signature covers the *pre-authentication encoding* of type and payload, so that the signature of
one kind of statement is not valid for another, and nothing is parsed before it is checked.
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from fedaudit.ledger.ed25519 import SigningKey

_FIELDS = {"payload", "payloadType", "signatures"}
_SIGNATURE_BYTES = 64


@dataclass(frozen=True)
class Envelope:
    """A payload of a type with one signature."""

    payload_type: str
    payload: bytes
    key_id: str
    signature: bytes

    @classmethod
    def sign(cls, payload_type: str, payload: bytes, key: SigningKey) -> "Envelope":
        """A new envelope."""
        return cls(payload_type, payload, key.key_id, key.sign(pae(payload_type, payload)))

    @classmethod
    def from_dict(cls, value: Any) -> "Envelope":
        """The inverse of `as_dict`. Raises ValueError where the value is not such an envelope."""
        if not isinstance(value, dict) or set(value) != _FIELDS:
            raise ValueError("is no DSSE envelope")
        signatures = value["signatures"]
        if not isinstance(signatures, list) or len(signatures) != 1:
            raise ValueError("must have one signature")
        [made] = signatures
        if not isinstance(made, dict) or set(made) != {"keyid", "sig"}:
            raise ValueError("has a signature without keyid and sig")
        texts = (value["payloadType"], value["payload"], made["keyid"], made["sig"])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("must consist of texts")
        return cls(texts[0], from_base64(texts[1]), texts[2], signature_bytes(texts[3]))

    def as_dict(self) -> dict[str, Any]:
        """The envelope's JSON."""
        return {
            "payloadType": self.payload_type,
            "payload": to_base64(self.payload),
            "signatures": [{"keyid": self.key_id, "sig": to_base64(self.signature)}],
        }

    @property
    def message(self) -> bytes:
        """What was signed."""
        return pae(self.payload_type, self.payload)


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: lengths in decimal, separated by spaces."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def to_base64(value: bytes) -> str:
    """Standard base64 with padding."""
    return base64.b64encode(value).decode("ascii")


def from_base64(text: str) -> bytes:
    """Raises ValueError unless the text is exactly what `to_base64` returns."""
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is no base64") from None
    if to_base64(value) != text:
        raise ValueError("is base64 with stray bits")
    return value


def signature_bytes(text: str) -> bytes:
    """A signature in base64. Raises ValueError where it is not 64 bytes."""
    value = from_base64(text)
    if len(value) != _SIGNATURE_BYTES:
        raise ValueError(f"is a signature of {len(value)} bytes instead of {_SIGNATURE_BYTES}")
    return value
