"""From the records of a block of rounds to the rows that a flush writes. No database here."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.disclosure import attribute_rule
from fedaudit.fairness.gaps import Figure, gaps
from fedaudit.privacy.cluster_leakage import ClusterLeakage
from fedaudit.privacy.inputs import MechanismInputs
from fedaudit.privacy.projection import NO_EPSILON, NO_LEAKAGE, NO_MECHANISM, NO_NOISE
from fedaudit.training.records import RoundRecord
from models.records import FairnessRow, LedgerRow, RoundRow
from workers.experiment import RunningExperiment

ROUND_COMPLETED = "round.completed"

_FAIRNESS_FIGURES = (
    "demographic_parity_difference",
    "equalized_odds_difference",
    "equal_opportunity_difference",
)
_COSTS = ("leakage_max", "epsilon_max")
_NOT_VALIDATED = "this round was not validated"
_NOT_FINITE = "the loss is not finite"
_NO_ACCURACY = "the target is a number, so there is no accuracy"
_NOT_FINITE_HYPOTHESIS = "a hypothesis is not finite"
_NO_SEPARATION = "needs two or more hypotheses, and uploads to compare"
_NO_ATTRIBUTE = "fairness.sensitive names no attribute"
_SEVERAL = "fairness.sensitive names several attributes; see the fairness of the round"


@dataclass(frozen=True)
class Block:
    """Everything that one flush writes for one experiment."""

    ledger: Sequence[LedgerRow]
    rounds: Sequence[RoundRow]
    fairness: Sequence[FairnessRow]
    events: Sequence[tuple[str, Mapping[str, Any]]]


def block_of(experiment: RunningExperiment, records: Sequence[RoundRecord], *, last: bool) -> Block:
    """The rows of rounds that were played; moves the experiment's totals and chain on.

    Rounds that were charged and lost with a worker stand before their repeat; with the `last`
    block of an experiment, all that are left.
    """
    fairness = _fairness_rows(experiment, records)
    figures = {(row.round, row.attribute): row.figures for row in fairness}
    ledger: list[LedgerRow] = []
    rounds = []
    for record in records:
        ledger += _lost_rows(experiment, up_to=record.round)
        ledger += _ledger_rows(experiment, record)
        rounds.append(_round_row(experiment, record, figures))
        experiment.rounds_done = record.round
    if last:
        ledger += _lost_rows(experiment, up_to=None)
    return Block(ledger, rounds, fairness, [(ROUND_COMPLETED, _event(row)) for row in rounds])


def _lost_rows(experiment: RunningExperiment, *, up_to: int | None) -> list[LedgerRow]:
    rows: list[LedgerRow] = []
    while experiment.lost and (up_to is None or experiment.lost[0].round <= up_to):
        lost = experiment.lost.pop(0)
        rows += experiment.book.enter_interrupted(
            round_=lost.round, release=lost.release, subjects=lost.subjects
        )
        _follow(experiment, lost.subjects)
    return rows


def _ledger_rows(experiment: RunningExperiment, record: RoundRecord) -> list[LedgerRow]:
    rows = experiment.book.enter(
        round_=record.round,
        release=record.release,
        subjects=record.subjects,
        outcomes=record.outcomes,
        radii=record.radii,
        clusters=record.clusters,
        compositions=record.compositions,
    )
    _follow(experiment, record.subjects)
    return rows


def _follow(experiment: RunningExperiment, subjects: NDArray[np.int32]) -> None:
    """Moves the leakage of each cluster on to where the ledger stands."""
    book = experiment.book
    if experiment.by_cluster is not None:
        experiment.by_cluster.move(
            subjects,
            clusters=book.clusters[subjects],
            releases=book.spending.releases[subjects],
        )


def _fairness_rows(
    experiment: RunningExperiment, records: Sequence[RoundRecord]
) -> list[FairnessRow]:
    validated = [record for record in records if record.fairness]
    rows: list[FairnessRow] = []
    if not validated:
        return rows
    for attribute in experiment.groups:
        counts: NDArray[np.int64] = np.stack([record.fairness[attribute] for record in validated])
        rule = attribute_rule(experiment.spec, attribute, experiment.groups)
        found = gaps(counts, rule.decide(scored_rows(counts)))
        if not experiment.spec.declares_outcome:
            counts = counts[:, :0]  # nothing was counted, which is not the same as no rows
        rows += [
            FairnessRow(
                round=record.round,
                attribute=attribute,
                figures=[_figure(figure) for figure in figures],
                counts=pooled,
            )
            for record, figures, pooled in zip(validated, found, counts, strict=True)
        ]
    return rows


def _figure(figure: Figure) -> dict[str, Any]:
    return {"metric": figure.metric, "value": figure.value, "reason": figure.reason}


def _round_row(
    experiment: RunningExperiment,
    record: RoundRecord,
    figures: Mapping[tuple[int, str], Sequence[Mapping[str, Any]]],
) -> RoundRow:
    reasons: dict[str, str] = {}
    book = experiment.book
    values: dict[str, float | None] = {
        "selection_loss": _finite(record.selection_loss),
        "validation_loss": _finite(record.validation_loss),
        "accuracy": _finite(record.accuracy),
        "separation": _finite(record.separation),
        "leakage_median": book.spending.leakage_median(book.inputs),
        "leakage_max": book.spending.leakage_most(book.inputs),
        "epsilon_max": book.epsilon_most(),
    }
    values |= _gaps_of_round(experiment, record, figures, reasons)
    by_cluster = _by_cluster(experiment)
    if by_cluster is None:
        reasons["leakage_by_cluster"] = _why_no_cost(book.inputs)
    if record.plane is None:
        reasons["plane"] = _why_no_plane(experiment, record)
    for name, value in values.items():
        if value is None and name not in reasons:
            reasons[name] = _why_missing(name, record, book.inputs)
    return RoundRow(
        round=record.round,
        cluster_sizes=record.cluster_sizes,
        collapsed=record.collapsed,
        leakage_by_cluster=by_cluster,
        plane=None if record.plane is None else record.plane.as_dict(),
        reasons=reasons,
        **values,
    )


def _by_cluster(experiment: RunningExperiment) -> Sequence[ClusterLeakage] | None:
    inputs = experiment.book.inputs
    if experiment.by_cluster is None or inputs.noise_multiplier is None:
        return None
    return experiment.by_cluster.leakage(n=inputs.n, noise_multiplier=inputs.noise_multiplier)


def _why_no_plane(experiment: RunningExperiment, record: RoundRecord) -> str:
    if record.selection_loss is None:
        return _NOT_VALIDATED
    return experiment.why_no_plane or _NOT_FINITE_HYPOTHESIS


def _gaps_of_round(
    experiment: RunningExperiment,
    record: RoundRecord,
    figures: Mapping[tuple[int, str], Sequence[Mapping[str, Any]]],
    reasons: dict[str, str],
) -> dict[str, float | None]:
    """The gaps of the only attribute, where there is just one; reasons go into `reasons`."""
    attributes = list(experiment.groups)
    common = None
    if len(attributes) != 1:
        common = _SEVERAL if attributes else _NO_ATTRIBUTE
    elif not record.fairness:
        common = _NOT_VALIDATED
    if common is not None:
        reasons |= dict.fromkeys(_FAIRNESS_FIGURES, common)
        return dict.fromkeys(_FAIRNESS_FIGURES)
    found = {figure["metric"]: figure for figure in figures[record.round, attributes[0]]}
    reasons |= {name: why for name in _FAIRNESS_FIGURES if (why := found[name]["reason"])}
    return {name: found[name]["value"] for name in _FAIRNESS_FIGURES}


def _why_missing(name: str, record: RoundRecord, inputs: MechanismInputs) -> str:
    if name.startswith(("leakage", "epsilon")):
        return _why_no_cost(inputs)
    if name == "separation":
        return _NO_SEPARATION
    if record.selection_loss is None:
        return _NOT_VALIDATED
    return _NO_ACCURACY if name == "accuracy" else _NOT_FINITE


def _why_no_cost(inputs: MechanismInputs) -> str:
    if inputs.counts_epsilon:
        return NO_LEAKAGE
    if inputs.noise_multiplier is not None:
        return NO_EPSILON
    return NO_MECHANISM if inputs.mechanism == "none" else NO_NOISE


def _event(row: RoundRow) -> dict[str, Any]:
    return {
        "round": row.round,
        "selection_loss": row.selection_loss,
        "validation_loss": row.validation_loss,
        "leakage_max": row.leakage_max,
        "epsilon_max": row.epsilon_max,
        "reasons": {name: row.reasons[name] for name in _COSTS if name in row.reasons},
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
