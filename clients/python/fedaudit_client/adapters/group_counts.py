"""Counts by group that clients of Flower send among their metrics."""

from collections.abc import Iterable, MutableMapping
from typing import Any

PREFIX = "fedaudit/"
NAMES = ("true_positives", "false_positives", "true_negatives", "false_negatives")
Counts = dict[tuple[str, str], list[int]]


def taken_counts(metrics: MutableMapping[str, Any]) -> Counts:
    """The counts of one client, by attribute and group; they are taken out of its metrics.

    Raises ValueError for a metric that is none of the form above.
    """
    found: Counts = {}
    for key in [key for key in metrics if key.startswith(PREFIX)]:
        attribute, _, group = key.removeprefix(PREFIX).partition("/")
        value = metrics.pop(key)
        if not (attribute and group and _are_counts(value)):
            raise ValueError(f"{key} = {value!r}: not four counts as {PREFIX}ATTRIBUTE/GROUP")
        found[attribute, group] = [int(one) for one in value]
    return found


def total_counts(clients: Iterable[Counts]) -> dict[str, dict[str, dict[str, int]]]:
    """The sum over clients, as a declared round has it in `groups`."""
    sums: Counts = {}
    for counts in clients:
        for key, values in counts.items():
            known = sums.get(key, [0] * len(NAMES))
            sums[key] = [a + b for a, b in zip(known, values, strict=True)]
    found: dict[str, dict[str, dict[str, int]]] = {}
    for (attribute, group), values in sums.items():
        found.setdefault(attribute, {})[group] = dict(zip(NAMES, values, strict=True))
    return found


def _are_counts(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == len(NAMES)
        and all(isinstance(one, int) and one >= 0 for one in value)
    )
