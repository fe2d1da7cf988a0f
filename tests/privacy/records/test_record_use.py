"""Budgets of records: the paper's distributions, and columns.

Statistical tests draw 40,000 budgets from a fixed seed; each would fail with chance below 1e-5 for
a random one.

Poisson sampling of records: each one's chance is its own, and layout makes no difference.

Statistical checks use fixed seeds and reject at `FALSE_ALARM`.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import kstest, norm

from fedaudit.privacy.records.record_use import (
    drawn_budgets,
    given_budgets,
    sampled_rows,
    tossed_coins,
)
from fedaudit.randomness import CounterSource, EntropySource
from fedaudit.spec.errors import InvalidInputError
from tests.privacy.specs_of_privacy import records_spec
from tests.refusals import refused_by

DISTRIBUTIONS = ("three-levels", "bounded-pareto", "bounded-mix-gauss")


def drawn(distribution, *, seed=5, keys=range(40_000), low=1e-9, high=1e9):
    spec = records_spec(distribution=distribution)
    privacy = spec.privacy.model_copy(update={"epsilon_min": low, "epsilon_max": high})
    spec = spec.model_copy(update={"seed": seed, "privacy": privacy})
    return drawn_budgets(spec, keys=np.array(keys, dtype=np.uint64))


def test_three_levels_in_their_shares_and_in_no_order():
    budgets = drawn("three-levels")
    for level, share in ((0.1, 0.7), (1.0, 0.2), (5.0, 0.1)):
        assert (budgets == level).mean() == pytest.approx(share, abs=0.012)
    assert (budgets[:20_000] == 0.1).mean() == pytest.approx(0.7, abs=0.016)
    assert np.isin(budgets, [0.1, 1.0, 5.0]).all()


def test_pareto_is_that_of_numpy():
    budgets = drawn("bounded-pareto")
    assert kstest(budgets, lambda x: 1 - (1 + x - 0.1) ** -4.0).pvalue > 1e-5
    same = np.random.default_rng(1).pareto(4, size=40_000) + 0.1
    assert np.median(budgets) == pytest.approx(np.median(same), rel=0.05)


def test_a_mixture_of_three_normals():
    budgets = drawn("bounded-mix-gauss", low=1e-9)
    positive = budgets[budgets > 1e-9]
    parts = ((0.7, 0.1, 0.05), (0.2, 1.0, 0.1), (0.1, 5.0, 0.5))

    def below(x):
        return sum(share * norm.cdf(x, mean, spread) for share, mean, spread in parts)

    missing = below(1e-9)
    assert kstest(positive, lambda x: (below(x) - missing) / (1 - missing)).pvalue > 1e-5


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_draws_are_clipped_to_the_range(distribution):
    budgets = drawn(distribution, low=0.3, high=2.0)
    assert (budgets.min(), budgets.max()) == (0.3, 2.0)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_record_more_changes_no_other_budget(distribution):
    few = drawn(distribution, keys=(7, 2**64 - 1, 3, 2**32))
    more = drawn(distribution, keys=(7, 5, 2**64 - 1, 3, 6, 2**32))
    assert (more[[0, 2, 3, 5]] == few).all()
    assert (drawn(distribution, seed=6) != drawn(distribution)).any()


def test_no_records_no_budgets():
    assert drawn("three-levels", keys=()).shape == (0,)


def test_a_column_is_capped_and_never_raised():
    budgets = given_budgets([1e-6, 0.5, 20.0], rows=[1, 2, 3], epsilon_max=10.0)
    assert budgets.tolist() == [1e-6, 0.5, 10.0]


def test_what_is_no_budget_is_refused_by_row():
    values = [0.5, np.nan, np.inf, 0.0, -0.125, -np.inf, 1.0]
    refused = refused_by(given_budgets, values, rows=np.arange(101, 108), epsilon_max=10.0)
    messages = [error.message for error in refused]
    assert [error.pointer for error in refused] == ["/privacy/budgets/column"] * 4
    assert "no number in row 102" in messages[0]
    assert "an infinite budget in rows 103, 106" in messages[1]
    assert "a budget of zero in row 104" in messages[2]
    assert "a negative budget in row 105" in messages[3]
    assert not any("0.125" in message for message in messages)


def test_many_faulty_rows_are_counted():
    with pytest.raises(InvalidInputError, match=r"rows 1, 2, 3, 4, 5 and 15 more"):
        given_budgets(np.zeros(20), rows=np.arange(1, 21), epsilon_max=1.0)


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
