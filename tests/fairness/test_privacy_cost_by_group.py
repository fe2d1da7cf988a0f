"""Which clients belong to which groups, and what they went through on average and at most."""

import numpy as np
import pytest

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.privacy_cost_by_group import membership

RELEASES = np.array([4, 2, 0, 6])


def test_clients_of_one_group_each_count_the_same():
    rows = np.array([[90, 0], [10, 0], [0, 50], [0, 1]])
    found = membership(rows, DisclosureRule(1))
    assert found.unit == "client"
    assert found.mean(RELEASES).tolist() == [3, 3]
    assert found.largest(RELEASES).tolist() == [4, 6]
    assert found.total(RELEASES).tolist() == [6, 6]
    assert found.clients.tolist() == [2, 2]


def test_clients_of_several_groups_count_by_their_rows():
    rows = np.array([[90, 10], [10, 0], [0, 50], [0, 40]])
    found = membership(rows, DisclosureRule(1))
    assert found.unit == "record"
    assert found.mean(RELEASES).tolist() == pytest.approx(
        [(90 * 4 + 10 * 2) / 100, (10 * 4 + 50 * 0 + 40 * 6) / 100]
    )
    assert found.largest(RELEASES).tolist() == [4, 6]
    assert found.clients.tolist() == [2, 3]


def test_clients_without_rows_are_in_no_group():
    rows = np.array([[9, 0], [9, 0], [0, 0], [0, 9], [0, 9]])
    found = membership(rows, DisclosureRule(1))
    assert found.mean(np.array([1, 1, 99, 2, 2])).tolist() == [1, 2]
    assert found.largest(np.array([1, 1, 99, 2, 2])).tolist() == [1, 2]


def test_small_groups_and_single_clients_are_hidden_with_another_beside_them():
    rows = np.zeros((9, 4), dtype=np.int64)
    rows[:3, 0], rows[3:6, 1], rows[6:8, 2], rows[8, 3] = 100, 50, 40, 300
    found = membership(rows, DisclosureRule(30))
    # g3 has one client; the smallest of the others is kept back with it.
    assert found.disclosure.shown.tolist() == [True, True, False, False]
    # g2 has too few rows, and g1 is kept back with it, whatever is hidden besides.
    larger = membership(rows, DisclosureRule(130)).disclosure
    assert larger.shown.tolist() == [True, False, False, False]
