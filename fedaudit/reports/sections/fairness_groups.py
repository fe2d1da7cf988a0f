"""The figures of each group; a group that is too small, or suppressed to protect one, shows
none."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import NO_ACCURACY, NO_OUTCOME, GroupScores, group_rates, group_scores
from fedaudit.reports.document.document import GroupSection
from fedaudit.reports.sections.group_gains import GroupGain, no_gain
from fedaudit.spec.metrics import RATES

NOT_HANDED_OVER = "the run did not hand over what its rows scored by group"
SIZES_CONFIDENTIAL = "sizes without noise are confidential; fairness.noise publishes noised ones"
_NOT_FINITE = "the loss is not finite"
_SCORES = ("accuracy", "loss")
_NO_DENOMINATOR = {name: rate.why_undefined for name, rate in RATES.items()}

Shown = tuple[dict[str, float | None], dict[str, str]]
"""Figures by name, and the reasons for those that are None."""


def group_sections(
    values: Sequence[str],
    pooled: NDArray[np.int64],
    disclosure: Disclosure,
    *,
    scores: GroupScores | None,
    root_mean: bool,
    gains: Sequence[GroupGain] | None = None,
) -> list[GroupSection]:
    """Rates from counts [groups, 4], accuracy and loss from scores, of the disclosed groups.

    `root_mean` as in `group_scores`; `gains`: of each group, its accuracy beside the constant's.
    """
    rates = shown_rates(pooled, has_favourable_outcome=disclosure.rule.has_favourable_outcome)
    measured = _measured(scores, len(values), root_mean=root_mean)
    sections = []
    for place, value in enumerate(values):
        shown = bool(disclosure.shown[place])
        figures = {**rates[place][0], **measured[place][0]}
        reasons = {**rates[place][1], **measured[place][1]}
        if not shown:
            reasons = dict.fromkeys(figures, disclosure.reason)
            figures = dict.fromkeys(figures)
        reasons["rows"] = SIZES_CONFIDENTIAL
        gain = no_gain(NOT_HANDED_OVER) if gains is None else gains[place]
        if not shown:
            gain = no_gain(disclosure.reason or "")
        reasons |= gain.reasons
        fields: dict[str, Any] = {**figures, **gain.fields}
        sections.append(
            GroupSection(
                value=value, label=None, suppressed=not shown, rows=None, reasons=reasons, **fields
            )
        )
    return sections


def shown_rates(counts: NDArray[np.int64], *, has_favourable_outcome: bool) -> list[Shown]:
    """The RATES of each group of counts [groups, 4]."""
    if not has_favourable_outcome:
        return [(dict.fromkeys(RATES), dict.fromkeys(RATES, NO_OUTCOME))] * len(counts)
    return [_explained(RATES, of_group, _NO_DENOMINATOR) for of_group in group_rates(counts).T]


def _measured(scores: GroupScores | None, groups: int, *, root_mean: bool) -> list[Shown]:
    """Accuracy and loss of each group."""
    if scores is None:
        return [(dict.fromkeys(_SCORES), dict.fromkeys(_SCORES, NOT_HANDED_OVER))] * groups
    found = group_scores(scores.sums.sum(axis=0), root_mean=root_mean)
    reasons = {"accuracy": NO_ACCURACY, "loss": _NOT_FINITE}
    return [_explained(_SCORES, of_group, reasons) for of_group in found.T]


def _explained(
    names: Collection[str], values: NDArray[np.float64], reasons: Mapping[str, str]
) -> Shown:
    """The finite values; the others are None for the given reason."""
    figures = {
        name: value if np.isfinite(value) else None
        for name, value in zip(names, values.tolist(), strict=True)
    }
    return figures, {name: reasons[name] for name, value in figures.items() if value is None}
