"""Pareto fronts, against the definition taken word by word."""

from hypothesis import given
from hypothesis import strategies as st

from fedaudit.reports.comparison.fronts import dominated_by

POINTS = st.integers(1, 4).flatmap(
    lambda axes: st.lists(
        st.lists(st.integers(0, 3).map(float), min_size=axes, max_size=axes), max_size=12
    )
)


def test_by_hand():
    # The second is worse on one axis alone; the third equals the first; the fourth trades.
    assert dominated_by([(1, 1), (1, 2), (1, 1), (0, 3)]) == [[], [0, 2], [], []]
    assert dominated_by([]) == []
    assert dominated_by([(5.0,)]) == [[]]


@given(POINTS)
def test_whoever_is_nowhere_better_and_not_equal_is_dominated(points):
    found = dominated_by(points)
    for i, one in enumerate(points):
        for j, other in enumerate(points):
            beats = one != other and all(a <= b for a, b in zip(one, other, strict=True))
            assert (i in found[j]) == beats
