"""The one form of a spec that is hashed and stored: every default explicit, RFC 8785 JSON.

A field that specs gained later is left out where it is the default (`exclude_if` of the field), so
that a spec that does not name it keeps the hash that it had before.
"""

import hashlib
from typing import Any

import rfc8785

from fedaudit.spec.experiment import ExperimentSpec


def canonical_bytes(spec: ExperimentSpec) -> bytes:
    """Canonical JSON of the spec, every default explicit that specs had from the start."""
    return _encoded(spec.model_dump(mode="json"))


def spec_hash(spec: ExperimentSpec) -> str:
    """SHA-256 of the canonical form, in hexadecimal. Two specs that mean the same share it."""
    return document_hash(spec.model_dump(mode="json"))


def document_hash(document: dict[str, Any]) -> str:
    """The same of a spec's JSON document, every default explicit."""
    return hashlib.sha256(_encoded(document)).hexdigest()


def _encoded(document: dict[str, Any]) -> bytes:
    encoded: bytes = rfc8785.dumps(document)
    return encoded
