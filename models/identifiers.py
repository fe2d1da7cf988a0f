"""Identifiers of rows: UUIDv7 text, so that sorting by id is sorting by the time of creation."""

import re

import uuid_utils

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_id() -> str:
    """A fresh UUIDv7 in its 36-character form; ids made by one process increase."""
    return str(uuid_utils.uuid7())


def is_id(text: str) -> bool:
    """Whether a text has the form of an id; only such a text is looked up."""
    return _ID.fullmatch(text) is not None
