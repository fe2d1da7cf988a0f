"""Whether the document of a spec is one that was stored, and not one that a person wrote."""

from collections.abc import Mapping
from typing import Any

_ALWAYS_STORED = {
    "spec_version",
    "name",
    "seed",
    "tags",
    "federation",
    "model",
    "training",
    "privacy",
    "fairness",
    "attacks",
    "gates",
    "device",
}
"""What every stored spec has, and none that a person wrote: every default written out."""


def is_stored(value: Mapping[str, Any]) -> bool:
    """Whether every field is written out that specs had from the start.

    A field that came later is then missing because the spec is older, or because it has the value
    that it is not stored with: it must not be filled with anything else.
    """
    return value.keys() >= _ALWAYS_STORED
