"""Which groups are shown, and that a hidden one cannot be worked out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.fairness.suppression import shown_groups


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([30, 31, 100], [True, True, True]),
        ([29, 31, 100], [False, False, True]),  # the smallest other is hidden beside it
        ([29, 100, 31, 5], [False, True, True, False]),
        ([29, 30], [False, False]),
        ([29], [False]),
        ([0, 40, 50], [False, True, True]),  # nobody is hidden by an empty group
        ([0, 1, 40, 50], [False, False, False, True]),
        # Together the hidden have fewer than 30 rows, which the total would tell all the same.
        ([10, 15, 40, 50], [False, False, False, True]),
        ([10, 20, 40, 50], [False, False, True, True]),
        ([], []),
    ],
)
def test_small_groups_are_hidden_with_their_complement(rows, shown):
    found = shown_groups(np.array(rows, dtype=np.int64), minimum_group_size=30) if rows else []
    assert list(found) == shown


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=8),
    st.integers(1, 40),
)
def test_never_is_one_group_hidden_alone_nor_few_rows(rounds, minimum):
    rows = np.array(rounds, dtype=np.int64)
    shown = shown_groups(rows, minimum_group_size=minimum)
    assert (rows[shown] >= minimum).all()
    hidden = ((rows > 0) & ~shown).sum(axis=-1)
    with_rows = (rows > 0).sum(axis=-1)
    assert ((hidden != 1) | (with_rows == 1)).all()
    together = np.where(shown, 0, rows).sum(axis=-1)
    assert ((together == 0) | (together >= minimum) | ~shown.any(axis=-1)).all()
    for position, alone in enumerate(rows):
        assert (shown[position] == shown_groups(alone, minimum_group_size=minimum)).all()
