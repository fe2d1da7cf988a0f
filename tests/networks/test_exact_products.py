"""Products that are the same whatever order they are added up in."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.networks.record_gradients import exact_product


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 40), st.integers(1, 70), st.integers(1, 9), st.integers(0, 2**31))
def test_the_order_of_the_sum_says_nothing(rows, inner, width, seed):
    left, right = normal(rows, inner, seed=seed), normal(inner, width, seed=seed + 1)
    left *= 10 ** torch.linspace(-20, 20, rows)[:, None]
    order = torch.from_numpy(np.random.default_rng(seed).permutation(inner))
    found = exact_product(left, right)
    assert torch.equal(exact_product(left[:, order], right[order]), found)
    for row in range(rows):
        assert torch.equal(exact_product(left[[row]], right)[0], found[row])


@pytest.mark.parametrize("inner", [1, 60, 784, 2047, 2048, 5000])
def test_all_sums_are_integers_below_two_to_the_53(inner):
    """As large as they can be: all numbers alike, just below a power of two."""
    largest = math.nextafter(2.0, 0)
    alike = torch.full((3, inner), largest)
    found = exact_product(alike, alike.t())
    bits = (53 - inner.bit_length()) // 2
    rounded = round(float(alike[0, 0]) * 2 ** (bits - 1))
    assert found.tolist() == [[inner * rounded**2 / 4 ** (bits - 1)] * 3] * 3
    assert inner * rounded**2 <= 2**53


@pytest.mark.parametrize("inner", [10, 784, 4000])
def test_it_is_as_near_as_numbers_of_21_bits_allow(inner):
    left, right = normal(50, inner), normal(inner, 20, seed=2)
    exact = left.double() @ right.double()
    lengths = left.double().norm(dim=1, keepdim=True) * right.double().norm(dim=0)
    assert ((exact_product(left, right) - exact).abs() / lengths).max() < 2.0**-18
    assert torch.equal(exact_product(torch.zeros(2, inner), right), torch.zeros(2, 20))


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_so_as_a_whole_and_alone(broken):
    left, right = normal(4, 6), normal(6, 3, seed=2)
    clean = exact_product(left, right)
    left[2, 4] = broken
    found = exact_product(left, right)
    assert not found[2].isfinite().any()
    others = [0, 1, 3]
    assert torch.equal(found[others], clean[others])


def test_the_largest_and_smallest_numbers_of_single_precision():
    left = torch.tensor([[3e38, -3e38, 1e38], [1e-45, 2e-45, 0.0]])
    right = torch.tensor([[3e38], [3e38], [3e38]])
    found = exact_product(left, right)
    assert found.isfinite().all()
    torch.testing.assert_close(found, left.double() @ right.double(), rtol=1e-5, atol=1e70)
