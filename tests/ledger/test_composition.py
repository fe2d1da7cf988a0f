"""Epsilon over several runs: the conversion of their sum, and nothing without a run."""

import numpy as np
import pytest

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, composed_epsilon


def test_curves_are_converted_after_they_were_added_up() -> None:
    # Of the Gaussian mechanism at noise 2: alpha / (2 * 2^2).
    curve = np.array(RDP_ORDERS) / 8
    once, twice = (composed_epsilon(times * curve, 1e-5) for times in (1, 2))
    # The exact Gaussian spends 1.993 once, and this bound a little more.
    assert 1.993 < once < 2.25
    assert once < twice < 2 * once
    assert composed_epsilon(curve, 1e-3) < once


def test_no_run_spends_nothing() -> None:
    assert composed_epsilon(np.zeros(len(RDP_ORDERS)), 1e-5) == 0.0


def test_a_curve_at_other_orders_is_refused() -> None:
    with pytest.raises(ValueError, match="orders, not 3"):
        composed_epsilon(np.ones(3), 1e-5)
