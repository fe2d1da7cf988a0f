"""The figures of a profile, with small groups and classes suppressed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.federations.errors import listed

_HIDDEN = "small groups, and what would give them away, are not shown"

Warnings = list[dict[str, str]]
"""Objects {pointer, message}: the data are usable, but the caller should know."""


@dataclass(frozen=True, eq=False)
class AttributeCounts:
    """Counts of a sensitive attribute."""

    name: str
    where: str
    """The field of the spec that names it."""
    constant: bool
    """Whether it is a client attribute: all of a client's rows have the same value."""
    values: Sequence[str]
    rows: NDArray[np.int64]
    """[groups]"""
    missing: int
    """Rows without a value."""
    scored: NDArray[np.int64]
    """[groups]: rows for which a rule decides whether their outcome is favourable."""
    favourable: NDArray[np.int64]
    """[groups]"""
    no_rule: str | None = None
    """Why no outcome is favourable; null where there is a rule."""


def attribute_figures(
    counts: AttributeCounts, rule: DisclosureRule
) -> tuple[dict[str, Any], Warnings]:
    """Sizes and base rates of an attribute's groups, and a warning of small ones."""
    sizes = rule.decide(counts.rows, of="rows")
    shown = sizes.shown
    rated = shown & _rated(counts, rule)
    rates = counts.favourable / np.maximum(counts.scored, 1)
    reasons = {}
    if not shown.all():
        reasons["groups"] = _HIDDEN
    if not rated.all():
        reasons["base_rates"] = counts.no_rule or _HIDDEN
    figures = {
        "of": "client" if counts.constant else "record",
        "groups": _with_gaps(counts.values, counts.rows, shown),
        "missing": counts.missing,
        "base_rates": _with_gaps(counts.values, rates, rated),
        "reasons": reasons,
    }
    small = _small(counts.values, counts.rows, rule)
    if not small:
        return figures, []
    message = (
        f"{counts.name!r} has groups of {sizes.too_few}: {listed(small)}; "
        "reports will not show their figures"
    )
    return figures, [{"pointer": counts.where, "message": message}]


def class_figures(
    target: str, classes: Sequence[str], rows: NDArray[np.int64], rule: DisclosureRule
) -> tuple[dict[str, int | None], Warnings]:
    """How many rows each class has, and a warning of small ones."""
    sizes = rule.decide(rows, of="rows")
    small = _small(classes, rows, rule)
    balance = _with_gaps(classes, rows, sizes.shown)
    if not small:
        return balance, []
    message = (
        f"{target!r} has classes of {sizes.too_few}: {listed(small)}; little can be learnt of them"
    )
    return balance, [{"pointer": "/federation/target", "message": message}]


def spread(rows: NDArray[np.int64]) -> dict[str, float | int | None]:
    """Rows per client: [clients]."""
    return {
        "minimum": int(rows.min()),
        "median": float(np.median(rows)),
        "maximum": int(rows.max()),
    }


def _rated(counts: AttributeCounts, rule: DisclosureRule) -> NDArray[np.bool_]:
    """The groups whose base rates may be shown, [groups].

    Rows without a value are a group too: the class sizes minus what the rates add up to would
    reveal its outcomes. And rates of a rare outcome would reveal how rare it is.
    """
    rows = np.append(counts.scored, counts.missing)
    rated = rule.decide(rows).shown[:-1]
    favourable = int(counts.favourable.sum())
    rarest = min(favourable, int(counts.scored.sum()) - favourable)
    if counts.no_rule is not None or rule.is_small(rarest):
        return np.zeros_like(rated)
    return rated


def _small(names: Sequence[str], rows: NDArray[np.int64], rule: DisclosureRule) -> list[str]:
    return [name for name, size in zip(names, rows.tolist(), strict=True) if rule.is_small(size)]


def _with_gaps(
    names: Sequence[str], figures: NDArray[np.generic], shown: NDArray[np.bool_]
) -> dict[str, Any]:
    """The figures by name, null where they are suppressed."""
    values = zip(names, figures.tolist(), shown.tolist(), strict=True)
    return {name: figure if is_shown else None for name, figure, is_shown in values}
