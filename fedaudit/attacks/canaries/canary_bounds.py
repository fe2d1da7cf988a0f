"""The lower bounds of a claim and their e-values, planned before the run and taken after it.

What could be chosen by looking is chosen before: how many coins are guessed, and how the
significance is shared. It is shared among the bounds (Bonferroni), so that all of them together are
wrong with no greater chance: a tenth goes to each of those that assume less, and what is left to
`known-noise`, which sees most. A claim of a single release has no sums of releases. The e-values
are averaged in the same shares: they are of the same coins and noise.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.canary_claim import CanaryClaim
from fedaudit.attacks.canaries.evidence_of_releases import ReleaseEvidence
from fedaudit.attacks.canaries.kept_numbers import most_kept
from fedaudit.privacy.lower_bounds.e_values import (
    calibrated,
    known_noise_alarm_power,
    known_noise_e_value,
    known_noise_p_value,
    one_look_level,
    one_run_e_value,
    staked,
)
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    GuessPlan,
    by_score,
    fewest_correct,
    most_canaries,
    one_run_epsilon,
    one_run_p_value,
    possible_plans,
    refutes,
    summed_power,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, simulated
from fedaudit.reports.sections.attacks import SUFFICIENT_POWER, BoundName, CanaryBound

_SHARES_WITH_SUMS: Mapping[BoundName, float] = {
    "known-noise": 0.7,
    "f-dp": 0.1,
    "one-run": 0.1,
    "summed-releases": 0.1,
}
_LEVELS = (1e-1, 1e-2, 1e-3, one_look_level(0.1), 1e-4, 1e-5, 1e-6)
"""At which `f-dp` and `summed-releases` are asked whether they refute the claim; the p-value is the
smallest at which one does."""
_DRAWS = 1000
_NUMBERS = 4_000_000
_LEAST_DRAWS = 100
_SEARCH_STEPS = 24
_SEARCH_STEPS_SAMPLED = 5
_LARGEST_RATIO = 1e3
_ASSUMPTIONS: Mapping[BoundName, str] = {
    "known-noise": (
        "the noise is Gaussian, alike and independent in every number that is released, and what "
        "the other clients or records sent is known; who takes part is sampled as claimed. The "
        "size of the noise and of a canary's share are measured"
    ),
    "f-dp": (
        "the mechanism is at most as revealing as the claimed noise of some size, by its whole "
        "privacy curve; coins are fair and independent"
    ),
    "one-run": "nothing but the definition of (epsilon, delta)-privacy and fair, independent coins",
    "summed-releases": (
        "the noise is Gaussian, alike and independent in the numbers of one release; over releases "
        "it may depend in any way, which is measured. A canary comes through with the same length "
        "each time; what others sent is known, and who takes part is sampled as claimed"
    ),
}


@dataclass(frozen=True)
class GuessTest:
    """How coins are guessed for one bound, as decided before the run."""

    plan: GuessPlan
    canaries: int
    """The first so many are its canaries; the coins of the others are taken as given."""
    power: float

    def correct(self, found: ReleaseEvidence, coins: NDArray[np.bool_]) -> int:
        """Correct guesses after the run."""
        own = slice(self.canaries)
        return int(self.plan.correct(by_score(found.scores[own], coins[own])))


@dataclass(frozen=True)
class PlannedBounds:
    """What is decided before the run."""

    claim: CanaryClaim
    significance: float
    claimed_ratio: float
    """Of a canary's share of a release to the deviation of the noise, at most, by the claim."""
    known_noise: float
    """Power."""
    f_dp: GuessTest
    one_run: GuessTest
    summed: float
    """Power."""

    @property
    def shares(self) -> Mapping[BoundName, float]:
        """What each bound has of the significance and of the stakes; together they are 1."""
        return _shares_of(self.claim)

    def averaged(self, bounds: Sequence[CanaryBound]) -> float:
        """The e-value of all bounds together."""
        return sum(self.shares[bound.name] * (bound.e_value or 0.0) for bound in bounds)


def _shares_of(claim: CanaryClaim) -> Mapping[BoundName, float]:
    shares = dict(_SHARES_WITH_SUMS)
    if claim.law.compositions == 1:  # the sum of one release is the release
        shares["known-noise"] += shares.pop("summed-releases")
    return shares


