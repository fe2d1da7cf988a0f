"""Sign-offs: signed statements of people about one report, each naming the one before it.

A report cannot be changed, so a sign-off is bound to it by its hash. One that was altered, left out
of the middle or taken from another report no longer fits; the newest ones can be left out unseen.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import rfc8785

from fedaudit.ledger.ed25519 import SigningKey
from fedaudit.ledger.envelope import Envelope

PAYLOAD_TYPE = "application/vnd.fedaudit.sign-off+json"
VERSION = 1

Decision = Literal["approved", "rejected", "needs-changes"]
Concern = Literal[
    "model-decides-nothing",
    "model-not-shown-useful",
    "gates-failed",
    "gates-lack-evidence",
    "no-guarantee",
    "guarantee-not-in-force",
    "guarantee-bounds-nothing",
    "guarantee-not-proven",
    "attack-raised-alarm",
]
"""What speaks against relying on a report; a sign-off in spite of it has a note."""


@dataclass(frozen=True, kw_only=True)
class SignOff:
    """What one person stated of one report. Hashes are in hexadecimal."""

    experiment_id: str
    number: int
    """From 1, within the report."""
    report_hash: str
    """Of the whole document, as it is stored."""
    decision: Decision
    note: str
    role: str | None
    """In what capacity, by the signer's own words."""
    concerns: tuple[Concern, ...]
    """What the report had against it."""
    person: str
    """As the key's administrator named them."""
    key_id: str
    """Of the API key that was used."""
    key_name: str
    by_submitter: bool | None
    """Whether the same key or name submitted the experiment; None where no name was recorded."""
    signed_off_at: str
    """By the service's clock, in UTC."""

    def fields(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "concerns": list(self.concerns)}


@dataclass(frozen=True)
class ChainedSignOff:
    """A sign-off in its place: `previous` is the hash of the one before, or of the report."""

    sign_off: SignOff
    previous: str

    def sign(self, key: SigningKey) -> Envelope:
        """Both in an envelope: canonical JSON (RFC 8785), signed by the service."""
        fields = {"sign_off_version": VERSION, "previous": self.previous, **self.sign_off.fields()}
        return Envelope.sign(PAYLOAD_TYPE, rfc8785.dumps(fields), key)

    @classmethod
    def of(cls, envelope: Envelope) -> "ChainedSignOff":
        """The content of an envelope; the signature is not checked here.

        Raises ValueError where it does not hold a sign-off of this version.
        """
        if envelope.payload_type != PAYLOAD_TYPE:
            raise ValueError(f"has the payload type {envelope.payload_type[:80]!r}")
        try:
            value = json.loads(envelope.payload)
        except (ValueError, RecursionError):
            raise ValueError("has a payload that is no JSON") from None
        if not isinstance(value, dict) or value.pop("sign_off_version", None) != VERSION:
            raise ValueError(f"is no sign-off of version {VERSION}")
        previous = value.pop("previous", None)
        return cls(sign_off_of(value), _text(previous))


def sign_off_of(value: Any) -> SignOff:
    """The inverse of `SignOff.fields`. Raises ValueError for a value of another form."""
    if not isinstance(value, dict) or set(value) != set(SignOff.__dataclass_fields__):
        raise ValueError("lacks a field of a sign-off, or has another one")
    number, concerns, role = value["number"], value["concerns"], value["role"]
    known = (
        (type(number) is int and number >= 1)
        and value["decision"] in get_args(Decision)
        and isinstance(concerns, list)
        and all(one in get_args(Concern) for one in concerns)
        and value["by_submitter"] in (None, True, False)
    )
    if not known:
        raise ValueError("has a field of a sign-off with an unknown value")
    texts = SignOff.__dataclass_fields__.keys() - {"number", "concerns", "role", "by_submitter"}
    for name in texts:
        _text(value[name])
    if role is not None:
        _text(role)
    return SignOff(**{**value, "concerns": tuple(concerns)})


def link_of(envelope: Envelope) -> str:
    """What the sign-off after this one names as its `previous`."""
    return hashlib.sha256(envelope.payload).hexdigest()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("has a field of a sign-off that is no text")
    return value
