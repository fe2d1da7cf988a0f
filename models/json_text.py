"""JSON columns go through orjson: numpy arrays are accepted and NaN becomes null.

The standard library writes NaN, which is not JSON and which SQLite cannot read back.
"""

from typing import Any

import numpy as np
import orjson


def to_json(value: Any) -> str:
    """Text rather than bytes: SQLite would store bytes as a BLOB, which its `->>` refuses."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def from_json(text: str | bytes) -> Any:
    """The value that `to_json` wrote."""
    return orjson.loads(text)


def _plain(value: object) -> Any:
    """An array in another layout than C's, which orjson hands back. Raises TypeError otherwise."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError  # orjson says of what
