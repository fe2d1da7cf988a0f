"""Long series are drawn by fewer points that keep extremes and gaps."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.reports.charts.line_chart import kept_places, segments

VALUE = st.none() | st.floats(-100, 100)


@st.composite
def columns(draw):
    """One to four series of the same length."""
    rounds = draw(st.integers(1, 120))
    column = st.lists(VALUE, min_size=rounds, max_size=rounds)
    return draw(st.lists(column, min_size=1, max_size=4))


@settings(max_examples=50)
@given(columns())
def test_extremes_and_both_ends_are_kept(found):
    kept = kept_places(found, most=40)
    assert kept == sorted(set(kept))
    assert len(kept) <= 40
    assert {kept[0], kept[-1]} == {0, len(found[0]) - 1}
    for column in found:
        present = [value for value in column if value is not None]
        drawn = [column[place] for place in kept if column[place] is not None]
        if present:
            assert (min(drawn), max(drawn)) == (min(present), max(present))


def test_short_series_are_kept_whole():
    assert kept_places([[1.0] * 40], most=40) == list(range(40))
    assert kept_places([], most=40) == kept_places([[]], most=40) == []


def test_a_gap_between_kept_rounds_still_breaks_the_line():
    values = [float(place) for place in range(50)]
    values[25] = None
    assert segments(range(1, 51), values, [0, 20, 30, 49]) == [[0, 20], [30, 49]]
