"""The scored rows of a finished run beside the best prediction that looks at nothing."""

from dataclasses import replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.favourable_outcomes import outcome_rules
from fedaudit.training.base.cell import Cell
from fedaudit.training.base.final_groups import ScoredRows
from fedaudit.utility import (
    ConstantComparison,
    LossShape,
    MeasuredRows,
    RowLoss,
    compare_with_constant,
)


def against_constant(
    cell: Cell, rows: ScoredRows, place: NDArray[np.int64], *, by_client: bool
) -> ConstantComparison:
    """Compares a cell's model with the best constant on the same rows.

    `rows` lie at `place` [rows] of the federation's arrays. `by_client`: whether the validation
    loss is the mean over clients; over all rows alike otherwise.
    """
    federation = cell.federation
    counted = np.ones(len(place), dtype=np.bool_) if rows.scored is None else rows.scored
    # Clients without a scored row take no part in a loss over rows; numbered without gaps.
    _, client = np.unique(federation.client_of[place[counted]], return_inverse=True)
    outcome, true_outcome = _outcomes(cell, rows, place, counted)
    hypothesis = np.zeros(len(client), dtype=np.int64)
    if cell.spec.training.method.personalises:
        hypothesis = client.astype(np.int64)  # each client's model may be a constant of its own
    elif rows.hypotheses is not None:
        hypothesis = rows.hypotheses[counted].astype(np.int64)
    # As everywhere in the report, a row that no rule judges is in no group.
    rules = outcome_rules(federation, cell.spec.fairness)
    unjudged = (rules.rule_index[place] < 0) & bool(rules.ops)
    measured = MeasuredRows(
        client=client.astype(np.int64),
        clients=int(client.max(initial=-1)) + 1,
        target=federation.target[place][counted].astype(np.float64),
        predicted=rows.predictions[counted].astype(np.float64),
        values=rows.values[counted].astype(np.float64),
        outcome=outcome,
        true_outcome=true_outcome,
        hypothesis=hypothesis,
        groups={
            one.name: (
                len(one.values),
                np.where(unjudged, -1, one.codes[place])[counted].astype(np.int64),
            )
            for one in federation.attributes
        },
    )
    return compare_with_constant(measured, _loss_shape(cell, by_client=by_client))


def _outcomes(
    cell: Cell, rows: ScoredRows, place: NDArray[np.int64], counted: NDArray[np.bool_]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Predicted and true outcome of the counted rows, -1 for those that no rule judges: whether it
    is favourable where the spec says what is, otherwise the class."""
    federation = cell.federation
    rules = outcome_rules(federation, cell.spec.fairness)
    if rules.ops:
        rules = replace(rules, rule_index=rules.rule_index[place])
        predicted = rules.label(rows.predictions.astype(np.float64) * federation.target_scale)
        true = rules.label(federation.raw_target[place])
        judged = rules.rule_index >= 0
        return (
            np.where(judged, predicted, -1)[counted].astype(np.int64),
            np.where(judged, true, -1)[counted].astype(np.int64),
        )
    if not federation.classes:
        return None, None
    return (
        rows.predictions[counted].astype(np.int64),
        federation.raw_target[place][counted].astype(np.int64),
    )


def _loss_shape(cell: Cell, *, by_client: bool) -> LossShape:
    kind = cell.spec.training.loss
    row: RowLoss
    match kind:
        case "cross-entropy":
            row = "log"
        case "rmse" | "mse":
            row = "squared"
        case _:
            assert_never(kind)
    return LossShape(
        row=row,
        classes=len(cell.federation.classes),
        root_mean=cell.spec.training.root_mean,
        by_client=by_client,
    )
