"""What rows that come by clients are worth."""

import numpy as np
import pytest

from fedaudit.attacks.membership.member_rates import clopper_pearson, clustered_interval


def test_independent_trials_are_worth_what_they_are() -> None:
    hits = np.arange(200) < 30
    found = clustered_interval(hits, np.arange(200), confidence=0.95)
    assert found == clopper_pearson(30, 200, confidence=0.95)


def test_rows_of_a_client_that_are_all_alike_are_worth_one() -> None:
    hits = np.repeat(np.arange(40) < 8, 25)
    found = clustered_interval(hits, np.repeat(np.arange(40), 25), confidence=0.95)
    plain = clopper_pearson(8, 40, confidence=0.95)
    assert found.low == pytest.approx(plain.low, abs=0.02)
    assert found.high == pytest.approx(plain.high, abs=0.02)


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
