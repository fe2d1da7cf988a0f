"""Curves of samples of a fixed size are the library's, whatever is kept on the way to them."""

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as library
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.accounting.rdp import RDP_ORDERS, fixed_size_curve

_SOME = tuple(order for order in RDP_ORDERS if order < 20)


@pytest.mark.parametrize(("rate", "noise"), [(0.1, 2.0), (1e-5, 5e-4), (0.9, 50.0), (1.0, 3.0)])
def test_every_order_has_the_librarys_number_to_the_last_bit(rate: float, noise: float) -> None:
    theirs = library._compute_rdp_sample_wor_gaussian(rate, noise, list(RDP_ORDERS))
    assert np.array_equal(fixed_size_curve(rate, noise, RDP_ORDERS), theirs)


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(1e-9, 1.0), noise=st.floats(1e-3, 1e6))
def test_so_it_has_at_any_rate_and_noise(rate: float, noise: float) -> None:
    theirs = library._compute_rdp_sample_wor_gaussian(rate, noise, list(_SOME))
    assert np.array_equal(fixed_size_curve(rate, noise, _SOME), theirs, equal_nan=True)
