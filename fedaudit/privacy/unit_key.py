"""Whose client a budget counts: figures of clients who are distinguished otherwise do not compose.

The same rows can be one client's under one key and many clients' under another. A person whose six
rows lie with six made-up clients is in six of them, so that what
was spent on clients of one key says nothing about clients of another.
"""

import hashlib
from typing import Any, assert_never

from fedaudit.privacy.mechanisms.base import PrivacyUnit
from fedaudit.spec.canonical import canonical_json
from fedaudit.spec.experiment import ExperimentSpec

MADE_UP = "made-up"
ROW = "row"
KEY, PARTITION = "client_key", "partition"
PATTERN = rf"^({KEY}=[^\x00-\x1f\x7f]{{1,200}}|{PARTITION}=[0-9a-f]{{16}}|{ROW}|{MADE_UP})$"
"""What is a key."""

_PARTITION_DIGITS = 16
# Neither where the file is nor what becomes of the numbers in it, or what its codes are called,
# decides who gets a row.
_NOT_DEALING = {"path", "id", "scale", "standardise", "validation_fraction", "labels", "join"}


def unit_key(spec: ExperimentSpec, unit: PrivacyUnit) -> str:
    """How the units of a guarantee are distinguished, in at most 255 characters; equal only where
    they are the same.

    `client_key=COLUMN` for clients whom the data name; `partition=HASH` for clients to whom rows
    are dealt, the hash being over all that decides who gets which, with the seed; `row` for
    records; `made-up` where the data are.
    """
    match unit:
        case "record":
            return ROW
        case "client":
            pass
        case _:
            assert_never(unit)
    traits = spec.federation.traits
    if traits.made_up:
        return MADE_UP
    if traits.client_key is not None:
        return f"{KEY}={traits.client_key}"
    dealing: dict[str, Any] = {
        "federation": spec.federation.model_dump(mode="json", exclude=_NOT_DEALING),
        "classifies": spec.classifies,
        "seed": spec.seed,
    }
    digest = hashlib.sha256(canonical_json(dealing)).hexdigest()
    return f"{PARTITION}={digest[:_PARTITION_DIGITS]}"


def unit_key_words(key: str) -> str:
    """The units of a key for people: `clients by zip`. Raises ValueError for no key."""
    kind, _, name = key.partition("=")
    words = {
        KEY: f"clients by {name}",
        PARTITION: f"clients that partition {name} made up",
        ROW: "records",
        MADE_UP: "clients of made-up data",
    }
    if kind not in words:
        raise ValueError(f"{key!r} is no key of units")
    return words[kind]
