"""What the service states and signs, with which keys: canonical JSON (RFC 8785) in an envelope.

A *checkpoint* states how many entries a ledger had and the head of its chain: a hash chain does not
show that its newest entries were deleted, a checkpoint that counts them does. A *sign-off* is what
a person stated of one report, bound to it by its hash; each names the one before it, so only the
newest can be removed unnoticed. An *erased-names* statement replaces the names of a ledger's
clients (`fedaudit.ledger.audit.ErasingLedger`). An *erasure receipt* states what an erasure
removed, what remains and why.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from pydantic import Field, TypeAdapter, ValidationError

from fedaudit.spec.canonical import canonical_json, read_canonical

ALGORITHM = "ed25519"
CLAIMS_ALGORITHM = "ecdsa-p256-sha256"
"""Algorithm of claims, which other verifiers read: few of them know Ed25519."""

_PUBLIC_BLOCK = re.compile(rb"-----BEGIN PUBLIC KEY-----.*?-----END PUBLIC KEY-----", re.DOTALL)
_PRIVATE_BLOCK = re.compile(
    rb"-----BEGIN PRIVATE KEY-----.*?-----END PRIVATE KEY-----\n?", re.DOTALL
)
_DERIVED_BLOCK = re.compile(
    rb"-----BEGIN FEDAUDIT DERIVED SECRET-----\s+Purpose: ([!-~]+)\s+([A-Za-z0-9+/=]{44})\s+"
    rb"-----END FEDAUDIT DERIVED SECRET-----"
)
_DERIVED_BEGINS = b"-----BEGIN FEDAUDIT DERIVED SECRET-----"
_DERIVED_PEM = b"""\
-----BEGIN FEDAUDIT DERIVED SECRET-----
Purpose: %b

%b
-----END FEDAUDIT DERIVED SECRET-----
"""


@dataclass(frozen=True)
class PublicKey:
    """A public key: the 32 raw bytes of Ed25519, or the PEM of ECDSA over P-256."""

    raw: bytes
    algorithm: str = ALGORITHM

    @classmethod
    def from_pem(cls, pem: bytes) -> "PublicKey":
        """Raises ValueError where the text is not the PEM of a public key of these kinds."""
        try:
            key = load_pem_public_key(pem)
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError("this is no public key in PEM") from None
        if isinstance(key, Ed25519PublicKey):
            return cls(key.public_bytes_raw())
        if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
            encoded = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            return cls(encoded, CLAIMS_ALGORITHM)
        raise ValueError(
            "this is a public key of another kind; Ed25519, and P-256 for claims, are used here"
        )

    @property
    def key_id(self) -> str:
        """SHA-256 of `raw`, in hexadecimal; model-signing computes it of P-256 in the same way."""
        return hashlib.sha256(self.raw).hexdigest()

    @cached_property
    def pem(self) -> str:
        """The key as PEM (SubjectPublicKeyInfo)."""
        encoded = self.raw
        if self.algorithm == ALGORITHM:
            key = Ed25519PublicKey.from_public_bytes(self.raw)
            encoded = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return encoded.decode("ascii")

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether the signature of the message was made with this key."""
        try:
            if self.algorithm == ALGORITHM:
                Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
            else:
                key = load_pem_public_key(self.raw)
                assert isinstance(key, ec.EllipticCurvePublicKey)
                key.verify(signature, message, ec.ECDSA(SHA256()))
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
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> "SigningKey":
        """Raises ValueError where the text is not the unencrypted PEM of an Ed25519 private key, or
        is damaged.

        Secrets that were derived from the key before it may be beside it.
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
        whole = all(len(secret) == hashlib.sha256().digest_size for secret in derived.values())
        begun = b"" if found is None else pem[found.end() :].strip()
        cut_off = begun != b"" and _DERIVED_BEGINS.startswith(begun)
        if not whole or cut_off or len(derived) != pem.count(_DERIVED_BEGINS):
            # Another secret would round counts anew, and the mean of both discloses them.
            raise ValueError("a secret that an earlier key gave is damaged")
        return cls(key, derived=derived)

    def derived_secret(self, purpose: bytes) -> bytes:
        """32 bytes for each purpose, derived from the private key, or from the first of the keys
        that were exchanged, without revealing anything of it."""
        if purpose in self._derived:
            return self._derived[purpose]
        return hmac.new(self._private.private_bytes_raw(), purpose, hashlib.sha256).digest()

    def pem(self) -> bytes:
        """The private key, not encrypted, as `from_pem` reads it."""
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def derived_pem(self, purpose: bytes) -> bytes:
        """The secret of a purpose as a block beside a later key, which then gives it."""
        secret = base64.b64encode(self.derived_secret(purpose))
        return _DERIVED_PEM % (purpose, secret)

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

    def known(self) -> Iterable[PublicKey]:
        """Every key."""
        return self._known.values()

    def trusts(self, key_id: str) -> bool:
        return key_id in self._trusted


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
        return cls(payload_type, payload, key.key_id, key.sign(pae(payload_type, payload)))

    @classmethod
    def from_dict(cls, value: Any) -> "Envelope":
        """The inverse of `as_dict`. Raises ValueError where the value is not such an envelope."""
        try:
            [made] = value["signatures"]
            kind, key_id = value["payloadType"], made["keyid"]
            found = cls(kind, _from_base64(value["payload"]), key_id, signature_bytes(made["sig"]))
            same = isinstance(kind, str) and isinstance(key_id, str) and found.as_dict() == value
        except (TypeError, KeyError, ValueError):
            same = False
        if not same:
            raise ValueError(f"is no DSSE envelope with one signature of {_SIGNATURE_BYTES} bytes")
        return found

    def as_dict(self) -> dict[str, Any]:
        """The envelope's JSON."""
        return {
            "payloadType": self.payload_type,
            "payload": to_base64(self.payload),
            "signatures": [{"keyid": self.key_id, "sig": to_base64(self.signature)}],
        }

    def content(self, payload_type: str) -> Any:
        """The JSON value of the payload. Raises ValueError where it is of another type, or no
        canonical JSON."""
        if self.payload_type != payload_type:
            raise ValueError(f"has the payload type {self.payload_type[:80]!r}")
        try:
            return read_canonical(self.payload)
        except ValueError as error:
            raise ValueError(f"has a payload that {error}") from None

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


