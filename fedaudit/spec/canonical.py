"""The one form of a spec that is hashed and stored: every default explicit, RFC 8785 JSON.

A field that specs gained later is left out where it is the default (`exclude_if` of the field), so
that a spec that does not name it keeps the hash that it had before.
"""

import hashlib

import rfc8785

from fedaudit.spec.experiment import ExperimentSpec


def canonical_bytes(spec: ExperimentSpec) -> bytes:
    """Canonical JSON of the spec, every default explicit that specs had from the start."""
    encoded: bytes = rfc8785.dumps(spec.model_dump(mode="json"))
    return encoded


def spec_hash(spec: ExperimentSpec) -> str:
    """SHA-256 of the canonical form, in hexadecimal. Two specs that mean the same share it."""
    return hashlib.sha256(canonical_bytes(spec)).hexdigest()
