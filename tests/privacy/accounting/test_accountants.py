"""What holds for every accountant, and what each refuses."""

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedaudit.privacy.accounting.accountant import (
    RDP_ORDERS,
    composed_epsilon,
    epsilon_of_events,
    event_curve,
    sampling_refusal,
)
from fedaudit.privacy.accounting.epsilon_tables import EpsilonTerms, pld_table
from fedaudit.privacy.accounting.privacy_events import (
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
    RandomAllocated,
    TwoStage,
)
from fedaudit.privacy.accounting.two_stage import TWO_STAGE_ORDERS, log_moments
from fedaudit.privacy.mechanisms.gaussian import LOOSE_FIXED_SIZE
from tests.privacy.accounting.spending import DELTA, by_orders, spent
from tests.privacy.gaussian_exact import exact_epsilon
from tests.privacy.renyi_by_hand import older_epsilon, own_divergence

FEW_ORDERS = (1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0)
POISSON, FIXED = PoissonSampled(0.1, Gaussian(2.0)), FixedSizeSampled(100, 10, Gaussian(2.0))


def poisson(noise, rate, count, delta):
    event = PoissonSampled(rate, Gaussian(noise))
    return by_orders(event, count, orders=FEW_ORDERS, delta=delta)


def fixed_sizes(noise, rate, count, delta):
    event = FixedSizeSampled(10_000, math.ceil(10_000 * rate), Gaussian(noise))
    return by_orders(event, count, orders=FEW_ORDERS, adjacency="replace-one", delta=delta)


def losses(noise, rate, count, delta):
    return spent(PoissonSampled(rate, Gaussian(noise)), count, by="pld", delta=delta)


def two_stages(noise, rate, count, delta):
    return by_orders(TwoStage(0.7, rate, noise, 5), count, delta=delta)


def two_stages_before_the_server(noise, rate, count, delta):
    return by_orders(TwoStage(0.7, rate, noise, 5), count, delta=delta, observer="server")


@pytest.mark.parametrize(
    ("figure", "examples", "least_noise", "most"),
    [
        (poisson, 30, 0.8, 200),
        (fixed_sizes, 10, 0.8, 200),
        (losses, 2, 4, 20),  # a distribution with large losses takes a second
        (two_stages, 20, 0.8, 200),
        (two_stages_before_the_server, 20, 0.8, 200),
    ],
)
def test_epsilon_is_monotone(figure, examples, least_noise, most):
    @settings(max_examples=examples, deadline=None)
    @given(
        noise=st.floats(least_noise, 20),
        rate=st.floats(0.01, 0.5),
        count=st.integers(1, most),
        delta=st.floats(1e-8, 1e-2),
        factor=st.floats(1.01, 2),
    )
    def rule(noise, rate, count, delta, factor):
        epsilon = figure(noise, rate, count, delta)
        slack = epsilon * (1 + 1e-9) + 1e-4  # the grid of the privacy loss distributions
        assert figure(noise, rate, 0, delta) == 0 <= epsilon
        assert figure(noise * factor, rate, count, delta) <= slack
        assert figure(noise, rate / factor, count, delta) <= slack
        assert figure(noise, rate, count, delta * factor) <= slack
        assert figure(noise, rate, math.ceil(count * factor), delta) >= epsilon - 1e-4

    rule()


@pytest.mark.parametrize("name", ["rdp", "pld"])
def test_events_are_composed_whichever_way_they_are_listed(name):
    def figure(*composed):
        return epsilon_of_events(composed, name, adjacency="add-or-remove-one", delta=DELTA)

    other = Gaussian(4.0)
    assert figure() == figure((POISSON, 0)) == 0
    assert figure((POISSON, 6)) == figure((POISSON, 2), (other, 0), (POISSON, 4))
    assert figure((POISSON, 6), (other, 2)) > figure((POISSON, 6))
    assert figure((POISSON, 6), (NonPrivate(), 1)) == math.inf
    for delta in (0.0, 1.0, -1e-5, math.nan):
        with pytest.raises(ValueError, match="delta"):
            spent(POISSON, by=name, delta=delta)


@pytest.mark.parametrize("name", ["rdp", "pld"])
@pytest.mark.parametrize(
    "event",
    [
        LaplaceL2(11, 3.0, None),
        TwoStage(0.5, 0.1, 2.0, 5),
        PoissonSampled(0.1, NonPrivate()),
        PoissonSampled(0.1, POISSON),
        RandomAllocated(5, POISSON),
    ],
    ids=lambda event: str(event.kind),
)
def test_what_is_no_gaussian_sum_is_refused(name, event):
    with pytest.raises(TypeError, match=r"to the library|library's"):
        spent(event, by=name)


