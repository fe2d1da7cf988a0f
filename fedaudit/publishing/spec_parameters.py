"""A spec as named parameters, as experiment trackers have them."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any


def spec_parameters(spec: Mapping[str, Any]) -> dict[str, str]:
    """Every setting by its path with dots between, as `privacy.noise_multiplier`.

    Objects are followed; lists stay one value, as compact JSON. Texts are themselves, other values
    JSON.
    """
    return dict(_flattened("", spec))


def shortened(text: str, most: int) -> str:
    """The text if it has at most so many characters; else its beginning and the SHA-256 of all."""
    if len(text) <= most:
        return text
    digest = f"... sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    return text[: most - len(digest)] + digest


def _flattened(prefix: str, part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in part.items():
        path = f"{prefix}.{name}" if prefix else str(name)
        if isinstance(value, Mapping) and value:
            yield from _flattened(path, value)
        elif isinstance(value, str):
            yield path, value
        else:
            yield path, json.dumps(value, separators=(",", ":"), ensure_ascii=False)
