"""JSON columns go through orjson: numpy arrays are accepted and NaN becomes null.

The standard library writes NaN, which is not JSON and which SQLite cannot read back.
"""

from typing import Any

import orjson


def to_json(value: Any) -> str:
    """Text rather than bytes: SQLite would store bytes as a BLOB, which its `->>` refuses."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def from_json(text: str | bytes) -> Any:
    """The value that `to_json` wrote."""
    return orjson.loads(text)