def plan_bounds(
    claim: CanaryClaim, *, canaries: int, significance: float, stop: bool = False
) -> PlannedBounds:
    """Powers against noise that is half of what is claimed, and what is guessed.

    `stop`: where the evidence of `known-noise` is followed, and nothing is staked on the others.
    """
    law, delta, epsilon = claim.law, claim.delta, claim.epsilon
    needed = law.with_ratio(max(law.ratio_of_epsilon(epsilon, delta), law.ratio))
    curve = needed.curve()
    shares = _shares_of(claim)
    level = {name: one_look_level(part) for name, part in shares.items()}

    def refutes_curve(correct: int, plan: GuessPlan, count: int) -> bool:
        return refutes(
            curve, canaries=count, guesses=plan.guesses, correct=correct, significance=level["f-dp"]
        )

    def refutes_epsilon(correct: int, plan: GuessPlan, count: int) -> bool:
        p = one_run_p_value(
            canaries=count, guesses=plan.guesses, correct=correct, epsilon=epsilon, delta=delta
        )
        return p <= level["one-run"]

    few = min(canaries, most_canaries(delta) or canaries)
    return PlannedBounds(
        claim,
        significance,
        needed.ratio / law.reach,
        known_noise_alarm_power(
            claimed=needed.ratio / law.reach,
            true=2 * law.ratio / law.reach,
            weight=claim.weight,
            numbers=max(2, round(claim.numbers)),
            share=None if stop else shares["known-noise"],
        ),
        _known_power(claim, _planned_guesses(law, canaries, refutes_curve), stop=stop),
        _known_power(claim, _planned_guesses(law, few, refutes_epsilon), stop=stop),
        0.0 if stop else _summed_power(claim, needed.ratio, level, canaries=canaries),
    )


def _summed_power(
    claim: CanaryClaim, needed: float, level: Mapping[BoundName, float], *, canaries: int
) -> float:
    if "summed-releases" not in level or not claim.alike:
        return 0.0
    releases = claim.law.compositions
    return summed_power(
        claim.law,
        claimed=needed,
        weight=claim.weight / releases,
        numbers=min(round(claim.numbers / releases), most_kept(canaries)),
        significance=level["summed-releases"],
    )


def _known_power(claim: CanaryClaim, test: GuessTest, *, stop: bool) -> GuessTest:
    return test if claim.alike and not stop else replace(test, power=0.0)