def _from_base64(text: str) -> bytes:
    """Raises ValueError unless the text is exactly what `to_base64` returns."""
    value = base64.b64decode(text)
    if to_base64(value) != text:
        raise ValueError("is base64 in another form")
    return value


def signature_bytes(text: str) -> bytes:
    """A signature in base64. Raises ValueError where it is not 64 bytes."""
    value = _from_base64(text)
    if len(value) != _SIGNATURE_BYTES:
        raise ValueError(f"is a signature of {len(value)} bytes instead of {_SIGNATURE_BYTES}")
    return value


VERSION = 1
WORKER = "worker"
"""The witness is a worker that had the ledger in memory when it was signed: from its first entry,
or from a state that a worker had signed before."""
DATABASE = "database"
"""The witness of some entries is the database alone: anyone able to change it could decide what was
signed."""
TRAINER = "trainer"
"""The witness is a trainer elsewhere, which received the head behind each of its rounds."""

Count = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]
Decision = Literal["approved", "rejected", "needs-changes"]
Concern = Literal[
    "model-decides-nothing",
    "model-not-shown-useful",
    "model-too-good",
    "gates-failed",
    "gates-lack-evidence",
    "no-guarantee",
    "guarantee-not-in-force",
    "guarantee-bounds-nothing",
    "guarantee-not-proven",
    "attack-raised-alarm",
]
"""What speaks against relying on a report; a sign-off in spite of it has a note."""


