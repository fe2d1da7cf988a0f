"""What the figures of an audit are made from: counts by client and group."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.audits.audited_rows import AuditedRows
from fedaudit.fairness.gaps import GroupScores
from fedaudit.fairness.population import PredictedRows
from fedaudit.fairness.published_counts import (
    ExactCounts,
    PublishedCounts,
    RoundedCounts,
    rounder_of,
)
from fedaudit.reports.sections.material import FederationFacts, FinalFigures, ScoredMaterial
from fedaudit.spec.metrics import COUNTS
from fedaudit.utility.constant import (
    ConstantComparison,
    LossShape,
    MeasuredRows,
    compare_with_constant,
)

_TP, _FP, _TN, _FN = range(len(COUNTS))


def audit_material(
    rows: AuditedRows, *, withheld: Collection[str], rounding_key: bytes
) -> ScoredMaterial:
    """The counts of an audit, and which groups are disclosed.

    `withheld`: attributes of which nothing may be said, because of earlier reports.
    `rounding_key`: secret, used where the audit asks for rounding.
    """
    scored = rows.scored
    right = (rows.predicted == rows.truth)[rows.judged]
    clients, count = np.unique(scored.population.clients, return_inverse=True)
    shape = len(clients)
    counts, scores, kinds = {}, {}, _kinds(rows)
    for name, values in rows.groups.items():
        codes, groups = scored.population.codes[name], len(values)
        place = count * groups + codes
        known = codes >= 0
        counts[name] = _sums(
            place[known] * len(COUNTS) + kinds[known], (shape, groups, len(COUNTS))
        )
        total = _sums(place[known], (shape, groups))
        correct = _sums(place[known & right], (shape, groups))
        scores[name] = GroupScores(total, correct, (total - correct).astype(np.float64))
    compared = _against_constant(rows, count, clients=shape)
    accuracy = float(right.mean())
    return ScoredMaterial(
        spec=rows.spec,
        federation=FederationFacts(
            fingerprint=rows.federation.fingerprint,
            clients=shape,
            training_clients=0,
            rows=rows.federation.rows,
            notes=rows.federation.notes,
            positive_class=None,
            attributes=rows.groups,
        ),
        result=FinalFigures(
            stopped_by="rounds",
            rounds=0,
            best_round=0,
            selection_loss=None,
            # The share of wrong predictions: never published as a loss, and needed to compare.
            validation_loss=1.0 - accuracy,
            accuracy=accuracy,
            fairness=counts,
            scores=scores,
            against_constant=compared,
        ),
        disclosures=scored.decide(withheld),
        published=_published(rows, rounding_key),
    )


def predicted_rows(rows: AuditedRows) -> dict[str, PredictedRows]:
    """By attribute, the scored rows one by one, for the figures to be computed a second time."""
    judged, favourable = rows.judged, rows.favourable
    predicts = rows.predicts_favourable(rows.predicted)
    found = {}
    for name in rows.groups:
        chosen = judged & (rows.codes(name) >= 0)
        found[name] = PredictedRows(
            groups=rows.codes(name)[chosen],
            truth=favourable[chosen],
            predicted=predicts[chosen],
            true_classes=rows.truth[chosen],
            predicted_classes=rows.predicted[chosen],
        )
    return found


def group_counts(rows: AuditedRows, attribute: str) -> NDArray[np.int64]:
    """True and false positives and negatives of each group of an attribute: [groups, 4]."""
    codes = rows.scored.population.codes[attribute]
    known, groups = codes >= 0, len(rows.groups[attribute])
    return _sums(codes[known] * len(COUNTS) + _kinds(rows)[known], (groups, len(COUNTS)))


def _kinds(rows: AuditedRows) -> NDArray[np.int64]:
    """Of each scored row, which of COUNTS it is."""
    truth = rows.favourable[rows.judged]
    predicted = rows.predicts_favourable(rows.predicted)[rows.judged]
    return np.where(predicted, np.where(truth, _TP, _FP), np.where(truth, _FN, _TN)).astype(
        np.int64
    )


def _sums(places: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How often each place of an array of this shape occurs."""
    return np.bincount(places, minlength=int(np.prod(shape))).reshape(shape)


def _against_constant(
    rows: AuditedRows, client: NDArray[np.int64], *, clients: int
) -> ConstantComparison:
    """The predictions beside always predicting the most frequent outcome.

    A prediction that is no probability has no loss but that of being wrong, and neither has the
    constant here.
    """
    judged = rows.judged
    truth, predicted = rows.truth[judged], rows.predicted[judged]
    wrong = (truth != predicted).astype(np.float64)
    measured = MeasuredRows(
        client=client,
        clients=clients,
        target=truth.astype(np.float64),
        predicted=predicted.astype(np.float64),
        values=wrong,
        outcome=rows.predicts_favourable(rows.predicted)[judged].astype(np.int64),
        true_outcome=rows.favourable[judged].astype(np.int64),
        hypothesis=np.zeros(len(truth), dtype=np.int64),
        groups={
            name: (len(values), rows.codes(name)[judged]) for name, values in rows.groups.items()
        },
    )
    shape = LossShape(
        row="squared", classes=len(rows.federation.classes), root_mean=False, by_client=False
    )
    found = compare_with_constant(measured, shape)
    if found.constant_correct is None:
        raise ValueError("outcomes are classes")
    return replace(
        found,
        constant_loss=1.0 - found.constant_correct / found.rows,
        gains={**found.gains, "loss": found.gains["accuracy"]},
    )


def _published(rows: AuditedRows, key: bytes) -> PublishedCounts:
    base = rows.audit.fairness.rounded_to
    if base is None:
        return ExactCounts()
    people, data = rows.scored.population, rows.federation.fingerprint
    if rows.contents:  # by every column: the same people in whichever file
        people = rows.by_contents(rows.contents[0])[0].population
        data = rows.contents[0].columns
    return RoundedCounts(
        rounder_of(people, rows.scored.favourable, base=base, key=key, data=data.encode())
    )