def _planned_guesses(
    law: ReleaseLaw, canaries: int, refuted: Callable[[int, GuessPlan, int], bool]
) -> GuessTest:
    """The guesses with the largest power, by scores drawn under half of the noise."""
    draws = max(_LEAST_DRAWS, min(_DRAWS, _NUMBERS // canaries))
    scores, coins = simulated(
        law,
        ratio=2 * law.ratio,
        canaries=canaries,
        draws=draws,
        generator=np.random.default_rng(canaries),
    )
    ordered = by_score(scores, coins)
    best, margin = GuessTest(GuessPlan(canaries // 2, 0), canaries, 0.0), -np.inf
    for plan in possible_plans(canaries):
        needed = fewest_correct(partial(_turned, refuted, plan, canaries), guesses=plan.guesses)
        correct = plan.correct(ordered)
        power = 0.0 if needed is None else float((correct >= needed).mean())
        spare = float(correct.mean()) - (plan.guesses + 1 if needed is None else needed)
        if (power, spare / plan.guesses) > (best.power, margin):
            best, margin = GuessTest(plan, canaries, power), spare / plan.guesses
    return best


def _turned(
    refuted: Callable[[int, GuessPlan, int], bool], plan: GuessPlan, canaries: int, correct: int
) -> bool:
    return refuted(correct, plan, canaries)


def take_bounds(
    planned: PlannedBounds, found: ReleaseEvidence, coins: NDArray[np.bool_], *, releases: int
) -> list[CanaryBound]:
    """The bounds after a run in which the busiest canary's client made so many `releases`."""
    claim = planned.claim
    law = replace(claim.law, compositions=max(1, releases))
    share = {name: part * planned.significance for name, part in planned.shares.items()}
    ratio = found.fit.least_ratio(share["known-noise"]) * law.reach
    f_dp, one_run = planned.f_dp, planned.one_run
    epsilons: dict[BoundName, float] = {
        "known-noise": law.with_ratio(ratio).epsilon(claim.delta) if releases else 0.0,
        "f-dp": _f_dp_epsilon(
            law, claim.delta, f_dp, f_dp.correct(found, coins), significance=share["f-dp"]
        ),
        "one-run": one_run_epsilon(
            canaries=one_run.canaries,
            guesses=one_run.plan.guesses,
            correct=one_run.correct(found, coins),
            delta=claim.delta,
            significance=share["one-run"],
        ),
    }
    if "summed-releases" in share:
        epsilons["summed-releases"] = found.kept.epsilon(
            law, claim.delta, significance=share["summed-releases"]
        )
    powers: Mapping[BoundName, tuple[float, int]] = {
        "known-noise": (planned.known_noise, len(coins)),
        "f-dp": (f_dp.power, f_dp.canaries),
        "one-run": (one_run.power, one_run.canaries),
        "summed-releases": (planned.summed, len(coins)),
    }
    e_values = _e_values(planned, found, coins, law=law)
    return [
        CanaryBound(
            name=name,
            epsilon_lower_bound=epsilon,
            significance=share[name],
            power=powers[name][0],
            assumption=_ASSUMPTIONS[name],
            canaries=powers[name][1],
            all_clear=no_all_clear(powers[name][0]),
            e_value=e_values[name],
        )
        for name, epsilon in epsilons.items()
    ]


def _e_values(
    planned: PlannedBounds, found: ReleaseEvidence, coins: NDArray[np.bool_], *, law: ReleaseLaw
) -> Mapping[BoundName, float]:
    """Against the claim for the releases that were planned; `law`: of those that were made."""
    claim, f_dp, one_run = planned.claim, planned.f_dp, planned.one_run
    curve = claim.law.with_ratio(planned.claimed_ratio * claim.law.reach).curve()
    guessed = f_dp.correct(found, coins)
    refuted = [
        level
        for level in _LEVELS
        if refutes(
            curve,
            canaries=f_dp.canaries,
            guesses=f_dp.plan.guesses,
            correct=guessed,
            significance=level,
        )
    ]
    told: dict[str, Any] = {
        "canaries": one_run.canaries,
        "guesses": one_run.plan.guesses,
        "correct": one_run.correct(found, coins),
        "epsilon": claim.epsilon,
        "delta": claim.delta,
    }
    summed = [
        level
        for level in _LEVELS
        if "summed-releases" in planned.shares
        and found.kept.epsilon(law, claim.delta, significance=level) > claim.epsilon
    ]
    by_name: Mapping[BoundName, tuple[float, float]] = {
        "known-noise": (
            known_noise_p_value(found.fit, claimed=planned.claimed_ratio),
            known_noise_e_value(found.fit, claimed=planned.claimed_ratio),
        ),
        "f-dp": (min(refuted, default=1.0), calibrated(min(refuted, default=1.0))),
        "one-run": (one_run_p_value(**told), one_run_e_value(**told)),
        "summed-releases": (min(summed, default=1.0), calibrated(min(summed, default=1.0))),
    }
    return {name: staked(*by_name[name], share=part) for name, part in planned.shares.items()}


def _f_dp_epsilon(
    law: ReleaseLaw, delta: float, test: GuessTest, correct: int, *, significance: float
) -> float:
    """The epsilon of the least noise whose curve so many correct guesses refute."""

    def refuted(ratio: float) -> bool:
        return refutes(
            law.with_ratio(ratio).curve(),
            canaries=test.canaries,
            guesses=test.plan.guesses,
            correct=correct,
            significance=significance,
        )

    low = high = law.ratio / (8 if law.is_sampled else 64)
    if not refuted(low):
        return 0.0
    while high < _LARGEST_RATIO and refuted(high):
        low, high = high, 2 * high
    # Every step of the search is a bound; of a sampled law one takes a good part of a second.
    for _ in range(_SEARCH_STEPS_SAMPLED if law.is_sampled else _SEARCH_STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return law.with_ratio(low).epsilon(delta)


def no_all_clear(power: float) -> str | None:
    """Why silence of a test of this power is no all-clear; None where it is one."""
    if power >= SUFFICIENT_POWER:
        return None
    return (
        f"noise half of what is claimed would have raised an alarm with a chance of {power:.0%} "
        "only: that none was raised is no all-clear"
    )
