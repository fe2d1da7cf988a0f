"""Binds an audit-log entry to those before it. Verification computes the same in
`fedaudit.ledger.audit_log`, which shares no code with this."""

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import rfc8785

_GENESIS = b"fedaudit-audit-log-genesis-1\x00"
_LINK = b"fedaudit-audit-log-link-1\x00"


def first_link(project_id: str) -> str:
    """The link before the first entry of a project, in hexadecimal."""
    return hashlib.sha256(_GENESIS + project_id.encode()).hexdigest()


def next_link(previous: str, entry: Mapping[str, Any]) -> str:
    """The link of an entry: the one before, and the entry as canonical JSON (RFC 8785)."""
    return hashlib.sha256(_LINK + bytes.fromhex(previous) + rfc8785.dumps(dict(entry))).hexdigest()


def written_time(time: datetime) -> str:
    """A time as it is hashed and shown: UTC, to the microsecond."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
