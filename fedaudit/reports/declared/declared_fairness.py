"""Gaps between groups from the counts that a trainer declares."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.gaps import gaps, scored_rows
from fedaudit.reports.sections.exact_fairness import GAIN_FIELDS, group_sections
from fedaudit.reports.sections.fairness import FairnessSection, GroupSection, MetricSection
from fedaudit.spec.metrics import COUNTS, SCORE_METRICS

Tallies = Mapping[str, Mapping[str, Mapping[str, int]]]

_AS_DECLARED = "as the trainer counts it"
_NO_CLIENTS = "the counts are declared of all clients together, so no client can be drawn anew"
_NO_SCORES = "only counts are declared"
_NO_ACCURACY = "declared counts tell whether an outcome was favourable, not whether it was right"
_NO_GAIN = "what one answer for everybody would get in a group is not computed from declared counts"
_SIZES_CONFIDENTIAL = "sizes of groups are confidential, also where the trainer declares them"


def declared_fairness(groups: Tallies, *, minimum_group_size: int) -> list[FairnessSection]:
    """A section for each attribute; small groups are suppressed, and others with them where a small
    one would follow from the rest of the same attribute."""
    return [_section(name, groups[name], minimum_group_size) for name in sorted(groups)]


def decides_nothing(groups: Tallies) -> bool | None:
    """Whether the declared counts are those of a model that is no better than one answer for all;
    None without counts."""
    if not groups:
        return None
    counts = _counts(groups[min(groups)]).sum(axis=0)
    tp, fp, tn, fn = counts.tolist()
    constant = max(tp + fn, tn + fp)
    return bool(tp + tn <= constant or tp + fp == 0 or tn + fn == 0)


def _section(
    attribute: str, groups: Mapping[str, Mapping[str, int]], minimum_group_size: int
) -> FairnessSection:
    counts = _counts(groups)
    disclosure = DisclosureRule(minimum_group_size).decide(scored_rows(counts))
    metrics = {
        one.metric: MetricSection(
            value=one.value,
            reason=one.reason,
            interval=None,
            interval_reason=_NO_CLIENTS,
            null_reason=_NO_CLIENTS,
        )
        for one in gaps(counts, disclosure)[0]
    }
    for name in SCORE_METRICS:
        metrics[name] = MetricSection(
            value=None, reason=_NO_SCORES, interval=None, interval_reason=_NO_SCORES
        )
    return FairnessSection(
        attribute=attribute,
        favourable=_AS_DECLARED,
        reference_group=None,
        groups=[
            _explained(one)
            for one in group_sections(
                sorted(groups), counts, disclosure, scores=None, root_mean=False, gains=None
            )
        ],
        metrics=metrics,
        privacy_cost_by_group_reason="whose clients belong to which group is not declared",
        cross_check_reason="the rows are elsewhere, so nothing was computed twice",
    )


def _explained(group: GroupSection) -> GroupSection:
    """The group with reasons that hold of declared counts: no run of this service made them."""
    reasons = {**group.reasons, "rows": _SIZES_CONFIDENTIAL}
    if not group.suppressed:
        reasons |= {"accuracy": _NO_ACCURACY, "loss": _NO_SCORES, "auc": _NO_SCORES}
        reasons |= dict.fromkeys(GAIN_FIELDS, _NO_GAIN)
    return group.model_copy(update={"reasons": reasons})


def _counts(groups: Mapping[str, Mapping[str, int]]) -> NDArray[np.int64]:
    return np.array([[groups[name][count] for count in COUNTS] for name in sorted(groups)])
