"""Ed25519 keys: private keys that sign, and public keys that check signatures."""

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

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

        Behind it may stand the secrets that were derived from the key before it.
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
        exchanged for another, and tell nothing of it, one for each purpose."""
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
