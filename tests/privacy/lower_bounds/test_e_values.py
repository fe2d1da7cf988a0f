"""Evidence is at most 1 on average where the claim holds, and an alarm as rare as it says.

Two inputs under metric privacy: what can be told, and that it is told honestly.
"""

from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import binom, nct

from fedaudit.privacy.lower_bounds.e_values import (
    ALARM_LEVEL,
    ENOUGH_ALONE,
    EValue,
    EvidenceBasis,
    calibrated,
    guesses_e_value,
    is_alarm,
    known_noise_alarm_power,
    known_noise_e_value,
    known_noise_p_value,
    least_leakage,
    metric_e_value,
    one_look_level,
    one_run_e_value,
    plan_metric_test,
    run_evidence,
    staked,
)
from fedaudit.privacy.lower_bounds.epsilon_bounds import SignalFit, one_run_p_value

GUESSES = 16


@pytest.mark.parametrize("below", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_guesses_within_the_claim_are_worth_at_most_1(epsilon: float, below: float) -> None:
    """By enumeration of every number of right guesses, each right with a chance that is allowed."""
    counts = range(GUESSES + 1)
    chances = binom.pmf(list(counts), GUESSES, expit(epsilon - below))
    for found in (
        [guesses_e_value(right=one, guesses=GUESSES, epsilon=epsilon) for one in counts],
        [metric_e_value(right=one, wrong=GUESSES - one, leakage=epsilon) for one in counts],
        [
            one_run_e_value(canaries=40, guesses=GUESSES, correct=one, epsilon=epsilon, delta=1e-3)
            for one in counts
        ],
    ):
        assert found == sorted(found)
        assert chances @ np.array(found) <= 1 + 1e-9
        assert found[0] > 0
    assert guesses_e_value(right=GUESSES, guesses=GUESSES, epsilon=0.5) > ENOUGH_ALONE


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_the_term_of_delta_is_paid_for(delta: float) -> None:
    """Under the worst law that the theorem leaves: every tail is as large as it proves."""
    one_run = {"canaries": 40, "guesses": GUESSES, "epsilon": 1.0, "delta": delta}
    tails = [one_run_p_value(**one_run, correct=one) for one in range(1, GUESSES + 1)]  # type: ignore[arg-type]
    chances = -np.diff([1.0, *np.minimum.accumulate(tails), 0.0])
    found = [one_run_e_value(**one_run, correct=one) for one in range(GUESSES + 1)]  # type: ignore[arg-type]
    assert chances @ np.array(found) <= 1 + 1e-9
    assert chances @ np.array(found) > 0.9


def test_p_values_become_e_values_and_one_look_alone_can_raise_the_alarm() -> None:
    area, _ = quad(calibrated, 0, 1, points=[1e-12, 1e-9, 1e-6, 1e-3], limit=500)
    assert 0.9 < area <= 1 + 1e-6
    assert calibrated(1.0) == pytest.approx(calibrated(1 - 1e-4), rel=1e-3)
    for share in (1.0, 0.1):
        just, beyond = (staked(one_look_level(share) * part, 0.1, share=share) for part in (1, 1.1))
        assert is_alarm(run_evidence([EValue(just * share, "run")]), just)
        assert not is_alarm(run_evidence([EValue(beyond * share, "run")]), beyond)


def _fit(statistic: float, *, weight: float, numbers: int) -> SignalFit:
    cosine = statistic / (numbers - 1 + statistic**2) ** 0.5
    return SignalFit(cosine * weight**0.5, weight, 1.0, numbers)


@pytest.mark.parametrize(("weight", "numbers"), [(3.0, 8), (40.0, 120)])
def test_known_noise_is_worth_1_at_the_claim_and_less_below_it(weight: float, numbers: int) -> None:
    """By quadrature over Student's t off its centre, whose densities the evidence compares."""

    def mean(ratio: float) -> float:
        center, freedom = ratio * weight**0.5, numbers - 1

        def weighed(statistic: float) -> float:
            fit = _fit(statistic, weight=weight, numbers=numbers)
            return known_noise_e_value(fit, claimed=0.4) * float(
                nct.pdf(statistic, freedom, center)
            )

        return float(quad(weighed, center - 20, center + 40, limit=400)[0])

    assert mean(0.4) == pytest.approx(1.0, abs=1e-3)
    assert mean(0.2) < 0.9
    assert mean(-0.4) < 0.7
    assert mean(0.9) > 1.3


@pytest.mark.parametrize("ratio", [0.3, pytest.param(0.21, marks=pytest.mark.slow)])
def test_looking_after_every_round_raises_few_false_alarms(ratio: float) -> None:
    """200 runs of 40 rounds; each crosses with a chance of at most 1 in 200, so that 7 or more of
    them come with one below 1 in 10,000."""
    generator, crossed, late = np.random.default_rng(3), 0, []
    for _ in range(200):
        fit, most = SignalFit(), 0.0
        for _ in range(40):
            sent = generator.random(8) < 0.5
            y = ratio * sent + generator.standard_normal(8)
            fit.add(product=y @ sent, weight=sent.sum(), squares=y @ y, numbers=8)
            most = max(most, known_noise_e_value(fit, claimed=0.3))
        crossed += most >= ENOUGH_ALONE
        late.append(known_noise_e_value(fit, claimed=0.3))
    assert crossed < 7
    assert np.mean(late) < 1.5


def test_the_power_is_what_is_stated() -> None:
    known = {"claimed": 0.5, "weight": 60.0, "numbers": 400}
    for share in (0.8, None):
        stated = known_noise_alarm_power(**known, true=0.9, share=share)  # type: ignore[arg-type]
        generator, seen = np.random.default_rng(1), 0
        for _ in range(400):
            signal = 60 * 0.9 + 60**0.5 * generator.standard_normal()
            squares = signal**2 / 60 + generator.chisquare(399)
            fit = SignalFit(signal, 60.0, squares, 400)
            found = known_noise_e_value(fit, claimed=0.5)
            if share is not None:
                p_value = known_noise_p_value(fit, claimed=0.5)
                found = share * staked(p_value, found, share=share)
            seen += found >= ENOUGH_ALONE
        assert 0.05 < stated < 0.95
        # Four standard deviations; by either half of the stake, so a little more than stated.
        assert -0.1 <= seen / 400 - stated <= 0.15
    assert known_noise_alarm_power(claimed=1, true=2, weight=0, numbers=9, share=1.0) == 0


def test_without_numbers_nothing_is_shown() -> None:
    assert known_noise_e_value(SignalFit(), claimed=1.0) == 1.0
    assert known_noise_p_value(SignalFit(), claimed=1.0) == 1.0
    bare = SignalFit(20.0, 20.0, 20.0, 40)  # a signal without noise
    assert known_noise_p_value(bare, claimed=1.0) == 0.0
    assert known_noise_e_value(bare, claimed=1.0) > ENOUGH_ALONE


BASES: list[list[EvidenceBasis]] = [
    ["fresh"] * 6,
    ["run"] * 6,
    ["fresh", "run", "fresh", "run", "run", "fresh"],
]


@pytest.mark.parametrize("bases", BASES, ids=str)
def test_however_often_an_honest_run_is_attacked_alarms_stay_rare(bases):
    """By enumeration: fresh e-values are 300 or nearly nothing, those of the run all the same."""
    high, low = 300.0, 0.2
    rare = (1 - low) / (high - low)  # the mean is 1
    mean = alarmed = 0.0
    for own, *fresh in product((True, False), repeat=1 + bases.count("fresh")):
        chance = float(np.prod([rare if one else 1 - rare for one in (own, *fresh)]))
        drawn, found, most = iter(fresh), list[EValue](), 0.0
        for basis in bases:
            value = high if (own if basis == "run" else next(drawn)) else low
            found.append(EValue(value, basis))
            most = max(most, run_evidence(found))
        alarmed += chance * (most >= 1 / ALARM_LEVEL)
        mean += chance * run_evidence(found)
    assert mean <= 1 + 1e-9
    assert alarmed <= ALARM_LEVEL


def test_weak_evidence_adds_up_and_is_not_buried() -> None:
    assert run_evidence([]) == 1.0
    weak = [EValue(30.0, "fresh")] * 2
    assert not is_alarm(run_evidence(weak[:1]), 30.0)
    assert is_alarm(run_evidence(weak), 30.0)
    # The same noise twice is no more than once.
    assert not is_alarm(run_evidence([EValue(100.0, "run")] * 20), 100.0)
    # Ten attacks that find nothing cost a later one no more than the place that it has.
    buried = [EValue(1e-3, "fresh")] * 10 + [EValue(1e5, "fresh")]
    assert is_alarm(run_evidence(buried), 1e5)
    assert is_alarm(run_evidence([*buried[:10], EValue(1e4, "run")]), 1e4)
    # What adds nothing raises none.
    assert not is_alarm(1e6, 0.5)


def test_the_bound_is_exact() -> None:
    """At the bound's own chance so many right guesses are as rare as the significance."""
    found = least_leakage(right=95, wrong=5, significance=0.01)
    chance = 1 / (1 + np.exp(-found))
    assert binom.sf(94, 100, chance) == pytest.approx(0.01, rel=1e-6)
    assert least_leakage(right=5, wrong=95, significance=0.01) == 0.0
    assert least_leakage(right=0, wrong=0, significance=0.01) == 0.0


def test_few_dimensions_can_be_audited_and_many_cannot() -> None:
    asked = {"releases": 2000, "most_share": 1.0, "significance": 0.01}
    few, many, beyond = (
        plan_metric_test(n=n, noise_multiplier=noise, **asked)  # type: ignore[arg-type]
        for n, noise in ((2, 1.0), (1000, 300.0), (1000, 1.0))
    )
    assert few is not None
    assert many is not None
    assert few.power > 0.95
    assert many.power < 0.05
    # A leakage beyond all distances has no test.
    assert beyond is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [37.0, 40.0, 800.0])
def test_guesses_against_a_claim_that_rounds_to_certainty_have_their_limit(epsilon: float) -> None:
    """All right is worth no more than 1 there, and each wrong guess less than the right one."""
    found = [guesses_e_value(right=one, guesses=5, epsilon=epsilon) for one in range(6)]
    gains = np.array([0.0, 0.5, 1.0, 2.0, 4.0])
    assert found == pytest.approx([np.exp(-gains * (5 - one)).mean() for one in range(6)])
    found_of_run = one_run_e_value(canaries=9, guesses=5, correct=5, epsilon=epsilon, delta=0.0)
    assert found_of_run == pytest.approx(1.0)
