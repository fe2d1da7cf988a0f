"""Disclosure of made-up groups."""

import numpy as np

from fedaudit.fairness.combination import IntersectionTable
from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule


def disclosed(
    rows,
    *,
    minimum_group_size: int = 1,
    reference: int | None = None,
    combination: IntersectionTable | None = None,
) -> Disclosure:
    """Of groups with so many rows: [..., groups]."""
    rule = DisclosureRule(minimum_group_size, reference=reference, combination=combination)
    return rule.decide(np.asarray(rows, dtype=np.int64))


def disclosed_counts(counts, **changes) -> Disclosure:
    """Of counts [..., groups, 4]."""
    return disclosed(scored_rows(np.asarray(counts)), **changes)


def disclosed_clients(client_counts, **changes) -> Disclosure:
    """Of all clients' rows together, from counts [clients, groups, 4]."""
    return disclosed_counts(np.sum(client_counts, axis=0), **changes)


def disclosed_scores(scores, **changes) -> Disclosure:
    """Of the rows of `GroupScores`."""
    return disclosed(scores.rows.sum(axis=0), **changes)