@pytest.mark.parametrize(
    ("name", "adjacency", "event", "remedy"),
    [
        ("rdp", "replace-one", POISSON, "samples of a fixed size and use 'rdp'"),
        ("pld", "replace-one", POISSON, "samples of a fixed size and use 'rdp'"),
        ("rdp", "replace-one", RandomAllocated(5, Gaussian(1.0)), "of a fixed size and use 'rdp'"),
        ("rdp", "add-or-remove-one", FIXED, "under 'replace-one'"),
        ("pld", "add-or-remove-one", FIXED, "under 'replace-one'"),
        ("pld", "replace-one", FIXED, "use 'rdp' under 'replace-one'"),
    ],
)
def test_a_wrong_pair_is_refused_with_one_that_fits(name, adjacency, event, remedy):
    assert remedy in sampling_refusal(event, accountant=name, adjacency=adjacency)
    with pytest.raises(ValueError, match=remedy):
        spent(event, by=name, adjacency=adjacency)
    if name == "rdp":
        with pytest.raises(ValueError, match=remedy):
            event_curve(event, FEW_ORDERS, adjacency)


@pytest.mark.parametrize(("noise", "count"), [(0.7, 1), (2.0, 1), (5.0, 30), (40.0, 100)])
@pytest.mark.parametrize("adjacency", ["add-or-remove-one", "replace-one"])
def test_bounds_bracket_the_exact_gaussian(noise, count, adjacency):
    """Replacement puts the sums two clips apart; PLD is above the truth by its grid at most."""
    clips = 2 if adjacency == "replace-one" else 1
    exact = exact_epsilon(DELTA, noise / clips / math.sqrt(count))
    pld = spent(Gaussian(noise), count, by="pld", adjacency=adjacency)
    rdp = spent(Gaussian(noise), count, adjacency=adjacency)
    assert exact * (1 - 1e-9) <= pld <= exact + 1e-3
    assert pld <= rdp <= 1.2 * exact


@pytest.mark.parametrize("sample", [1, 30, 99, 100])
@pytest.mark.parametrize("noise", [1.0, 4.0, 50.0])
def test_a_sample_never_costs_more_than_everyone(sample, noise):
    """The bound for samples of a fixed size alone would, from about half the population on."""
    everyone, sampled = (
        by_orders(event, 100, orders=FEW_ORDERS, adjacency="replace-one")
        for event in (Gaussian(noise), FixedSizeSampled(100, sample, Gaussian(noise)))
    )
    assert sampled <= everyone
    if sample == 1:
        assert sampled < everyone / 10
    if sample == 100:
        assert sampled == pytest.approx(everyone, rel=1e-12)


def test_a_fixed_size_is_that_of_the_library_with_the_clips_counted():
    """Where sampling helps at all; the library's noise is relative to two clips."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant as Library

    orders = (4.0, 8.0, 16.0)
    library = Library(list(orders), dp_accounting.NeighboringRelation.REPLACE_ONE)
    gaussian = dp_accounting.GaussianDpEvent(2.0)
    library.compose(dp_accounting.SampledWithoutReplacementDpEvent(1000, 10, gaussian), 50)
    event = FixedSizeSampled(1000, 10, Gaussian(4.0))
    ours = by_orders(event, 50, orders=orders, adjacency="replace-one")
    assert ours == pytest.approx(library.get_epsilon(DELTA), rel=1e-12)


@pytest.mark.parametrize(
    ("drawn", "population", "noise", "rounds", "bound", "least"),
    [(10, 500, 1.0, 50, 12.26, 1.37), (100, 1000, 2.0, 100, 14.05, 4.36)],
)
def test_how_loose_a_fixed_size_may_be(drawn, population, noise, rounds, bound, least):
    """What is spent lies between the figure and the exact epsilon of one pair of neighbours: one
    client's update is a clip or minus a clip and all others are 0. Losses are rounded down."""
    rate, step, half = drawn / population, 1e-4, 300_000
    at = np.linspace(-14 * noise - 2, 14 * noise + 2, 400_001)
    normal = [stats.norm.pdf(at, mean, noise) for mean in (-1.0, 0.0, 1.0)]
    here, there = ((1 - rate) * normal[1] + rate * normal[place] for place in (2, 0))
    losses = np.floor(np.log(here / there) / step).astype(np.int64).clip(-half, half - 1)
    mass = np.bincount(losses % (2 * half), here * (at[1] - at[0]), minlength=2 * half)
    composed = np.fft.irfft(np.fft.rfft(mass) ** rounds, 2 * half).clip(0.0)
    values = np.fft.fftfreq(2 * half, 1 / (2 * half)) * step
    beyond = values > least
    delta = composed[beyond] @ -np.expm1(least - values[beyond])
    assert delta > DELTA
    event = FixedSizeSampled(population, drawn, Gaussian(noise))
    assert spent(event, rounds, adjacency="replace-one") == pytest.approx(bound, abs=0.01)
    for figure in (bound, least):
        assert f"{figure:.2f}" in LOOSE_FIXED_SIZE


