"""Intervals of gaps: what each pair of groups allows, for rows that belong to clients."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, t

from benchmarks.interval_coverage import POPULATIONS, cell
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.gaps import group_rates, rate_gaps
from fedaudit.fairness.intervals import (
    Clustered,
    Interval,
    gain_intervals,
    intervals_by_group,
    rate_intervals,
)
from fedaudit.spec.metrics import FAIRNESS_FIGURES, METRICS
from tests.fairness.disclosures import disclosed_clients

GAP = "demographic_parity_difference"
RATIO = "demographic_parity_ratio"


def of_shares(*shares, of_client=1, alike=False):
    """Counts [clients, groups, 4] with so many of so many rows predicted favourable in each group,
    in clients of `of_client` rows; `alike`: those of a client all the same."""
    clients = []
    for group, (hits, rows) in enumerate(shares):
        favoured = np.arange(rows) < hits
        if not alike:  # dealt out in turn
            favoured = favoured.reshape(of_client, -1).T.ravel()
        for own in favoured.reshape(-1, of_client):
            counts = np.zeros((len(shares), 4), dtype=np.int64)
            counts[group] = own.sum(), 0, 0, of_client - own.sum()
            clients.append(counts)
    return np.array(clients)


def intervals(counts, *, level=0.95, **rule):
    disclosure = disclosed_clients(counts, **{"minimum_group_size": 1, **rule})
    return rate_intervals(counts, disclosure, level=level)


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((5, 56), (0, 29), 0.0, 0.1926),
        ((0, 10), (0, 20), 0.0, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
    ],
)
def test_two_groups_of_single_rows_have_newcombes_interval(one, other, low, high):
    """Table II of Newcombe (1998), method 10: of the distance, so a lower end below 0 is 0."""
    found = intervals(of_shares(one, other))[GAP]
    assert (found.low, found.high) == (pytest.approx(low, abs=6e-5), pytest.approx(high, abs=6e-5))


def test_a_model_that_never_says_yes_is_not_shown_to_treat_groups_alike():
    for of_client, worth in ((1, 100), (10, 10)):
        counts = of_shares((0, 100), (0, 100), of_client=of_client)
        found = intervals(counts)[GAP]
        # Wilson's upper end at 0 of as many rows as there are clients.
        assert found.low == 0
        assert found.high == pytest.approx(1.959964**2 / (worth + 1.959964**2))
        assert intervals(counts)[RATIO] == Interval(0.0, 1.0, None)


def test_rows_of_a_client_count_as_often_as_clients_differ():
    single = intervals(of_shares((30, 60), (45, 60)))[GAP]
    evenly = intervals(of_shares((30, 60), (45, 60), of_client=4))[GAP]
    alike = intervals(of_shares((32, 60), (44, 60), of_client=4, alike=True))[GAP]
    fifteen = intervals(of_shares((8, 15), (11, 15)))[GAP]
    assert evenly == single  # never more than the rows
    assert (alike.low, alike.high) == pytest.approx((fifteen.low, fifteen.high))


def test_a_group_of_one_client_is_worth_one_row():
    counts = of_shares((25, 50), (25, 50), of_client=50)
    found = intervals(counts)[GAP]
    assert (found.low, found.high) == (0.0, pytest.approx(0.6299, abs=1e-4))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    groups=st.integers(2, 6),
    clients=st.sampled_from([1, 5, 40]),
    most=st.sampled_from([1, 3, 30]),
    reference=st.booleans(),
)
def test_every_interval_holds_its_gap_and_a_higher_level_is_wider(
    seed, groups, clients, most, reference
):
    counts = np.random.default_rng(seed).integers(0, most + 1, (clients, groups, 4))
    rule = DisclosureRule(1, reference=0 if reference else None)
    disclosure = rule.decide(counts.sum(axis=(0, 2)))
    if not disclosure.shown.all():
        return
    values = rate_gaps(group_rates(counts.sum(0)), disclosure.shown, reference=disclosure.reference)
    found = rate_intervals(counts, disclosure, level=0.9)
    wider = rate_intervals(counts, disclosure, level=0.99)
    for name, value in zip(METRICS, values.tolist(), strict=True):
        if np.isnan(value) or found[name].low is None:
            continue
        ends = wider[name].low, found[name].low, value, found[name].high, wider[name].high
        assert list(ends) == pytest.approx(sorted(ends), abs=1e-12)
        assert wider[name].low >= 0
        assert wider[name].high <= 1


def test_what_is_suppressed_changes_no_interval():
    counts = of_shares((30, 60), (45, 60), (4, 6), (5, 8))
    other = of_shares((30, 60), (45, 60), (1, 6), (7, 8))
    assert intervals(counts, minimum_group_size=30) == intervals(other, minimum_group_size=30)
    assert intervals(counts)[GAP] != intervals(other)[GAP]
    with pytest.raises(ValueError, match="are not those whose disclosure was decided"):
        rate_intervals(counts, disclosed_clients(counts[1:]), level=0.9)
    assert all(found.low is None for found in intervals(counts, minimum_group_size=900).values())


def test_of_what_single_clients_do_two_digits_are_disclosed():
    """The attack: a client's own figures from an interval whose other parts are known."""
    # Both have 150 of 300 rows, and clients whose squares differ by little.
    counts = np.tile(of_shares((150, 300), (150, 300), of_client=10), (1, 1, 1))
    moved = counts.copy()
    moved[0, 0, [0, 3]] += (1, -1)
    moved[1, 0, [0, 3]] += (-1, 1)
    assert moved.sum(0).tolist() == counts.sum(0).tolist()
    counts[2:20, 0, 0], counts[2:20, 0, 3] = np.tile([1, 9], 9), np.tile([9, 1], 9)
    moved[2:20, 0] = counts[2:20, 0]
    assert intervals(counts) == intervals(moved)


