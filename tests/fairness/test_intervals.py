"""Intervals of gaps: what each pair of groups allows, for rows that belong to clients."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binomtest, t

from benchmarks.interval_coverage import POPULATIONS, cell
from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.fairness.gaps import GroupScores, group_rates, rate_gaps
from fedaudit.fairness.intervals import (
    NOT_ESTIMABLE,
    Clustered,
    Interval,
    exact_limits,
    gain_intervals,
    intervals_by_group,
    rate_intervals,
    score_intervals,
)
from fedaudit.spec.metrics import COUNTS, FAIRNESS_FIGURES, KINDS, METRICS, RATES
from tests.fairness.disclosures import disclosed_clients, disclosed_scores
from tests.fairness.formulas import share_ends, student, up

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
        assert intervals(counts)[RATIO] == Interval(0.0, 1.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**31),
    groups=st.integers(2, 6),
    clients=st.sampled_from([1, 5, 40]),
    most=st.sampled_from([1, 3, 30]),
    reference=st.booleans(),
    apart=st.booleans(),
)
def test_every_interval_holds_its_gap_and_a_higher_level_is_wider(
    seed, groups, clients, most, reference, apart
):
    """A level is wider where no client has rows of two groups: their correlation, once each end is
    further away, may take off more."""
    counts = np.random.default_rng(seed).integers(0, most + 1, (clients, groups, 4))
    if apart:
        own = np.arange(clients) % groups
        counts *= (own[:, None] == np.arange(groups))[..., None]
    rule = DisclosureRule(1, reference=0 if reference else None)
    disclosure = rule.decide(counts.sum(axis=(0, 2)))
    if not disclosure.shown.all():
        return
    values = rate_gaps(group_rates(counts.sum(0)), disclosure.shown, reference=disclosure.reference)
    found = rate_intervals(counts, disclosure, level=0.9)
    wider = rate_intervals(counts, disclosure, level=0.99)
    for name, value in zip(METRICS, values.tolist(), strict=True):
        if np.isnan(value) or isinstance(found[name], str):
            continue
        ends = found[name].low, value, found[name].high
        if apart:
            ends = wider[name].low, *ends, wider[name].high
        assert list(ends) == pytest.approx(sorted(ends), abs=1e-12)
        assert wider[name].low >= 0
        assert wider[name].high <= 1


def test_what_is_suppressed_changes_no_interval():
    counts = of_shares((30, 60), (45, 60), (4, 6), (5, 8))
    other = of_shares((30, 60), (45, 60), (1, 6), (7, 8))
    assert intervals(counts, minimum_group_size=30) == intervals(other, minimum_group_size=30)
    assert intervals(counts)[GAP] != intervals(other)[GAP]
    nothing = intervals(counts, minimum_group_size=900)
    assert all(isinstance(found, str) for found in nothing.values())


def test_of_what_single_clients_do_two_digits_are_disclosed():
    """The attack: a client's own figures from an interval whose other parts are known."""
    # Both have 150 of 300 rows, and clients whose squares differ by little.
    counts = of_shares((150, 300), (150, 300), of_client=10)
    counts[2:20, 0, 0], counts[2:20, 0, 3] = np.tile([1, 9], 9), np.tile([9, 1], 9)
    moved = counts.copy()
    moved[0, 0, [0, 3]] += (1, -1)
    moved[1, 0, [0, 3]] += (-1, 1)
    assert moved.sum(0).tolist() == counts.sum(0).tolist()
    assert intervals(counts) == intervals(moved)


def test_intervals_of_rounded_counts_follow_from_these():
    published = np.array([[55, 0, 0, 45], [30, 0, 0, 70]])
    found = set()
    for one, other in ((52, 33), (54, 31)):
        counts = of_shares((one, 100), (other, 100))
        disclosure = disclosed_clients(counts)
        found.add(rate_intervals(counts, disclosure, level=0.95, published=published)[GAP])
    assert found == {intervals(of_shares((55, 100), (30, 100)))[GAP]}


@pytest.mark.parametrize("population", POPULATIONS, ids=lambda one: one.name)
@pytest.mark.parametrize(("groups", "rows", "of_client"), [(2, 10, 1), (4, 60, 5)])
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


def test_groups_that_are_hidden_or_not_compared_have_no_interval():
    counts = of_shares((30, 60), (45, 60), (9, 20), (7, 16))
    found = {name: np.array(ends) for name, ends in by_group(counts, minimum_group_size=30).items()}
    assert all(np.isnan(ends[:, 2:]).all() for ends in found.values())
    assert np.isfinite(found["selection_rate"][:, :2]).all()
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
    assert np.mean([not isinstance(one, str) and one.low > 0 for one in found]) <= most + 0.008
    error = gains.std(axis=0, ddof=1) / clients**0.5
    half = t.ppf(0.975, clients - 1) * error
    for one, mean, wide in zip(found, gains.mean(axis=0), half, strict=True):
        assert not isinstance(one, str)
        assert one.low <= mean - wide + 1e-9
        assert one.high >= mean + wide - 1e-9


def ends_by_formula(part, whole, *, share, alone=None, mean=False):
    """A figure of a group and its ends, from its clients' numbers."""
    rows, figure = whole.sum(), part.sum() / whole.sum()
    worth = rows**2 / (whole**2).sum()
    errors = ((part - figure * whole) ** 2).sum() / rows**2
    variance = worth / (worth - 1) * errors if worth >= 2 else math.inf
    if mean:
        factor = math.exp(student(worth, share) * up(math.sqrt(variance)) / figure)
        return figure, figure / factor, figure * factor
    ends = share_ends(figure, rows, variance=variance, worth=worth, share=share, alone=alone)
    return figure, *ends


