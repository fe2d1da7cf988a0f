"""What rows that come by clients are worth."""

import numpy as np
import pytest

from fedaudit.attacks.membership.member_rates import clopper_pearson, clustered_interval


def test_rows_are_worth_as_many_as_are_independent() -> None:
    hits = np.arange(200) < 30
    found = clustered_interval(hits, np.arange(200), confidence=0.95)
    plain = clopper_pearson(30, 200, confidence=0.95)
    assert found == plain
    # Rows of a client that are all alike are worth one.
    alike = clustered_interval(np.repeat(hits, 5), np.repeat(np.arange(200), 5), confidence=0.95)
    assert (alike.low, alike.high) == pytest.approx((plain.low, plain.high), abs=0.01)


def test_it_covers_a_share_that_differs_between_clients() -> None:
    # 600 samples of 50 clients of 20 rows, whose own shares scatter around 5 %. With a coverage of
    # 95 % fewer than 92 % would cover it once in 2,000 times.
    random = np.random.default_rng(5)
    clients, covered, plainly = np.repeat(np.arange(50), 20), 0, 0
    for _ in range(600):
        shares = np.repeat(random.beta(0.5, 9.5, 50), 20)
        hits = random.random(1000) < shares
        found = clustered_interval(hits, clients, confidence=0.95)
        covered += found.low <= 0.05 <= found.high
        plain = clopper_pearson(int(hits.sum()), 1000, confidence=0.95)
        plainly += plain.low <= 0.05 <= plain.high
    assert covered / 600 > 0.92
    assert plainly / 600 < 0.90  # rows as if they were independent
