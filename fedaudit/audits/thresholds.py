"""What other thresholds would have shown, so that nobody picks the one that hides a gap unseen."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedaudit.audits.audit_document import ThresholdGaps, ThresholdSection
from fedaudit.audits.audit_material import group_counts
from fedaudit.audits.audited_rows import AuditedRows, predicted_from
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import gaps
from fedaudit.fairness.noised_counts import ExactCounts, PublishedCounts, digit_step, nearest
from fedaudit.spec.metrics import METRICS, is_ratio

_TENTHS = tuple(tenth / 10 for tenth in range(1, 10))
_ROUNDED = "counts are rounded, and so many figures of the same groups would narrow them down"


def threshold_section(
    rows: AuditedRows,
    disclosures: Mapping[str, Disclosure],
    published: PublishedCounts,
    *,
    earlier_audits: int | None,
) -> ThresholdSection | None:
    """The section; None where the table has predictions and no score.

    `earlier_audits` as in the section; None where nobody counts them.
    """
    threshold = rows.audit.threshold
    if rows.scores is None or threshold is None:
        return None
    exact = isinstance(published, ExactCounts)
    return ThresholdSection(
        value=threshold,
        others=[
            _at(rows, rows.scores, disclosures, other)
            for other in _grid(rows.scores)
            if exact and other != threshold
        ],
        others_reason=None if exact else _ROUNDED,
        earlier_audits=earlier_audits,
        earlier_audits_reason=(
            None
            if earlier_audits is not None
            else "without a service nobody counts how often the same scores were audited"
        ),
    )


def _grid(scores: NDArray[np.float64]) -> list[float]:
    """Tenths of probabilities; of other scores their deciles to two digits, since a decile as it is
    would be somebody's score."""
    if scores.min() >= 0 and scores.max() <= 1:
        return list(_TENTHS)
    deciles = np.quantile(scores, _TENTHS).tolist()
    return sorted({nearest(one, digit_step(one)) if one else 0.0 for one in deciles})


def _at(
    rows: AuditedRows,
    scores: NDArray[np.float64],
    disclosures: Mapping[str, Disclosure],
    threshold: float,
) -> ThresholdGaps:
    predicted = predicted_from(rows.rules, scores, threshold=threshold)
    other = replace(rows, predicted=predicted)
    judged = rows.judged
    return ThresholdGaps(
        threshold=threshold,
        accuracy=float((predicted == rows.truth)[judged].mean()),
        metrics={
            name: {
                figure.metric: figure.value
                for figure in gaps(group_counts(other, name), disclosure)[0]
                if figure.metric in METRICS and not is_ratio(figure.metric)
            }
            for name, disclosure in disclosures.items()
        },
    )
