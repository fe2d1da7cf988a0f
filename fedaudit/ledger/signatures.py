"""Ed25519 keys: private keys that sign, and public keys that check signatures."""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

ALGORITHM = "ed25519"

_PUBLIC_BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)
_PRIVATE_BLOCK = re.compile(
    rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----\n?", re.DOTALL
)
_DERIVED_BLOCK = re.compile(
    rb"-----BEGIN FEDAUDIT DERIVED SECRET-----\s+Purpose: ([!-~]+)\s+([A-Za-z0-9+/=]{44})\s+"
    rb"-----END FEDAUDIT DERIVED SECRET-----"
)


@dataclass(frozen=True)
class PublicKey:
    """A public key, by its 32 raw bytes."""

    raw: bytes

    @classmethod
    def from_pem(cls, pem: bytes) -> "PublicKey":
        """Raises ValueError where the text is not the PEM of an Ed25519 public key."""
        try:
            key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError("this is no public key in PEM") from None
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("this is a public key of another kind; Ed25519 is used here")
        return cls(key.public_bytes_raw())

    @property
    def key_id(self) -> str:
        """SHA-256 of the raw key, in hexadecimal."""
        return hashlib.sha256(self.raw).hexdigest()

    @cached_property
    def pem(self) -> str:
        """The key as PEM (SubjectPublicKeyInfo)."""
        encoded = Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )
        return encoded.decode("ascii")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature of the message was made with this key."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """A private key."""

    def __init__(
        self, private: Ed25519PrivateKey, *, derived: Mapping[bytes, bytes] | None = None
    ) -> None:
        """`derived`: secrets by purpose that an earlier key gave, and this one is to give too."""
        self._private = private
        self._derived = dict(derived or {})
        self.public = PublicKey(private.public_key().public_bytes_raw())
        self.key_id = self.public.key_id

    @classmethod
    def generate(cls) -> "SigningKey":
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> "SigningKey":
        """Raises ValueError where the text is not the unencrypted PEM of an Ed25519 private key.

        Secrets that were derived from the key before it may follow it.
        """
        found = _PRIVATE_BLOCK.search(pem)
        try:
            key = load_pem_private_key(pem if found is None else found[0], password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ValueError("this is no unencrypted private key in PEM") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError("this is a private key of another kind; Ed25519 is used here")
        derived = {
            purpose: base64.b64decode(secret) for purpose, secret in _DERIVED_BLOCK.findall(pem)
        }
        return cls(key, derived=derived)

    def derived_secret(self, purpose: bytes) -> bytes:
        """32 bytes that follow from the private key, or from the first one of those that were
        exchanged for another, and reveal nothing of it, one for each purpose."""
        if purpose in self._derived:
            return self._derived[purpose]
        return hmac.new(self._private.private_bytes_raw(), purpose, hashlib.sha256).digest()

    def sign(self, message: bytes) -> bytes:
        """The signature of a message, 64 bytes."""
        return self._private.sign(message)


def public_keys_in(pem: bytes) -> list[PublicKey]:
    """Every public key of a PEM text. Raises ValueError where it has none, or a private one."""
    if b"PRIVATE KEY" in pem:
        raise ValueError("this holds a private key; give the public one alone")
    found = [PublicKey.from_pem(block) for block in _PUBLIC_BLOCK.findall(pem)]
    if not found:
        raise ValueError("this holds no public key in PEM")
    return found


class Keyring:
    """Public keys by id: those that the verifier trusts, and those that came with the evidence."""

    def __init__(self, *, trusted: Iterable[PublicKey], carried: Iterable[PublicKey]) -> None:
        self._trusted = {key.key_id: key for key in trusted}
        self._known = {**{key.key_id: key for key in carried}, **self._trusted}

    def get(self, key_id: str) -> PublicKey | None:
        """The key with this id; None where it is unknown."""
        return self._known.get(key_id)

    def trusts(self, key_id: str) -> bool:
        """Whether the verifier trusts the key."""
        return key_id in self._trusted


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
