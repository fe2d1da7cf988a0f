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


def two_stage(**changes):
    return TwoStage(**{"client_rate": 0.5, "record_rate": 0.1, "noise_multiplier": 1.0} | changes)


BAD_NOISE = (0.0, -1.0, math.inf, math.nan)
BAD_RATES = (0.0, -0.1, 1.1, math.nan, math.inf)
BAD_COUNTS = (0, -1, 1.5, True)


@pytest.mark.parametrize(
    ("build", "values", "said"),
    [
        (Gaussian, BAD_NOISE, "greater than 0|finite number"),
        (lambda x: two_stage(noise_multiplier=x, steps=5), BAD_NOISE, "greater than 0|finite"),
        (lambda x: LaplaceL2(2, x, None), BAD_NOISE, "greater than 0|finite number"),
        (lambda x: LaplaceL2(2, 5.0, radius=x), BAD_NOISE, "radius"),
        (lambda x: PoissonSampled(rate=x, event=Gaussian(1.0)), BAD_RATES, "rate"),
        (lambda x: two_stage(client_rate=x, steps=5), BAD_RATES, "client_rate"),
        (lambda x: two_stage(record_rate=x, steps=5), BAD_RATES, "record_rate"),
        (lambda x: two_stage(steps=x), BAD_COUNTS, "steps"),
        (lambda x: Composed(Gaussian(1.0), count=x), BAD_COUNTS, "count"),
        (lambda x: FixedSizeSampled(10, sample=x, event=Gaussian(1.0)), BAD_COUNTS, "sample"),
        (lambda x: FixedSizeSampled(10, x, Gaussian(1.0)), (11,), "exceeds population"),
        (lambda x: PoissonSampled(0.1, x), (1.0,), "instance of Event"),
    ],
)
def test_numbers_out_of_range_are_refused(build, values, said):
    for value in values:
        with pytest.raises(ValueError, match=said):
            build(value)


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
