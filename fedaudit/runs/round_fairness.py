"""How groups fare in the rounds of a block."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import Figure, gaps, gaps_between
from fedaudit.fairness.metrics import scored_rows
from fedaudit.fairness.published_counts import Rounder
from fedaudit.reports.sections.noised_counts import WITHHELD
from fedaudit.runs.figures import FairnessFigures
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.metrics import METRICS
from fedaudit.training.base.round_records import RoundColumns


def fairness_of_rounds(
    spec: ExperimentSpec,
    disclosures: Mapping[str, Disclosure],
    played: RoundColumns,
    *,
    rounder: Rounder | None = None,
) -> list[FairnessFigures]:
    """The figures of each round that was validated, attribute after attribute.

    `disclosures`: of each attribute, [validated rounds, groups], decided from the rows that the
    rounds score; ValueError where a round scored others. `rounder`: where the counts behind the
    figures are rounded; those kept beside them, confidential, are exact.
    """
    validated = played.validated
    if not len(validated):
        return []
    rounds, pooled = played.round[validated].tolist(), played.pooled(validated)
    found: list[FairnessFigures] = []
    for attribute, disclosure in disclosures.items():
        counts = pooled[attribute]
        if spec.fairness.noise is None:
            gaps_of_rounds = _gaps(attribute, counts, disclosure, rounder)
        else:
            withheld = [Figure(metric, None, WITHHELD) for metric in METRICS]
            gaps_of_rounds = [withheld] * len(counts)
        if not spec.declares_outcome:
            counts = counts[:, :0]  # nothing was counted, which is not the same as no rows
        found += [
            FairnessFigures(
                round=round_,
                attribute=attribute,
                figures=[figure._asdict() for figure in figures],
                counts=counted,
            )
            for round_, figures, counted in zip(rounds, gaps_of_rounds, counts, strict=True)
        ]
    return found


def _gaps(
    attribute: str, counts: NDArray[np.int64], decided: Disclosure, rounder: Rounder | None
) -> list[list[Figure]]:
    """The gaps of one attribute from its counts [rounds, groups, 4].

    Exact counts decide which groups are shown, and rounded ones what is shown of them.
    """
    if rounder is None or not decided.rule.has_favourable_outcome:
        return gaps(counts, decided)
    decided.check(scored_rows(counts))
    rounded = rounder.counts(attribute, counts)
    return gaps_between(
        rounded, decided.shown, reference=decided.reference, rows=scored_rows(rounded)
    )