def correlation_by_formula(one, other):
    """Of two groups' figures over clients, from the parts and wholes of each, in tenths."""
    if any(whole.sum() ** 2 < 2 * (whole**2).sum() for _, whole in (one, other)):
        return 0.0
    if not ((one[1] > 0) & (other[1] > 0)).any():
        return 0.0
    left, right = (part - part.sum() / whole.sum() * whole for part, whole in (one, other))
    lengths = math.sqrt((left @ left) * (right @ right))
    return math.floor(left @ right / lengths * 10 + 1e-9) / 10 if lengths else 0.0


def gap_by_formula(parts, wholes, *, kind, share, root_mean=None):
    """The ends that pairs [clients, groups] allow the widest gap. A pair's lower end is where a
    difference, of one and so many times the other, begins at 0 (Zou; Donner and Zou)."""
    ends, places = [], range(parts.shape[1])
    figures = [
        ends_by_formula(parts[:, g], wholes[:, g], share=share, mean=root_mean is not None)
        for g in places
    ]
    if root_mean:
        figures = [tuple(map(math.sqrt, own)) for own in figures]
    for one, other in permutations(places, 2):
        (value, low, _), (beside, _, high) = figures[one], figures[other]
        below, above = value - low, high - beside
        both = correlation_by_formula(*((parts[:, g], wholes[:, g]) for g in (one, other)))

        def begins(times, *, value=value, beside=beside, below=below, above=above, both=both):
            wide = below**2 + (times * above) ** 2 - 2 * both * times * below * above
            return value - times * beside - math.sqrt(max(0.0, wide))

        if kind == "difference":
            ends.append(begins(1.0))
        else:
            ends.append(brentq(begins, 0, 1e4, xtol=1e-13) if low > 1e-12 else 0.0)
    if kind == "difference":
        return max(0.0, *ends), -min(ends)
    return min(ends), min(1.0, 1 / max(ends) if max(ends) else 1.0)


@pytest.mark.parametrize("clients", [1, 3, 30])
@pytest.mark.parametrize("apart", [True, False], ids=["apart", "together"])
@pytest.mark.parametrize("seed", range(6))
def test_intervals_are_those_of_the_formulas(clients, apart, seed):
    """Of every gap of rates, of accuracy and of losses: computed anew pair by pair."""
    random, groups = np.random.default_rng(seed), 2 + seed % 2
    favoured = random.beta(1, 1, (clients, 1, 1)) * random.uniform(0.5, 1, (1, groups, 1))
    rows = random.integers(1, 9, (clients, groups, 2))
    hits = random.binomial(rows, favoured)
    if seed == 4:  # so that the groups' figures go together exactly
        rows[:, 1], hits[:, 1] = rows[:, 0], hits[:, 0]
    # True and false positives, true and false negatives.
    counts = np.stack(
        [hits[..., 0], hits[..., 1], (rows - hits)[..., 1], (rows - hits)[..., 0]], axis=-1
    )
    if apart:
        own = np.arange(groups * clients) // clients
        counts = np.tile(counts, (groups, 1, 1)) * (own[:, None] == np.arange(groups))[..., None]
    pairs = groups * (groups - 1) // 2
    of_rates = {
        name: [
            counts[..., [COUNTS.index(one) for one in kinds]].sum(-1)
            for kinds in (rate.numerator, rate.denominator)
        ]
        for name, rate in RATES.items()
    }
    found = intervals(counts, level=0.9)
    for name, metric in METRICS.items():
        share = 0.1 / (pairs * len(metric.family.rates))
        every = [
            gap_by_formula(*of_rates[rate], kind=metric.kind, share=share)
            for rate in metric.family.rates
        ]
        lows, highs = zip(*every, strict=True)
        worst = max if metric.kind == "difference" else min
        expected = worst(lows), worst(highs)
        assert (found[name].low, found[name].high) == pytest.approx(expected, abs=1e-7), name
    for name, ends in intervals_by_group(counts, disclosed_clients(counts), level=0.9).items():
        together = 1 if name == "selection_rate" else 2
        for group, own in enumerate(np.transpose(ends)):
            numbers = (one[:, group] for one in of_rates[name])
            expected = ends_by_formula(*numbers, share=0.1 / (pairs * together), alone=0.1)
            assert tuple(own) == pytest.approx(expected[1:])
    rows, right = counts.sum(-1), counts[..., [0, 2]].sum(-1)
    scores = GroupScores(rows, right, random.exponential(size=rows.shape) * rows)
    disclosure = disclosed_scores(scores)
    for root_mean in (True, False):
        found = score_intervals(scores, disclosure, root_mean=root_mean, level=0.9)
        expected = gap_by_formula(right, rows, kind="difference", share=0.1 / pairs)
        one = found["accuracy_difference"]
        assert (one.low, one.high) == pytest.approx(expected, abs=1e-7)
        for kind in KINDS:
            one = found[f"loss_{kind}"]
            if clients == 1:
                assert one == NOT_ESTIMABLE
                continue
            expected = gap_by_formula(
                scores.loss, rows, kind=kind, share=0.1 / pairs, root_mean=root_mean
            )
            assert (one.low, one.high) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("hits", "trials"), [(0, 9), (3, 9), (9, 9), (700, 1000)])
def test_exact_limits_are_those_of_clopper_and_pearson(hits, trials):
    expected = binomtest(hits, trials).proportion_ci(0.9, method="exact")
    ends = exact_limits(hits, trials, confidence=0.9)
    assert ends == pytest.approx((expected.low, expected.high))
    for impossible in ((-1, trials), (trials + 1, trials), (0, 0)):
        with pytest.raises(ValueError, match="have no interval"):
            exact_limits(*impossible, confidence=0.9)