def test_intervals_of_rounded_counts_follow_from_these():
    published = np.array([[55, 0, 0, 45], [30, 0, 0, 70]])
    found = set()
    for one, other in ((52, 33), (54, 31)):
        counts = of_shares((one, 100), (other, 100))
        disclosure = disclosed_clients(counts)
        found.add(rate_intervals(counts, disclosure, level=0.95, published=published)[GAP])
    assert found == {intervals(of_shares((55, 100), (30, 100)))[GAP]}


def test_what_clients_have_in_common_cancels_in_a_difference():
    rng = np.random.default_rng(1)
    hits = np.clip(rng.integers(20, 80, (40, 1)) + rng.integers(-3, 4, (40, 2)), 0, 100)
    none = np.zeros_like(hits)
    together = np.stack([hits, none, none, 100 - hits], axis=-1)
    apart = np.concatenate([together * [[1], [0]], together * [[0], [1]]])
    near, far = intervals(together), intervals(apart)
    for name in (GAP, RATIO):
        assert near[name].high - near[name].low < 0.5 * (far[name].high - far[name].low)


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda one: one.name)
@pytest.mark.parametrize(("groups", "rows", "of_client"), [(2, 10, 1), (2, 100, 5), (4, 30, 1)])
def test_intervals_hold_the_true_gap(population, groups, rows, of_client):
    """A reduced `python -m benchmarks.interval_coverage`: 200 draws a population.

    An interval that truly holds the gap in 95 % does so in fewer than 177 of 200 draws in 1 of
    7,000 cases (binomial tail), one that does in 85 % in more than nine of ten.
    """
    found = cell(population, groups=groups, rows=rows, of_client=of_client, draws=200)
    assert list(found) == list(FAIRNESS_FIGURES)
    for name, one in found.items():
        missed = round(one["draws"] * (1 - (one["coverage"] or 0.0)))
        assert missed <= 14, name


def by_group(counts, **rule):
    disclosure = disclosed_clients(counts, **{"minimum_group_size": 1, **rule})
    return intervals_by_group(counts, disclosure, level=0.95)


def test_a_group_of_single_rows_has_wilsons_interval_by_itself():
    """However many groups it is compared with."""
    for others in ([(48, 80)], [(48, 80), (9, 10), (5, 30)]):
        low, high = by_group(of_shares((56, 70), *others))["selection_rate"]
        wilson = binomtest(56, 70).proportion_ci(0.95, method="wilson")
        assert (low[0], high[0]) == (pytest.approx(wilson.low), pytest.approx(wilson.high))


