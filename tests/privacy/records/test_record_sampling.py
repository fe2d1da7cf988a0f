"""Poisson sampling of records: each one's chance is its own, and layout makes no difference.

Statistical checks use fixed seeds and reject at `FALSE_ALARM`. The catalogue of broken samplers is
in `test_broken_mechanisms`.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedaudit.privacy.records.record_use import sampled_rows, tossed_coins
from fedaudit.randomness import CounterSource, EntropySource

FALSE_ALARM = 1e-6
STEPS = np.arange(4000)


@pytest.mark.parametrize("source", [CounterSource(1), EntropySource()], ids=["counter", "entropy"])
def test_every_record_has_its_own_chance(source: CounterSource | EntropySource) -> None:
    inclusion = np.array([0.0, 0.001, 0.05, 0.3, 0.9, 1.0])
    taken = tossed_coins(source, steps=STEPS, silos=3, inclusion=inclusion)
    assert taken.shape == (len(STEPS), len(inclusion))
    counts = taken.sum(0)
    assert (counts[0], counts[-1]) == (0, len(STEPS))
    for count, q in zip(counts[1:-1], inclusion[1:-1], strict=True):
        assert stats.binomtest(int(count), len(STEPS), q).pvalue > FALSE_ALARM


def test_coins_of_records_steps_and_silos_are_independent() -> None:
    inclusion = np.full((2, 40), 0.5)
    taken = tossed_coins(
        CounterSource(2), steps=STEPS[:, None], silos=np.array([0, 1]), inclusion=inclusion
    ).astype(float)
    for one, other in (
        (taken[:, :, 1:], taken[:, :, :-1]),
        (taken[1:], taken[:-1]),
        (taken[:, 0], taken[:, 1]),
    ):
        assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > FALSE_ALARM
    # Sizes of batches spread as independent coins do: neither fixed nor in clumps.
    variance = taken.sum(-1).ravel().var(ddof=1) * (2 * len(STEPS) - 1) / 10
    tail = stats.chi2(2 * len(STEPS) - 1).cdf(variance)
    assert FALSE_ALARM < tail < 1 - FALSE_ALARM


def test_an_empty_batch_stays_empty() -> None:
    taken = tossed_coins(CounterSource(3), steps=STEPS, silos=0, inclusion=np.full(3, 0.1))
    empty = int((taken.sum(1) == 0).sum())
    assert stats.binomtest(empty, len(STEPS), 0.9**3).pvalue > FALSE_ALARM


@given(st.integers(0, 2**64 - 1), st.integers(1, 50), st.integers(0, 40))
def test_a_coin_depends_on_seed_silo_step_and_record_alone(seed: int, rows: int, more: int) -> None:
    chances = np.random.default_rng(rows).uniform(size=(3, rows))
    padded = np.pad(chances, ((0, 0), (0, more)))
    together = tossed_coins(
        CounterSource(np.array([seed, 1, 2], dtype=np.uint64)),
        steps=np.array([5, 9])[:, None],
        silos=np.array([4, 0, 7]),
        inclusion=padded,
    )
    assert not together[..., rows:].any()
    alone = tossed_coins(CounterSource(seed), steps=9, silos=4, inclusion=chances[0])
    assert np.array_equal(together[1, 0, :rows], alone)


def test_a_chance_is_rounded_down() -> None:
    words = CounterSource(1)
    assert not tossed_coins(
        words, steps=STEPS, silos=0, inclusion=np.full(100, 2.0**-33)
    ).any()  # less than one word in 2**32
    # Coins of a larger chance hold those of a smaller one.
    small, large = (
        tossed_coins(words, steps=STEPS, silos=0, inclusion=np.full(9, q)) for q in (0.2, 0.3)
    )
    assert np.all(large[small])


@pytest.mark.parametrize("q", [-1e-9, 1 + 1e-9, np.nan])
def test_chances_outside_0_and_1_are_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        tossed_coins(CounterSource(1), steps=0, silos=0, inclusion=np.array([0.5, q]))


@given(st.integers(0, 3), st.integers(1, 5), st.integers(0, 30), st.integers(0, 2**31))
def test_sampled_rows_lie_in_front(steps: int, silos: int, rows: int, seed: int) -> None:
    taken = np.random.default_rng(seed).uniform(size=(steps, silos, rows)) < 0.3
    found, sizes = sampled_rows(taken)
    assert found.shape == (steps, silos, sizes.max(initial=0))
    for step in range(steps):
        for silo in range(silos):
            expected = np.nonzero(taken[step, silo])[0]
            size = int(sizes[step, silo])
            assert np.array_equal(found[step, silo, :size], expected)
            assert not found[step, silo, size:].any()
