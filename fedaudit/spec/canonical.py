"""Canonical JSON (RFC 8785), which is hashed and signed: by the library `rfc8785`, and several
times as fast where a value has nothing unusual."""

from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

import rfc8785

_SAFE = 2**53
_LAST_OF_TWO_BYTES = "\uffff"
"""Up to here names have one order by code points and by UTF-16."""


def canonical_json(value: Any) -> bytes:
    """The bytes of a JSON-able value. Raises rfc8785.CanonicalizationError."""
    parts: list[str] = []
    try:
        _write(value, parts.append)
        text = "".join(parts)
        if text.isascii() or max(text) <= _LAST_OF_TWO_BYTES:
            return text.encode()
    except (TypeError, ValueError):
        pass
    slowly: bytes = rfc8785.dumps(value)
    return slowly


def _write(value: Any, put: Callable[[str], None]) -> None:
    """Raises TypeError or ValueError for what only the library knows how to write or refuse."""
    kind = type(value)
    if kind is str:
        put(encode_basestring(value))
    elif kind is float:
        put(_number(value))
    elif kind is dict:
        before = "{"
        for name in sorted(value):
            put(f"{before}{encode_basestring(name)}:")
            _write(value[name], put)
            before = ","
        put("}" if value else "{}")
    elif kind is list or kind is tuple:
        before = "["
        for one in value:
            put(before)
            _write(one, put)
            before = ","
        put("]" if value else "[]")
    elif value is None:
        put("null")
    elif kind is bool:
        put("true" if value else "false")
    elif kind is int and -_SAFE < value < _SAFE:
        put(str(value))
    else:
        raise TypeError(kind)


def _number(value: float) -> str:
    text = repr(value)
    if text.endswith(".0"):
        return text[:-2] if value else "0"
    if "e" in text or "n" in text:  # an exponent, or no number
        written: bytes = rfc8785.dumps(value)
        return written.decode()
    return text
