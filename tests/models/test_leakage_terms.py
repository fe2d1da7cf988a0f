"""The radius and the clip in a budget's key: equal numbers, equal words, and short enough."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.leakage_terms import LeakageTerms
from models.tables.base import Word

_RADII = st.just("adaptive") | st.floats(1e-12, 1e12)
_CLIPS = st.none() | st.floats(min_value=0, max_value=1e12, exclude_min=True)


@given(radius=_RADII, clip=_CLIPS)
def test_the_words_of_a_key_are_read_back_and_fit(radius: float | str, clip: float | None) -> None:
    terms = LeakageTerms(radius, clip)
    assert LeakageTerms.read(terms.key) == terms
    assert len(terms.key) <= Word.length


def test_equal_numbers_have_equal_words() -> None:
    assert LeakageTerms(1, 2).key == LeakageTerms(1.0, 2.0).key
    assert LeakageTerms(0.1 + 0.2, None).key != LeakageTerms(0.3, None).key


def test_no_words_are_terms_that_nobody_recorded() -> None:
    assert LeakageTerms.read("") is None
    with pytest.raises(ValueError, match="radius"):
        LeakageTerms.read("add-or-remove-one")


def test_a_mechanism_without_a_fixed_radius_is_adaptive() -> None:
    assert LeakageTerms.of(radius=None, clip=None) == LeakageTerms("adaptive", None)
    assert str(LeakageTerms.of(radius=0.5, clip=0.25)) == "radius 0.5 and clip 0.25"
