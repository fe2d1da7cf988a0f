"""Rates of a membership attack by group, of groups that the run's report discloses.

Figures of a group rest on its members, whom the report's own figures do not count, as well as on
held-out rows. So a group is shown where the report shows it *and* the rule of its attribute allows
it for the rows attacked, members and non-members each.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.binomial_intervals import clustered_interval
from fedaudit.attacks.membership.attacked_rows import AttackedRows
from fedaudit.attacks.membership.found_members import FoundMembers, area_under_curve
from fedaudit.fairness.joint_disclosure import decide_together
from fedaudit.fairness.population import Population
from fedaudit.reports.sections.attacks import (
    AttributeMembership,
    ConfidenceLimits,
    GroupMembership,
    RateAtFpr,
)
from fedaudit.runs.run import Run

_SUPPRESSED = (
    "suppressed: the report does not disclose the group, or too few of its rows were attacked, or "
    "others that few would follow from if it were shown"
)
_ROUNDED = (
    "suppressed: the report rounds its counts, and rates of groups would give them back; set "
    "`fairness.rounding` to null to see them"
)


def group_exposure(
    run: Run,
    rows: AttackedRows,
    scores: NDArray[np.float64],
    overall: list[FoundMembers],
    *,
    confidence: float,
) -> list[AttributeMembership]:
    """The groups of every sensitive attribute; `overall`: at the thresholds of all rows."""
    shown, rounded = shown_groups_of(run, rows), run.spec.fairness.rounded_to is not None
    found = []
    for attribute in run.federation.attributes:
        codes = attribute.codes[rows.place]
        groups = []
        for place, value in enumerate(attribute.values):
            own = codes == place
            if rounded or not shown[attribute.name][place]:
                why = _ROUNDED if rounded else _SUPPRESSED
                groups.append(_without(value, why, suppressed=True))
            else:
                groups.append(_group(value, rows, scores, own, overall, confidence=confidence))
        found.append(AttributeMembership(attribute=attribute.name, groups=groups))
    return found


def shown_groups_of(run: Run, rows: AttackedRows) -> Mapping[str, NDArray[np.bool_]]:
    """By attribute, which groups are shown: bool [groups]."""
    shown = {name: one.shown for name, one in run.disclosures.items()}
    rules = {name: one.rule for name, one in run.disclosures.items()}
    for side in (rows.member, ~rows.member):
        if rules:
            decided = decide_together(rules, _population(run, rows, side), beforehand=shown)
            shown = {name: one.shown for name, one in decided.items()}
    return shown


def _population(run: Run, rows: AttackedRows, side: NDArray[np.bool_]) -> Population:
    attributes = run.federation.attributes
    return Population(
        codes={one.name: one.codes[rows.place[side]].astype(np.int64) for one in attributes},
        groups={one.name: len(one.values) for one in attributes},
        clients=rows.client[side],
    )


def _without(value: str, reason: str, *, suppressed: bool = False) -> GroupMembership:
    return GroupMembership(
        value=value, suppressed=suppressed, auc=None, tpr_at_fpr=[], reason=reason
    )


def _group(
    value: str,
    rows: AttackedRows,
    scores: NDArray[np.float64],
    own: NDArray[np.bool_],
    overall: list[FoundMembers],
    *,
    confidence: float,
) -> GroupMembership:
    members, others = own & rows.member, own & ~rows.member
    if not (members.any() and others.any()):
        return _without(value, "no member, or no non-member, of the group was attacked")
    rates = []
    for level in overall:
        if level.threshold is None:
            continue
        beyond = scores >= level.threshold
        limits = clustered_interval(beyond[members], rows.client[members], confidence=confidence)
        rates.append(
            RateAtFpr(
                fpr=float(beyond[others].mean()),
                tpr=float(beyond[members].mean()),
                interval=ConfidenceLimits(low=limits.low, high=limits.high),
                reason=None,
            )
        )
    return GroupMembership(
        value=value,
        suppressed=False,
        auc=area_under_curve(scores[own], rows.member[own]),
        tpr_at_fpr=rates,
        reason=None,
    )
