"""Canonical JSON is that of the library, whichever way it is made."""

import math

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.spec.canonical import canonical_json

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.integers(-400, 400).map(lambda power: 2.0**power),
    st.integers(-30, 30).map(lambda power: 10.0**power),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner) | st.tuples(inner, inner),
)


@given(VALUES)
def test_values_are_written_as_by_the_library(value):
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "names", [["\ue000", "\U00010000"], ["\uffff", "\U0010ffff", "a"], ["é", "z"], ["10", "9", ""]]
)
def test_names_are_in_the_order_of_utf_16(names):
    value = dict.fromkeys(names, -0.0)
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [2**53, -(2**53), math.nan, -math.inf, {1: 2}, {1: 2, "a": 3}, object(), "\ud800"]
)
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json([value])
