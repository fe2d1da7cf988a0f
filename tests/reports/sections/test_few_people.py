"""Rates that may rest on few people are found from what is published of them."""

import numpy as np
import pytest

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.intervals import intervals_by_group
from fedaudit.reports.sections.fairness import group_sections, with_rate_intervals
from fedaudit.reports.sections.few_people import rests_on_few

LEAST = 30


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 1.0])
def test_fewer_than_the_minimum_are_noted_and_as_many_are_not(share: float) -> None:
    """Each row is a client by itself, so that intervals are those of rows drawn one by one."""
    for positives, noted in ((5, True), (LEAST - 1, True), (LEAST, False), (90, False)):
        right = round(positives * share)
        kinds = np.repeat(np.arange(4), [right, 40, 80, positives - right])
        one = np.eye(4, dtype=np.int64)[kinds]
        counts = np.stack([one, one], axis=1)  # two groups that fare alike
        disclosure = DisclosureRule(LEAST).decide(counts.sum(axis=(0, 2)))
        shown = group_sections(["a", "b"], counts.sum(0), disclosure, scores=None, root_mean=False)
        ends = intervals_by_group(counts, disclosure, level=0.95)
        for group in with_rate_intervals(shown, ends, level=0.95):
            found = group.model_dump()
            assert rests_on_few(found, "true_positive_rate", least=LEAST) is noted
            assert not rests_on_few(found, "selection_rate", least=LEAST)
            assert not rests_on_few(
                {**found, "rate_intervals": None}, "selection_rate", least=LEAST
            )
