"""The fast way writes what the package of the standard writes."""

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedaudit.reports.checks import canonical_json

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(-1.0, 1.0) | st.integers()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=150)
@given(VALUES)
@example(
    [0.0, -0.0, 1e-4, 9.9e-5, 1e-6, 1e-7, 1e15, 1e16, 1e21, 2.0**53, 0.1, 123456789.125, 1e300]
)
@example({"\u20ac": 1, "\r": 2, "\U0001f600": 3, "1": 4, "\u0080": 5, "\ufb33": 6})
@example(['\x00\x1f\x7f\u2028"\\/', (1, 2.5), 2**53 - 1])
def test_it_is_that_of_the_standard(value):
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as refused:
        with pytest.raises(type(refused)):
            canonical_json(value)
    else:
        assert canonical_json(value) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, "\ud800", {1: 2}, {"a": {1}}])
def test_what_has_no_form_is_refused(value):
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json([value])