def test_curves_are_converted_after_they_were_added_up():
    # Of the Gaussian mechanism at noise 2: alpha / (2 * 2^2).
    curve = np.array(RDP_ORDERS) / 8
    once, twice = (composed_epsilon(times * curve, DELTA) for times in (1, 2))
    exact = exact_epsilon(DELTA, 2.0)
    assert exact < once < 1.13 * exact
    assert once < twice < 2 * once
    assert composed_epsilon(curve, 1e-3) < once
    assert composed_epsilon(0 * curve, DELTA) == 0.0
    with pytest.raises(ValueError, match="orders, not 3"):
        composed_epsilon(np.ones(3), DELTA)


def test_epsilon_is_clipped_at_zero():
    assert spent(Gaussian(1e6), delta=1e-2) == 0
    assert by_orders(TwoStage(1.0, 1.0, 1e6, 1), delta=1e-2, observer="server") == 0


def test_a_table_of_losses_bounds_every_number_of_rounds_and_ends_with_the_accountants_figure():
    terms = EpsilonTerms(adjacency="add-or-remove-one", observer="final_model", delta=DELTA)
    table = pld_table(POISSON, 40, terms)
    exact = [spent(POISSON, rounds, by="pld") for rounds in (1, 17, 40)]
    assert table[0] == 0
    assert table[40] == exact[-1]
    assert (table[[1, 17]] >= exact[:2]).all()
    assert table[[1, 17]] == pytest.approx(exact[:2], rel=0.05)


# -- epsilons that others computed: dp-accounting, Opacus, and formulas written out ---------------


ORDERS = (*range(2, 65), 80, 96, 128, 192, 256, 384, 512)
# sigma, q, steps; at delta 1e-5: the older conversion, that of Balle et al., PLD
TABLE = [
    (1.0, 0.01, 1000, 2.5383475455, 2.1077530755, 1.829),
    (1.0, 0.1, 100, 8.9276927628, 7.9729215104, 7.047),
    (2.0, 0.05, 500, 3.2054669590, 2.7748724890, 2.532),
    (4.0, 0.3, 200, 5.8954626501, 5.2699596207, 4.862),
    (2.0, 1.0, 10, 8.8376418217, 8.0878616288, 7.511),
]


@pytest.mark.parametrize(("sigma", "q", "steps", "older", "tight", "pld"), TABLE)
def test_the_table(sigma, q, steps, older, tight, pld):
    assert by_orders(PoissonSampled(q, Gaussian(sigma)), steps, orders=ORDERS) == pytest.approx(
        tight, rel=1e-6
    )
    divergences = [steps * own_divergence(sigma, q, order) for order in ORDERS]
    assert older_epsilon(divergences, ORDERS, 1e-5) == pytest.approx(older, rel=1e-6)
    losses = spent(PoissonSampled(q, Gaussian(sigma)), steps, by="pld")
    assert losses == pytest.approx(pld, abs=1e-3)
    # Fractional orders can only help; the distributions stay the tightest.
    assert pld < by_orders(PoissonSampled(q, Gaussian(sigma)), steps) <= tight + 1e-12


@pytest.mark.parametrize(("rate", "epsilon"), [(0.5, 1.2503496807), (1, 1.7364577694)])
def test_two_stages(rate, epsilon):
    found = by_orders(TwoStage(rate, 0.2, 10.0, 50), 15, delta=1e-3)
    assert found == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("sigma", "q"), [(0.5, 0.3), (1.0, 0.01), (12.373, 0.5), (10.0, 1e-6)])
def test_own_moments_are_those_of_the_library(sigma, q):
    """The library adds 1 before it takes the logarithm, and loses digits of a tiny divergence."""
    from dp_accounting.rdp.rdp_privacy_accountant import _compute_log_a_int

    for order in (2, 3, 10, 101, 994):
        own = log_moments(np.array([q]), order=order, noise_multiplier=sigma)[0]
        assert own == pytest.approx(_compute_log_a_int(q, sigma, order), rel=1e-9, abs=1e-11)


def test_with_one_step_and_every_client_two_stages_are_a_poisson_sample():
    plain = by_orders(PoissonSampled(0.05, Gaussian(2.0)), 500, orders=TWO_STAGE_ORDERS)
    assert by_orders(TwoStage(1.0, 0.05, 2.0, 1), 500) == pytest.approx(plain, rel=1e-9)


@pytest.mark.skipif(
    importlib.util.find_spec("opacus") is None, reason="Opacus is not installed (pip: opacus)"
)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("sigma", "q", "steps"), [row[:3] for row in TABLE])
def test_opacus_says_the_same_on_equal_orders(sigma, q, steps):
    from opacus.accountants import RDPAccountant

    theirs = RDPAccountant()
    theirs.history = [(sigma, q, steps)]
    ours = by_orders(
        PoissonSampled(q, Gaussian(sigma)), steps, orders=tuple(RDPAccountant.DEFAULT_ALPHAS)
    )
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
