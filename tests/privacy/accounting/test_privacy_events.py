"""Events: what they refuse, and their form in the ledger."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.accounting.privacy_events import (
    Composed,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
    TwoStage,
    event_from_dict,
)

noises = st.floats(1e-3, 1e3)
rates = st.floats(0, 1, exclude_min=True)
counts = st.integers(1, 10**6)
gaussians = st.builds(Gaussian, noises)
sizes = st.tuples(counts, counts).map(sorted)
events = st.recursive(
    st.one_of(
        gaussians,
        st.just(NonPrivate()),
        st.builds(PoissonSampled, rates, gaussians),
        st.builds(lambda both, of: FixedSizeSampled(both[1], both[0], of), sizes, gaussians),
        st.builds(TwoStage, rates, rates, noises, counts),
        st.builds(LaplaceL2, counts, noises, st.none() | noises),
    ),
    lambda inner: st.builds(Composed, inner, counts),
    max_leaves=3,
)


@given(events)
def test_json_brings_an_event_back_to_the_last_bit(event):
    assert event_from_dict(json.loads(json.dumps(event.as_dict(), allow_nan=False))) == event


def test_the_form_in_the_ledger():
    event = Composed(PoissonSampled(0.1, Gaussian(1.5)), 3)
    assert event.as_dict() == {
        "kind": "composed",
        "event": {
            "kind": "poisson-sampled",
            "rate": 0.1,
            "event": {"kind": "gaussian", "noise_multiplier": 1.5},
        },
        "count": 3,
    }


def test_compositions_of_compositions_multiply():
    assert Composed(Composed(Composed(Gaussian(1.0), 2), 3), 5).flattened() == (Gaussian(1.0), 30)


@pytest.mark.parametrize("noise", [0.0, -1.0, math.inf, math.nan])
def test_noise_is_positive_and_finite(noise):
    for build in (
        lambda: Gaussian(noise),
        lambda: TwoStage(0.5, 0.1, noise, 5),
        lambda: LaplaceL2(2, noise, None),
    ):
        with pytest.raises(ValueError, match=r"greater than 0|finite number"):
            build()


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.1, math.nan, math.inf])
def test_rates_lie_above_0_and_not_above_1(rate):
    with pytest.raises(ValueError, match="rate"):
        PoissonSampled(rate=rate, event=Gaussian(1.0))
    with pytest.raises(ValueError, match="client_rate"):
        TwoStage(client_rate=rate, record_rate=0.1, noise_multiplier=1.0, steps=5)
    with pytest.raises(ValueError, match="record_rate"):
        TwoStage(client_rate=0.1, record_rate=rate, noise_multiplier=1.0, steps=5)


@pytest.mark.parametrize("count", [0, -1, 1.5, True])
def test_counts_are_whole_and_positive(count):
    with pytest.raises(ValueError, match="steps"):
        TwoStage(client_rate=0.5, record_rate=0.1, noise_multiplier=1.0, steps=count)
    with pytest.raises(ValueError, match="count"):
        Composed(event=Gaussian(1.0), count=count)
    with pytest.raises(ValueError, match="sample"):
        FixedSizeSampled(population=10, sample=count, event=Gaussian(1.0))


def test_a_sample_is_no_larger_than_its_population():
    with pytest.raises(ValueError, match="exceeds population"):
        FixedSizeSampled(10, 11, Gaussian(1.0))


@pytest.mark.parametrize("radius", [0.0, -1.0, math.inf, math.nan])
def test_a_radius_is_positive_or_none(radius):
    with pytest.raises(ValueError, match="radius"):
        LaplaceL2(n=2, noise_multiplier=5.0, radius=radius)


def test_what_is_sampled_is_an_event():
    with pytest.raises(ValueError, match="instance of Event"):
        PoissonSampled(0.1, 1.0)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"kind": "uniform"},
        {"kind": "gaussian"},
        {"kind": "gaussian", "noise_multiplier": 1.0, "rate": 0.5},
        {"kind": "poisson-sampled", "rate": 0.5, "event": {"kind": "gaussian"}},
    ],
)
def test_a_damaged_ledger_is_refused(values):
    with pytest.raises(ValueError, match=r"kind|required|rate"):
        event_from_dict(values)
