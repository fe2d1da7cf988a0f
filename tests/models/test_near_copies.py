"""Sketches of rows: what they estimate, and how well."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.near_copies import HASH_BITS, SKETCHED, Sketch, shared_rows

hashes = st.lists(st.integers(0, 2**HASH_BITS - 1), min_size=1, max_size=100)


@given(hashes, hashes)
def test_of_short_tables_the_shares_are_exact(one: list[int], other: list[int]) -> None:
    first, second = Sketch.of(np.array(one)), Sketch.of(np.array(other))
    both = len(set(one) & set(other))
    expected = both / len(set(one)), both / len(set(other))
    if len(set(one) | set(other)) <= SKETCHED:
        assert shared_rows(first, second) == pytest.approx(expected)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9, 0.99, 1.0])
def test_of_long_tables_they_are_close(share: float) -> None:
    """Five standard errors in each of 20 pairs: fewer than one run in 10^4 fails."""
    generator = np.random.default_rng(5)
    for _ in range(20):
        rows = generator.integers(0, 2**HASH_BITS - 1, 20_000)
        kept = round(share * 10_000)
        one, other = rows[:10_000], rows[10_000 - kept : 20_000 - kept]
        jaccard = share / (2 - share)
        error = 5 * np.sqrt(jaccard * (1 - jaccard) / SKETCHED)
        found = np.array(shared_rows(Sketch.of(one), Sketch.of(other)))
        # The derivative of 2J / (1 + J) is at most 2.
        assert np.all(np.abs(found - share) <= 2 * error + 0.13 * share)


def test_a_part_is_wholly_in_its_table() -> None:
    rows = np.random.default_rng(6).integers(0, 2**HASH_BITS - 1, 30_000)
    part, whole = shared_rows(Sketch.of(rows[:10_000]), Sketch.of(rows))
    assert part > 0.8
    assert whole == pytest.approx(1 / 3, abs=0.1)