def test_a_group_of_alike_clients_is_worth_as_many_rows_as_clients():
    counts = of_shares((50, 100), (50, 100), of_client=10, alike=True)
    low, high = by_group(counts)["selection_rate"]
    few = binomtest(5, 10).proportion_ci(0.95, method="wilson")
    assert (low[0], high[0]) == (pytest.approx(few.low), pytest.approx(few.high))


def test_the_interval_of_a_group_covers_its_rate_where_rows_are_clustered():
    generator, covered = np.random.default_rng(8), 0
    for _ in range(300):
        shares = generator.beta(3, 3, size=(40, 2))
        hits = generator.binomial(8, shares)
        counts = np.zeros((40, 2, 4), dtype=np.int64)
        counts[..., 0], counts[..., 3] = hits, 8 - hits
        low, high = by_group(counts)["selection_rate"]
        covered += np.count_nonzero((low <= 0.5) & (high >= 0.5))
    assert 0.93 <= covered / 600 <= 0.995


def test_groups_that_are_hidden_or_not_compared_have_no_interval():
    counts = of_shares((30, 60), (45, 60), (9, 20), (7, 16))
    for low, high in by_group(counts, minimum_group_size=30).values():
        assert np.isnan(low[2:]).all()
        assert np.isnan(high[2:]).all()
    assert np.isfinite(by_group(counts, minimum_group_size=30)["selection_rate"][0][:2]).all()
    assert by_group(counts, minimum_group_size=900) == {}


@given(st.lists(st.integers(-10, 10), min_size=20, max_size=60).filter(any))
def test_ends_of_a_gain_are_those_of_student_with_two_added_clients(gains: list[int]) -> None:
    clients, rows = len(gains), np.full(len(gains), 10)
    sums = np.array(gains)
    total, size = sums.sum(), rows.sum()

    def end(added: float, way: int) -> tuple[float, float]:
        """The end by the formula, and what rounding its error up to two digits may add."""
        value = total / (size + 2 * added)
        squares = ((sums - value * rows) ** 2).sum() + 2 * added**2 * (1 + value**2)
        error = np.sqrt(clients / (clients - 1) * squares) / (size + 2 * added)
        wide = t.ppf(0.975, clients - 1) * error
        return value + way * wide, 0.1 * wide

    share = abs(total) / size
    spread = clients / (clients - 1) * ((sums - total / size * rows) ** 2).sum() / size
    effect = spread / (share * (1 - share)) if 0 < share < 1 else 0.0
    near, far = np.clip(effect, 1, 10) if effect > 0 else 10.0, 10.0
    [found] = gain_intervals(
        Clustered(np.stack([sums, rows], axis=-1)[:, np.newaxis]), level=0.95, are_shares=True
    )
    for one, added, way in (
        (found.low, near if total > 0 else far, -1),
        (found.high, far if total > 0 else near, 1),
    ):
        expected, more = end(added, way)
        assert -1e-9 <= way * (one - expected) <= more + 1e-9


@pytest.mark.parametrize(("clients", "most"), [(40, 0.025), (100, 0.03)])
def test_a_gain_in_loss_is_seldom_shown_where_one_client_in_ten_is_far_worse(clients, most):
    """2,000 draws with a true gain of 0; Student's t alone shows one in 8 % and 6 %. With a chance
    of an error of `most`, more than `most` + 0.008 come with a chance below 1 %."""
    drawn = np.random.default_rng(4)
    far = drawn.random((clients, 2000)) < 0.1
    gains = np.where(far, -9.0, 1.0) + drawn.normal(0, 0.3, far.shape)
    own = Clustered(np.stack([gains, np.ones_like(gains)], axis=-1))
    found = gain_intervals(own, level=0.95, are_shares=False)
    assert np.mean([one.low is not None and one.low > 0 for one in found]) <= most + 0.008
    error = gains.std(axis=0, ddof=1) / clients**0.5
    half = t.ppf(0.975, clients - 1) * error
    for one, mean, wide in zip(found, gains.mean(axis=0), half, strict=True):
        assert one.low is not None
        assert one.high is not None
        assert one.low <= mean - wide + 1e-9
        assert one.high >= mean + wide - 1e-9
