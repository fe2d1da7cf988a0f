"""What the report of an audit is assembled from: counts by client and group, and gaps at other
thresholds."""

from collections.abc import Collection, Mapping
from dataclasses import fields, replace
from datetime import datetime
from typing import Any, assert_never

import numpy as np

from fedaudit.arrays import Floats, Ints
from fedaudit.audits.audit_table import AuditedRows, predicted_from
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import gaps
from fedaudit.fairness.noised_counts import (
    ExactCounts,
    NoisedCounts,
    PublishedCounts,
    Rounder,
    rounder_of,
)
from fedaudit.fairness.ranking import ScoredOutcomes
from fedaudit.number_text import digit_step, nearest
from fedaudit.reports.audit_report import assemble_audit
from fedaudit.reports.sections.fairness import FairnessSection, MetricSection
from fedaudit.reports.sections.material import FederationFacts, FinalFigures, ScoredMaterial
from fedaudit.reports.sections.predictions import (
    NO_LOSS,
    NO_ROUNDS,
    AuditMaterial,
    ThresholdGaps,
    ThresholdSection,
)
from fedaudit.reports.sections.published_fairness import counted_sections, fairness_sections
from fedaudit.spec.metrics import METRICS, is_ratio
from fedaudit.spec.registration import COMMON_THRESHOLDS
from fedaudit.training.base.scored_rows import (
    GroupCounter,
    RowPlaces,
    ScoredRows,
    final_groups,
    measured_rows,
    predicted_rows,
)
from fedaudit.utility import ConstantComparison, LossShape, compare_with_constant

_OF_GROUPS = {"loss": NO_LOSS, "rows": "how many rows a group has is confidential"}
_LOSSES = ("loss_difference", "loss_ratio")
_ROUNDED = "counts are rounded, and so many figures of the same groups would narrow them down"


def audit_report(
    rows: AuditedRows,
    *,
    audit_id: str,
    started_at: datetime,
    key_id: str | None = None,
    withheld: Collection[str] = (),
    rounding_key: bytes = b"",
    earlier_audits: int | None = None,
) -> dict[str, Any]:
    """The report of an audit as JSON values, not yet signed. Raises FiguresDisagreeError where the
    figures do not follow from the rows a second time.

    `key_id`: of the key that will sign it. `withheld`: attributes about which nothing may be shown,
    because of earlier reports. `rounding_key`: secret, used where counts are rounded.
    `earlier_audits`: how many there were of the same scores at other thresholds; None where no one
    counts them.
    """
    scored = _scored_material(rows, withheld=withheld, rounding_key=rounding_key)
    threshold = threshold_section(
        rows, scored.disclosures, scored.published, earlier_audits=earlier_audits
    )
    # Only now: it imports pandas and scikit-learn, which nothing else in this room needs.
    from fedaudit.reports.sections.cross_check import cross_checked

    exact = {"fairness": [one.model_dump(mode="json") for one in counted_sections(scored)]}
    own = predicted_rows(rows.federation, rows.spec.fairness, *_judged(rows))
    checked = cross_checked(exact, own, counts=scored.result.fairness)
    match scored.published:
        case ExactCounts():
            found = [FairnessSection.model_validate(one) for one in checked["fairness"]]
        case Rounder():
            found = fairness_sections(scored)
        case NoisedCounts():
            raise TypeError("an audit adds no noise to counts")
        case _:
            assert_never(scored.published)
    return assemble_audit(
        AuditMaterial(
            **{one.name: getattr(scored, one.name) for one in fields(scored)},
            audit=rows.audit,
            audit_id=audit_id,
            started_at=started_at,
            key_id=key_id,
            client_count=rows.client_count,
            left_out=rows.left_out,
            rows_alike=rows.contents == (),
            all_right=rows.all_right,
            threshold=threshold,
            fairness=[_of_predictions(one) for one in found],
        )
    )


def _of_predictions(section: FairnessSection) -> FairnessSection:
    """Drop what predictions alone do not have, each with its reason."""
    no_loss = MetricSection(value=None, reason=NO_LOSS, interval=None, interval_reason=NO_LOSS)
    groups = [
        one.model_copy(update={"loss": None, "reasons": {**one.reasons, **_OF_GROUPS}})
        for one in section.groups
    ]
    metrics = {
        name: one.model_copy(update={"last_rounds_reason": NO_ROUNDS})
        for name, one in {**section.metrics, **dict.fromkeys(_LOSSES, no_loss)}.items()
    }
    return section.model_copy(update={"groups": groups, "metrics": metrics})


