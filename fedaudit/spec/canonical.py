"""Canonical JSON (RFC 8785), which is hashed and signed: made by the library `rfc8785`, or several
times as fast where a value has nothing unusual."""

import hashlib
import json
from typing import Any

import orjson
import rfc8785

_SAFE = 2**53
_LAST_OF_TWO_BYTES = "\uffff"
"""Up to here names have one order by code points and by UTF-16."""


def canonical_json(value: Any) -> bytes:
    """The bytes of a JSON-able value. Raises rfc8785.CanonicalizationError."""
    try:
        found = orjson.dumps(_plain(value), option=orjson.OPT_SORT_KEYS)
        if found.isascii() or max(found.decode()) <= _LAST_OF_TWO_BYTES:
            return found
    except (TypeError, ValueError):
        pass
    slowly: bytes = rfc8785.dumps(value)
    return slowly


def canonical_hash(value: Any) -> str | None:
    """SHA-256, in hexadecimal, of the canonical JSON (RFC 8785); None where there is no canonical
    form."""
    try:
        return hashlib.sha256(canonical_json(value)).hexdigest()
    except (ValueError, RecursionError):
        return None


def read_canonical(content: bytes) -> Any:
    """The value of canonical JSON. Raises ValueError for text in any other form.

    Its numbers are doubles, and large ones are written like integers: these are floats again.
    """
    try:
        value = json.loads(
            content, parse_int=lambda text: (int if abs(float(text)) < _SAFE else float)(text)
        )
        if canonical_json(value) == content:
            return value
    except (ValueError, RecursionError):
        pass
    raise ValueError("is no canonical JSON (RFC 8785)")


def _plain(value: Any) -> Any:
    """The value with numbers in their written form. Raises TypeError or ValueError for values that
    only the library can write or refuse."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return value
    if kind is float:
        return orjson.Fragment(_number(value))
    if kind is dict:
        return {name: _plain(one) for name, one in value.items()}
    if kind is list or kind is tuple:
        return [_plain(one) for one in value]
    if kind is int and -_SAFE < value < _SAFE:
        return value
    raise TypeError(kind)


def _number(value: float) -> str:
    text = repr(value)
    if text.endswith(".0"):
        return text[:-2] if value else "0"
    if "e" in text or "n" in text:  # an exponent, or no number
        written: bytes = rfc8785.dumps(value)
        return written.decode()
    return text
