"""How groups fare in the rounds of a block."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import gaps
from fedaudit.runs.figures import FairnessFigures
from fedaudit.training.base.round_records import RoundRecord


def fairness_of_rounds(
    disclosures: Mapping[str, Disclosure],
    records: Sequence[RoundRecord],
    *,
    declares_outcome: bool,
) -> list[FairnessFigures]:
    """The figures of each round that was validated, attribute after attribute.

    `disclosures`: of each attribute, decided from the same rows as every round scores; ValueError
    where a round scored others.
    """
    validated = [record for record in records if record.fairness]
    if not validated:
        return []
    found: list[FairnessFigures] = []
    for attribute, disclosure in disclosures.items():
        counts = np.stack([record.fairness[attribute] for record in validated])
        gaps_of_rounds = gaps(counts, disclosure.repeated(len(validated)))
        if not declares_outcome:
            counts = counts[:, :0]  # nothing was counted, which is not the same as no rows
        found += [
            FairnessFigures(
                round=record.round,
                attribute=attribute,
                figures=[figure._asdict() for figure in figures],
                counts=counted,
            )
            for record, figures, counted in zip(validated, gaps_of_rounds, counts, strict=True)
        ]
    return found
