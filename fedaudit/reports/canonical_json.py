"""The canonical JSON (RFC 8785) of a report, which is hashed and signed.

The package rfc8785 is the reference, and what it writes is written here: by orjson, many times as
fast, where both write the same, and otherwise by the package itself.
"""

from types import NoneType
from typing import Any

import orjson
import rfc8785

_AS_THEY_ARE = frozenset((str, bool, int, NoneType))
_WHOLE = 2.0**53
"""Numbers without a fraction and below this are written as integers."""
_SMALL = 1e-4
"""From here up to there no number has an exponent."""


class _UnusualError(Exception):
    """A value that is left to the package."""


def canonical_json(value: Any) -> bytes:
    """The bytes of a JSON-able value. Raises rfc8785.CanonicalizationError as the package does."""
    try:
        # Integers that a double cannot hold, and text that is no Unicode, are TypeErrors.
        return orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
    except (_UnusualError, TypeError):
        encoded: bytes = rfc8785.dumps(value)
        return encoded


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        size = abs(value)
        if size < _WHOLE and value == int(value):
            return int(value)
        # Neither NaN nor an infinity is between the two.
        return value if _SMALL <= size < _WHOLE else orjson.Fragment(rfc8785.dumps(value))
    if kind is dict:
        if not all(map(_is_plain_key, value)):
            raise _UnusualError  # sorted by UTF-16 there
        return {
            key: one if type(one) in _AS_THEY_ARE else _plain(one) for key, one in value.items()
        }
    if kind is list or kind is tuple:
        return [one if type(one) in _AS_THEY_ARE else _plain(one) for one in value]
    raise _UnusualError


def _is_plain_key(key: Any) -> bool:
    return type(key) is str and key.isascii()