class Statement:
    """A signed statement; its subclasses are dataclasses whose fields are what is stated."""

    NAME: ClassVar[str]
    """Its name in the payload type and in the version's field."""

    def fields(self) -> dict[str, Any]:
        """What is stated, as JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def sign(self, key: SigningKey) -> Envelope:
        """The statement in an envelope, signed by the service."""
        return self._signed(key, self.fields())

    def _signed(self, key: SigningKey, fields: Mapping[str, Any]) -> Envelope:
        payload = canonical_json({self._version_field(): VERSION, **fields})
        return Envelope.sign(self.payload_type(), payload, key)

    @classmethod
    def payload_type(cls) -> str:
        """Payload type of its envelopes."""
        return f"application/vnd.fedaudit.{cls.NAME}+json"

    @classmethod
    def of(cls, envelope: Envelope) -> Self:
        """The content of an envelope; the signature is not checked here.

        Raises ValueError where it does not hold such a statement of this version.
        """
        return cls.of_fields(cls._content(envelope))

    @classmethod
    def _content(cls, envelope: Envelope) -> dict[str, Any]:
        value = envelope.content(cls.payload_type())
        if not isinstance(value, dict) or value.pop(cls._version_field(), None) != VERSION:
            raise ValueError(f"is no {cls._noun()} of version {VERSION}")
        return value

    @classmethod
    def of_fields(cls, value: Any) -> Self:
        """The inverse of `fields`. Raises ValueError for a value of another form."""
        if not isinstance(value, dict) or set(value) != set(cls.__dataclass_fields__):  # type: ignore[attr-defined]
            raise ValueError(f"lacks a field of a {cls._noun()}, or has another one")
        try:
            found: Self = _adapter(cast(Any, cls)).validate_json(json.dumps(value), strict=True)
        except RecursionError:
            raise ValueError(f"is no {cls._noun()}: its fields are nested too deeply") from None
        except ValidationError as error:
            field = ".".join(map(str, error.errors()[0]["loc"]))
            raise ValueError(f"is no {cls._noun()}: {field} has another type or value") from None
        return found

    @classmethod
    def _noun(cls) -> str:
        return cls.NAME

    @classmethod
    def _version_field(cls) -> str:
        return f"{cls.NAME.replace('-', '_')}_version"


@cache
def _adapter(statement: type[Statement]) -> TypeAdapter[Any]:
    return TypeAdapter(statement)


@dataclass(frozen=True)
class Checkpoint(Statement):
    """Where the ledger of one experiment stood. Hashes are in hexadecimal."""

    NAME = "checkpoint"

    experiment_id: str
    status: Annotated[str, Field(pattern="^(running|succeeded|failed|cancelled)$")]
    entries: Count
    """How many ledger entries there were."""
    last_round: Count
    """The round of the newest entry; 0 without any."""
    chain_head: str
    """The link of the newest entry, or the experiment's genesis."""
    spec_hash: str
    subjects_hash: str
    """See `subjects_hash`."""
    witness: Annotated[str, Field(pattern="^(worker|database|trainer)$")] | None = WORKER
    """Which witness it was signed from; None in older checkpoints."""
    state_hash: str | None = None
    """Hash of what a declared ledger's figures were made from (`fedaudit.ledger.declared`); None in
    older checkpoints and for runs."""
    salt_hash: str | None = None
    """Hash of the salt that keys the entries' digests; None where they have no key."""

    def fields(self) -> dict[str, Any]:
        """What is stated; a field that is None is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def of_fields(cls, value: Any) -> Self:
        """The inverse of `fields`. Raises ValueError for a value of another form."""
        if None in value.values():
            raise ValueError("is no checkpoint: a field is empty")
        absent = {"witness": None, "state_hash": None, "salt_hash": None}
        return super().of_fields({**absent, **value})


def subjects_hash(names: Sequence[str]) -> str:
    """SHA-256, in hexadecimal, of the subjects' names by index, as canonical JSON (RFC 8785).

    Raises ValueError for a name that has no UTF-8.
    """
    # For a list of texts this is the canonical form, and a hundred times faster.
    text = json.dumps(list(names), ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def growing_hashes(names: Sequence[str]) -> Iterator[str]:
    """`subjects_hash` of the first name, of the first two, and so on.

    Raises ValueError for a name that has no UTF-8.
    """
    total, between = hashlib.sha256(b"["), b""
    for name in names:
        total.update(between + json.dumps(name, ensure_ascii=False).encode("utf-8"))
        between = b","
        closed = total.copy()
        closed.update(b"]")
        yield closed.hexdigest()


class Chained(Statement):
    """A statement about a report, which names the one of its kind before it."""

    CALLED: ClassVar[str]
    """It, with a place for its number."""
    number: Number
    report_hash: str

    @property
    def called(self) -> str:
        """It in words, with its number."""
        return self.CALLED.format(self.number)

    def sign_after(self, before: Envelope | None, key: SigningKey) -> Envelope:
        """The statement in its place, signed by the service. `before`: None for the first one,
        which follows the report."""
        previous = self.report_hash if before is None else link_of(before)
        return self._signed(key, {"previous": previous, **self.fields()})

    @classmethod
    def _content(cls, envelope: Envelope) -> dict[str, Any]:
        value = super()._content(envelope)
        if not isinstance(value.pop("previous", None), str):
            raise ValueError(f"is no {cls._noun()}: previous has another type or value")
        return value

    @classmethod
    def _noun(cls) -> str:
        return cls.CALLED.replace(" {}", "")


def link_of(envelope: Envelope) -> str:
    """What the statement after this one names as its `previous`."""
    return hashlib.sha256(envelope.payload).hexdigest()


def previous_of(envelope: Envelope) -> str:
    """What a chained statement, which was read, names as the one before it."""
    found: str = json.loads(envelope.payload)["previous"]
    return found


@dataclass(frozen=True, kw_only=True)
class SignOff(Chained):
    """What one person stated of one report. Hashes are in hexadecimal."""

    NAME = "sign-off"
    CALLED = "sign-off {}"

    experiment_id: str
    number: Number
    """Within the report."""
    report_hash: str
    """Hash of the whole stored document."""
    decision: Decision
    note: str
    role: str | None
    """In what capacity, in the signer's own words."""
    concerns: tuple[Concern, ...]
    """What the report had against it."""
    person: str
    """The name that the key's administrator gave them."""
    key_id: str
    """Id of the API key that was used."""
    key_name: str
    by_submitter: bool | None
    """Whether the same key or name submitted the experiment; None where no name was recorded."""
    signed_off_at: str
    """By the service's clock, in UTC."""


