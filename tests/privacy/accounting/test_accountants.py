"""What holds for every accountant, and what each refuses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedaudit.privacy.accounting.accountant import (
    PldAccountant,
    RdpAccountant,
    UnsupportedEventError,
)
from fedaudit.privacy.accounting.epsilon_tables import EpsilonTerms, pld_table
from fedaudit.privacy.accounting.privacy_events import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
    TwoStage,
)
from fedaudit.privacy.accounting.two_stage import TwoStageAccountant
from fedaudit.privacy.mechanisms.gaussian import LOOSE_FIXED_SIZE
from tests.privacy.accounting.accountant_choice import accountant
from tests.privacy.gaussian_exact import exact_epsilon

DELTA = 1e-5
EVERY_EVENT = (
    NonPrivate(),
    Gaussian(2.0),
    PoissonSampled(0.1, Gaussian(2.0)),
    PoissonSampled(0.1, NonPrivate()),
    FixedSizeSampled(100, 10, Gaussian(2.0)),
    FixedSizeSampled(100, 10, PoissonSampled(0.1, Gaussian(2.0))),
    TwoStage(0.5, 0.1, 2.0, 5),
    LaplaceL2(11, 3.0, None),
)


class AccountantRules:
    """The rules; a subclass names an accountant, an event of its own, and its examples."""

    examples = 30
    least_noise = 0.8
    max_releases = 200

    def new(self):
        raise NotImplementedError

    def event(self, *, noise=2.0, rate=0.1):
        raise NotImplementedError

    def spent(self, *, count=10, delta=DELTA, **parameters):
        return self.new().compose(self.event(**parameters), count).epsilon(delta)

    def test_nothing_composed_spends_nothing(self):
        assert self.new().epsilon(DELTA) == 0
        assert self.new().compose(self.event(), 0).epsilon(DELTA) == 0

    def test_a_release_without_a_mechanism_has_no_bound(self):
        assert self.new().compose(self.event()).compose(NonPrivate()).epsilon(DELTA) == math.inf

    def test_composition_does_not_care_how_it_is_told(self):
        at_once = self.new().compose(self.event(), 6)
        one_by_one = self.new()
        for _ in range(6):
            one_by_one.compose(self.event())
        nested = self.new().compose(Composed(Composed(self.event(), 2), 3))
        assert at_once.spent(DELTA) == one_by_one.spent(DELTA) == nested.spent(DELTA)

    @pytest.mark.parametrize("event", EVERY_EVENT, ids=lambda event: str(event.kind))
    def test_unsupported_says_what_compose_does(self, event):
        for asked in (event, Composed(event, 2)):
            if self.new().unsupported(asked) is None:
                assert self.new().compose(asked).epsilon(DELTA) > 0
                continue
            reason = self.new().unsupported(asked)
            with pytest.raises(UnsupportedEventError) as refused:
                self.new().compose(asked)
            assert str(refused.value) == reason

    def test_what_is_refused_leaves_nothing_behind(self):
        accountant_ = self.new().compose(self.event())
        before = accountant_.spent(DELTA)
        with pytest.raises(UnsupportedEventError):
            accountant_.compose(LaplaceL2(11, 3.0, 1.0))
        assert accountant_.spent(DELTA) == before

    def test_metric_privacy_is_no_epsilon(self):
        assert "leakage" in self.new().unsupported(LaplaceL2(11, 3.0, 1.0))

    @pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
    def test_delta_lies_between_0_and_1(self, delta):
        with pytest.raises(ValueError, match="delta"):
            self.new().epsilon(delta)

    def test_spending_is_not_undone(self):
        with pytest.raises(ValueError, match="negative"):
            self.new().compose(self.event(), -1)

    def test_epsilon_is_monotone(self):
        @settings(max_examples=self.examples, deadline=None)
        @given(
            noise=st.floats(self.least_noise, 20),
            rate=st.floats(0.01, 0.5),
            count=st.integers(1, self.max_releases),
            delta=st.floats(1e-8, 1e-2),
            factor=st.floats(1.01, 2),
        )
        def rule(noise, rate, count, delta, factor):
            epsilon = self.spent(noise=noise, rate=rate, count=count, delta=delta)
            slack = epsilon * (1 + 1e-9) + 1e-4  # the grid of the privacy loss distributions
            assert epsilon >= 0
            assert self.spent(noise=noise * factor, rate=rate, count=count, delta=delta) <= slack
            assert self.spent(noise=noise, rate=rate / factor, count=count, delta=delta) <= slack
            assert self.spent(noise=noise, rate=rate, count=count, delta=delta * factor) <= slack
            more = math.ceil(count * factor)
            assert self.spent(noise=noise, rate=rate, count=more, delta=delta) >= epsilon - 1e-4

        rule()


class TestRdpOfPoissonSamples(AccountantRules):
    def new(self):
        return RdpAccountant(adjacency="add-or-remove-one", orders=(1.5, 2, 3, 5, 8, 16, 32, 64))

    def event(self, *, noise=2.0, rate=0.1):
        return PoissonSampled(rate, Gaussian(noise))


class TestRdpOfFixedSizes(AccountantRules):
    examples = 10

    def new(self):
        return RdpAccountant(adjacency="replace-one", orders=(1.5, 2, 3, 5, 8, 16, 32, 64))

    def event(self, *, noise=2.0, rate=0.1):
        return FixedSizeSampled(10_000, math.ceil(10_000 * rate), Gaussian(noise))


class TestPldOfPoissonSamples(AccountantRules):
    examples = 2  # a distribution with large losses takes a second
    least_noise = 4
    max_releases = 20

    def new(self):
        return PldAccountant(adjacency="add-or-remove-one")

    def event(self, *, noise=2.0, rate=0.1):
        return PoissonSampled(rate, Gaussian(noise))


class TestPldOfReplacement(AccountantRules):
    examples = 2  # a distribution with large losses takes a second
    least_noise = 4
    max_releases = 20

    def new(self):
        return PldAccountant(adjacency="replace-one")

    def event(self, *, noise=2.0, rate=0.1):
        return Gaussian(noise / rate**0.5)


class TestTwoStageFinalModel(AccountantRules):
    def new(self):
        return TwoStageAccountant(observer="final_model")

    def event(self, *, noise=2.0, rate=0.1):
        return TwoStage(0.7, rate, noise, 5)


class TestTwoStageServer(TestTwoStageFinalModel):
    def new(self):
        return TwoStageAccountant(observer="server")


@pytest.mark.parametrize(
    ("name", "adjacency", "event", "remedy"),
    [
        ("rdp", "replace-one", EVERY_EVENT[2], "samples of a fixed size and use 'rdp'"),
        ("pld", "replace-one", EVERY_EVENT[2], "samples of a fixed size and use 'rdp'"),
        ("rdp", "add-or-remove-one", EVERY_EVENT[4], "under 'replace-one'"),
        ("pld", "add-or-remove-one", EVERY_EVENT[4], "under 'replace-one'"),
        ("pld", "replace-one", EVERY_EVENT[4], "use 'rdp' under 'replace-one'"),
        ("rdp", "add-or-remove-one", EVERY_EVENT[6], "the accountant 'two-stage'"),
        ("pld", "add-or-remove-one", EVERY_EVENT[6], "the accountant 'two-stage'"),
        ("rdp", "replace-one", EVERY_EVENT[5], "'gaussian' event only"),
    ],
)
def test_a_wrong_pair_is_refused_with_one_that_fits(name, adjacency, event, remedy):
    assert remedy in accountant(name, adjacency=adjacency).unsupported(event)


def test_the_two_stage_accountant_knows_one_event():
    reason = TwoStageAccountant(observer="server").unsupported(PoissonSampled(0.1, Gaussian(1.0)))
    assert "use 'rdp'" in reason


@pytest.mark.parametrize("orders", [(), (1.0, 2.0), (3.0, 2.0), (2.0, 2.0)])
def test_orders_ascend_above_1(orders):
    with pytest.raises(ValueError, match="orders"):
        RdpAccountant(adjacency="replace-one", orders=orders)


@pytest.mark.parametrize(("noise", "count"), [(0.7, 1), (2.0, 1), (5.0, 30), (40.0, 100)])
@pytest.mark.parametrize("adjacency", ["add-or-remove-one", "replace-one"])
def test_bounds_bracket_the_exact_gaussian(noise, count, adjacency):
    """Replacement puts the sums two clips apart; PLD is above the truth by its grid at most."""
    clips = 2 if adjacency == "replace-one" else 1
    exact = exact_epsilon(DELTA, noise / clips / math.sqrt(count))
    pld = accountant("pld", adjacency=adjacency).compose(Gaussian(noise), count).epsilon(DELTA)
    rdp = accountant("rdp", adjacency=adjacency).compose(Gaussian(noise), count).epsilon(DELTA)
    assert exact * (1 - 1e-9) <= pld <= exact + 1e-3
    assert pld <= rdp <= 1.2 * exact


@pytest.mark.parametrize("sample", [1, 30, 90, 99])
@pytest.mark.parametrize("noise", [1.0, 4.0, 50.0])
def test_a_sample_never_costs_more_than_everyone(sample, noise):
    """The bound for samples of a fixed size alone would, from about half the population on."""
    orders = (1.5, 2.0, 4.0, 8.0, 16.0, 64.0)
    everyone = RdpAccountant(adjacency="replace-one", orders=orders).compose(Gaussian(noise), 100)
    sampled = RdpAccountant(adjacency="replace-one", orders=orders)
    sampled.compose(FixedSizeSampled(100, sample, Gaussian(noise)), 100)
    assert sampled.epsilon(DELTA) <= everyone.epsilon(DELTA)
    if sample == 1:
        assert sampled.epsilon(DELTA) < everyone.epsilon(DELTA) / 10


def test_a_fixed_size_is_that_of_the_library_with_the_clips_counted():
    """Where sampling helps at all; the library's noise is relative to two clips."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant as Library

    library = Library([4.0, 8.0, 16.0], dp_accounting.NeighboringRelation.REPLACE_ONE)
    gaussian = dp_accounting.GaussianDpEvent(2.0)
    library.compose(dp_accounting.SampledWithoutReplacementDpEvent(1000, 10, gaussian), 50)
    ours = RdpAccountant(adjacency="replace-one", orders=(4.0, 8.0, 16.0))
    ours.compose(FixedSizeSampled(1000, 10, Gaussian(4.0)), 50)
    assert ours.epsilon(DELTA) == pytest.approx(library.get_epsilon(DELTA), rel=1e-12)


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
    accountant = RdpAccountant(adjacency="replace-one")
    accountant.compose(FixedSizeSampled(population, drawn, Gaussian(noise)), rounds)
    assert accountant.epsilon(DELTA) == pytest.approx(bound, abs=0.01)
    for figure in (bound, least):
        assert f"{figure:.2f}" in LOOSE_FIXED_SIZE


