"""Identifiers of rows: UUIDv7 text, so that sorting by id is sorting by the time of creation."""

import uuid_utils


def new_id() -> str:
    """A fresh UUIDv7 in its 36-character form; ids made by one process increase."""
    return str(uuid_utils.uuid7())
