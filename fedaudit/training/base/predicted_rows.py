"""The rows of the final evaluation with their predictions, computed without the group counter."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.joint_disclosure import PredictedRows
from fedaudit.federations.favourable_outcomes import OutcomeRules, outcome_rules
from fedaudit.federations.federation import Federation
from fedaudit.spec.fairness import Fairness
from fedaudit.training.base.final_groups import ScoredRows


def predicted_rows(
    federation: Federation, fairness: Fairness, rows: ScoredRows, place: NDArray[np.int64]
) -> dict[str, PredictedRows]:
    """Attribute -> truth, prediction and group of each scored row, straight from the data.

    `rows` lie at `place` [rows] of the federation's arrays. Labels come from the label rules
    themselves, in the target's own units, and groups from the attribute: `GroupCounter` with its
    tables is not involved, so that its counts can be checked against these rows.
    """
    rules = _rules_of(federation, fairness, place)
    truth = federation.raw_target[place]
    predicted = rows.predictions.astype(np.float64) * federation.target_scale
    counted = _counted(rules, rows)
    found = {}
    for name in fairness.attributes:
        codes = federation.attribute(name).codes[place]
        chosen = counted & (codes >= 0)
        found[name] = PredictedRows(
            groups=codes[chosen].astype(np.int64),
            truth=rules.label(truth)[chosen] if rules.ops else None,
            predicted=rules.label(predicted)[chosen] if rules.ops else None,
            true_classes=truth[chosen].astype(np.int64) if federation.classes else None,
            predicted_classes=predicted[chosen].astype(np.int64) if federation.classes else None,
        )
    return found


def predicting_hypotheses(
    federation: Federation, fairness: Fairness, rows: ScoredRows, place: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """The hypothesis that predicted each scored row, client after client: [rows]. Confidential.

    Of all rows that `runs.held_out_groups` gives, in the same order. None where there is one only.
    """
    if rows.hypotheses is None:
        return None
    rules = _rules_of(federation, fairness, place)
    found: NDArray[np.int64] = rows.hypotheses[_counted(rules, rows)]
    return found


def _rules_of(federation: Federation, fairness: Fairness, place: NDArray[np.int64]) -> OutcomeRules:
    """The rules of the rows at `place`."""
    rules = outcome_rules(federation, fairness)
    return replace(rules, rule_index=rules.rule_index[place])


def _counted(rules: OutcomeRules, rows: ScoredRows) -> NDArray[np.bool_]:
    """The rows [rows] that are scored, and judged where there are rules."""
    counted = np.ones(len(rows.values), dtype=np.bool_) if rows.scored is None else rows.scored
    if rules.ops:
        counted = counted & (rules.rule_index >= 0)
    return counted