def test_a_sample_of_everyone_is_no_sample():
    whole = RdpAccountant(adjacency="replace-one").compose(Gaussian(3.0), 5)
    sampled = RdpAccountant(adjacency="replace-one")
    sampled.compose(FixedSizeSampled(10, 10, Gaussian(3.0)), 5)
    assert sampled.epsilon(DELTA) == pytest.approx(whole.epsilon(DELTA), rel=1e-12)


@pytest.mark.parametrize(
    ("noise", "delta", "edge"), [(0.01, 1e-5, "smallest"), (1e4, 1e-5, "largest"), (2, 1e-5, None)]
)
def test_a_best_order_at_the_edge_of_the_grid_is_told(noise, delta, edge):
    orders = (2.0, 4.0, 8.0, 16.0, 32.0)
    spent = RdpAccountant(adjacency="add-or-remove-one", orders=orders)
    warnings = spent.compose(Gaussian(noise)).spent(delta).warnings
    two_stage = TwoStageAccountant(observer="server")
    stated = two_stage.compose(TwoStage(1.0, 1.0, noise, 1)).spent(delta).warnings
    if edge is None:
        assert warnings == stated == ()
    else:
        assert edge in warnings[0]
        assert edge in stated[0]


def test_epsilon_is_clipped_at_zero():
    spent = RdpAccountant(adjacency="add-or-remove-one").compose(Gaussian(1e6)).spent(1e-2)
    assert (spent.epsilon, spent.warnings) == (0.0, ())
    two_stage = TwoStageAccountant(observer="server").compose(TwoStage(1.0, 1.0, 1e6, 1))
    assert two_stage.epsilon(1e-2) == 0.0


def test_a_table_of_losses_bounds_every_number_of_rounds_and_ends_with_the_accountants_figure():
    event = PoissonSampled(0.1, Gaussian(2.0))
    terms = EpsilonTerms(adjacency="add-or-remove-one", observer="final_model", delta=DELTA)
    table = pld_table(event, 40, terms)
    exact = [
        PldAccountant(adjacency="add-or-remove-one").compose(event, rounds).epsilon(DELTA)
        for rounds in (1, 17, 40)
    ]
    assert table[0] == 0
    assert table[40] == exact[-1]
    assert (table[[1, 17]] >= exact[:2]).all()
    assert table[[1, 17]] == pytest.approx(exact[:2], rel=0.05)
