"""The figures of each group; a group that is too small, or kept back beside one, shows none."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import RATES, group_rates
from fedaudit.fairness.gaps import NO_OUTCOME
from fedaudit.fairness.scores import NO_ACCURACY, GroupScores, group_scores
from fedaudit.reports.document import GroupSection

NOT_HANDED_OVER = "the run did not hand over what its rows scored by group"
_NOT_FINITE = "the loss is not finite"
_SCORES = ("accuracy", "loss")
_NO_DENOMINATOR = {
    "selection_rate": "no scored rows",
    "true_positive_rate": "no rows with the favourable outcome",
    "false_positive_rate": "no rows without the favourable outcome",
}

Shown = tuple[dict[str, float | None], dict[str, str]]
"""Figures by name, and the reasons of those that are None."""


def group_sections(
    values: Sequence[str],
    pooled: NDArray[np.int64],
    shown: NDArray[np.bool_],
    *,
    scores: GroupScores | None,
    rooted: bool,
    declared: bool,
    minimum_group_size: int,
) -> list[GroupSection]:
    """Rates from counts [groups, 4], accuracy and loss from scores, of the groups shown [groups].

    `rooted` as in `group_scores`; `declared`: whether some outcome is favourable.
    """
    hidden = hidden_reason(f"fewer than {minimum_group_size} scored rows")
    rates = shown_rates(pooled, declared=declared)
    measured = _measured(scores, len(values), rooted=rooted)
    sections = []
    for place, value in enumerate(values):
        figures = {**rates[place][0], **measured[place][0]}
        reasons = {**rates[place][1], **measured[place][1]}
        if not shown[place]:
            reasons = dict.fromkeys(figures, hidden)
            figures = dict.fromkeys(figures)
        sections.append(
            GroupSection(value=value, suppressed=not shown[place], reasons=reasons, **figures)
        )
    return sections


def hidden_reason(too_few: str) -> str:
    """Why a group shows nothing."""
    return f"suppressed: {too_few}, or kept back so that another group's cannot be worked out"


def shown_rates(counts: NDArray[np.int64], *, declared: bool) -> list[Shown]:
    """The RATES of each group of counts [groups, 4]."""
    if not declared:
        return [(dict.fromkeys(RATES), dict.fromkeys(RATES, NO_OUTCOME))] * len(counts)
    return [_explained(RATES, of_group, _NO_DENOMINATOR) for of_group in group_rates(counts).T]


def _measured(scores: GroupScores | None, groups: int, *, rooted: bool) -> list[Shown]:
    """Accuracy and loss of each group."""
    if scores is None:
        return [(dict.fromkeys(_SCORES), dict.fromkeys(_SCORES, NOT_HANDED_OVER))] * groups
    found = group_scores(scores.sums.sum(axis=0), rooted=rooted)
    reasons = {"accuracy": NO_ACCURACY, "loss": _NOT_FINITE}
    return [_explained(_SCORES, of_group, reasons) for of_group in found.T]


def _explained(
    names: Sequence[str], values: NDArray[np.float64], reasons: Mapping[str, str]
) -> Shown:
    """The values that are finite; the others are None for the reason given."""
    figures = {
        name: value if np.isfinite(value) else None
        for name, value in zip(names, values.tolist(), strict=True)
    }
    return figures, {name: reasons[name] for name, value in figures.items() if value is None}