@dataclass(frozen=True, kw_only=True)
class ErasedNames(Statement):
    """What a ledger was when its clients' names were erased. Hashes are in hexadecimal."""

    NAME = "erased-names"

    experiment_id: str
    entries: int
    chain_head: str
    ledger_hash: str
    """Both as recomputed with the names."""
    subjects_hash: str
    """Hash of the names before the erasure, the same as in the checkpoints."""
    erased_hash: str
    """The ledger hash of the same entries under the made-up names."""
    agreed: bool
    """Whether every entry was then as its digest, its link and its counts said."""
    erased_at: str
    """By the service's clock, in UTC."""


_REMAINS = {
    "ledgers": "how often each client, known by a made-up name, took part and what it cost: what "
    "was spent on these people cannot be taken back, and their signed ledgers prove it",
    "budgets": "totals, and what is reserved and spent: all who register the same content again "
    "find them",
    "reports": "signed reports and sign-offs, with figures of groups that are large enough to be "
    "shown, and the specs that they are about: names of columns, groups and labels",
    "content-hash": "the SHA-256 of the data, by which the same content is recognised",
    "disclosure-memory": "which rows, by their number, reports have disclosed something about "
    "together, and how profiles cut them: so that no later report gives away what these kept back",
    "settings": "who set which budget and disclosure policy, the names that people gave to the "
    "federation and its experiments, and the audit log",
    "source-file": "the file of the data, where it is below the sources folder: it is not the "
    "service's to remove",
    "other-projects": "what other projects of this service hold of the same content: their files, "
    "names, models and reports are theirs to erase, and their audit logs say that this one did",
    "elsewhere": "backups, deleted rows of a Postgres server until it vacuums and recycles its "
    "log, and whatever left the service before: bundles, reports, models and exported tables",
}


@dataclass(frozen=True, kw_only=True)
class ErasureReceipt(Statement):
    """One erasure that is done."""

    NAME = "erasure-receipt"

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


def what_remains(*, uploaded: bool, others: int) -> dict[str, str]:
    """What an erasure leaves, by name, with its reason."""
    absent = {"source-file"} if uploaded else set()
    absent |= set() if others else {"other-projects"}
    return {name: why for name, why in _REMAINS.items() if name not in absent}