def _scored_material(
    rows: AuditedRows, *, withheld: Collection[str], rounding_key: bytes
) -> ScoredMaterial:
    scored = rows.scored
    clients, client = np.unique(scored.population.clients, return_inverse=True)
    judged, place = _judged(rows)
    places = RowPlaces(place, client, len(clients))
    counter = GroupCounter([rows.federation], rows.spec.fairness)
    accuracy = float((1.0 - judged.values).mean())
    return ScoredMaterial(
        spec=rows.spec,
        federation=FederationFacts(
            fingerprint=rows.federation.fingerprint,
            clients=len(clients),
            training_clients=0,
            rows=rows.federation.rows,
            not_counted=rows.rows_of_table - int(rows.judged.sum()),
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
            fairness=counter.count_rows(judged.predictions, place, client, slots=len(clients)),
            scores=final_groups(counter, judged, places),
            against_constant=_against_constant(rows, places),
            threshold=rows.audit.threshold,
        ),
        disclosures=scored.decide(withheld),
        published=_published(rows, rounding_key),
    )


def _judged(rows: AuditedRows) -> tuple[ScoredRows, Ints]:
    """The rows that are scored, and where they are in the table. A prediction that is no
    probability has no loss but that of being wrong."""
    place = np.flatnonzero(rows.judged)
    predicted = rows.predicted[place]
    wrong = (predicted != rows.truth[place]).astype(np.float64)
    return ScoredRows(predicted, None, wrong, None, None), place


def _against_constant(rows: AuditedRows, places: RowPlaces) -> ConstantComparison:
    """The predictions beside always predicting the most frequent outcome, whose loss is that of
    being wrong too."""
    judged, scored = _judged(rows)[0], _scored(rows)
    # Only a threshold of probabilities says which error is worse.
    threshold = rows.audit.threshold
    if scored is None or scored.probability is None or threshold is None or not 0 < threshold < 1:
        threshold = 0.5
    measured = measured_rows(
        rows.federation,
        rows.spec.fairness,
        places.place,
        client=places.client,
        predicted=judged.predictions,
        values=judged.values,
        scored=scored,
        threshold=threshold,
    )
    shape = LossShape(
        row="squared", classes=len(rows.federation.classes), root_mean=False, by_client=False
    )
    found = compare_with_constant(measured, shape)
    if found.decision_gain is None:
        raise ValueError("outcomes are classes")
    return replace(
        found,
        constant_loss=found.loss + found.decision_gain / found.rows,
        by_rows={**found.by_rows, "loss": found.by_rows["accuracy"]},
    )


def _scored(rows: AuditedRows) -> ScoredOutcomes | None:
    """The scores of the judged rows; they are probabilities where all are between 0 and 1."""
    if rows.scores is None:
        return None
    score = rows.scores[rows.judged]
    are_probabilities = bool(((score >= 0) & (score <= 1)).all())
    return ScoredOutcomes(
        score=score,
        probability=score if are_probabilities else None,
        outcome=rows.favourable[rows.judged],
    )


def _published(rows: AuditedRows, key: bytes) -> PublishedCounts:
    base = rows.audit.fairness.rounded_to
    if base is None:
        return ExactCounts()
    people, data = rows.scored.population, rows.federation.fingerprint
    if rows.contents:  # by every column: the same people in whichever file
        people = rows.by_contents(rows.contents[0])[0].population
        data = rows.contents[0].columns
    return rounder_of(people, rows.scored.favourable, base=base, key=key, data=data.encode())


def threshold_section(
    rows: AuditedRows,
    disclosures: Mapping[str, Disclosure],
    published: PublishedCounts,
    *,
    earlier_audits: int | None,
) -> ThresholdSection | None:
    """The section; None where the table has predictions and no score. `earlier_audits` as in the
    section; None where they are not counted."""
    threshold = rows.audit.threshold
    if rows.scores is None or threshold is None:
        return None
    exact, grid = isinstance(published, ExactCounts), list(COMMON_THRESHOLDS)
    if not (rows.scores.min() >= 0 and rows.scores.max() <= 1):
        # No probabilities. An exact decile would be someone's score: two digits of each are tried.
        deciles = np.quantile(rows.scores, COMMON_THRESHOLDS).tolist()
        grid = sorted({nearest(one, digit_step(one)) if one else 0.0 for one in deciles})
    return ThresholdSection(
        value=threshold,
        others=[
            _at(rows, rows.scores, disclosures, other)
            for other in grid
            if exact and other != threshold
        ],
        others_reason=None if exact else _ROUNDED,
        earlier_audits=earlier_audits,
        earlier_audits_reason=(
            None
            if earlier_audits is not None
            else "without a service it is not counted how often the same scores were audited"
        ),
    )


def _at(
    rows: AuditedRows, scores: Floats, disclosures: Mapping[str, Disclosure], threshold: float
) -> ThresholdGaps:
    predicted = predicted_from(rows.rules, scores, threshold=threshold)
    judged, place = _judged(replace(rows, predicted=predicted))
    counter = GroupCounter([rows.federation], rows.spec.fairness)
    counts = counter.count_rows(judged.predictions, place, np.zeros_like(place), slots=1)
    return ThresholdGaps(
        threshold=threshold,
        accuracy=float((1.0 - judged.values).mean()),
        metrics={
            name: {
                figure.metric: figure.value
                for figure in gaps(counts[name][0], disclosure)[0]
                if figure.metric in METRICS and not is_ratio(figure.metric)
            }
            for name, disclosure in disclosures.items()
        },
    )
