"""The rows of the final evaluation with their predictions, computed without the group counter."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.predicted_rows import PredictedRows
from fedaudit.federations.federation import Federation
from fedaudit.federations.groups.favourable_outcomes import OutcomeRules, outcome_rules
from fedaudit.spec.fairness import Fairness
from fedaudit.training.base.final_groups import ScoredRows


def predicted_rows(
    federation: Federation, fairness: Fairness, rows: ScoredRows, clients: NDArray[np.int64]
) -> dict[str, PredictedRows]:
    """Attribute -> truth, prediction and group of each scored row, straight from the data.

    `rows` [clients, rows] of the federation's clients at `clients` [clients]. Labels come from the
    label rules themselves, in the target's own units, and groups from the attribute: `GroupCounter`
    with its tables is not involved, so that its counts can be checked against these rows.
    """
    rows = rows.first(federation.longest)
    rules = outcome_rules(federation, fairness)
    rules = replace(rules, rule_index=rules.rule_index[clients])
    truth = federation.raw_target[clients]
    predicted = rows.predictions.astype(np.float64) * federation.target_scale
    counted = _counted(federation, rules, rows, clients)
    found = {}
    for name in fairness.attributes:
        codes = federation.attribute(name).codes[clients]
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
    federation: Federation, fairness: Fairness, rows: ScoredRows, clients: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """The hypothesis that predicted each scored row, client after client: [rows]. Confidential.

    Of all rows that `runs.held_out_groups` gives, in the same order. None where there is one only.
    """
    rows = rows.first(federation.longest)
    if rows.hypotheses is None:
        return None
    rules = outcome_rules(federation, fairness)
    rules = replace(rules, rule_index=rules.rule_index[clients])
    found: NDArray[np.int64] = rows.hypotheses[_counted(federation, rules, rows, clients)]
    return found


def _counted(
    federation: Federation, rules: OutcomeRules, rows: ScoredRows, clients: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """The rows [clients, rows] that are scored, and judged where there are rules."""
    counted = federation.mask[clients]
    if rows.scored is not None:
        counted = counted & rows.scored
    if rules.ops:
        counted = counted & (rules.rule_index >= 0)
    return counted
