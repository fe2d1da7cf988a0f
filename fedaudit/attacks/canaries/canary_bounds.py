"""What the unit of canaries is promised, and the lower bounds and e-values that test the promise.

How many coins are guessed and how the significance is shared is decided before the run, so that
neither depends on what was seen. The bounds share the significance (Bonferroni), so that all of
them together are wrong with no greater chance. Each bound that assumes less has a tenth, and
`known-noise`, which sees most, has the rest. A claim of a single release has no sums of releases.
The e-values are averaged with the same shares, since they rest on the same coins and noise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import assert_never

import numpy as np

from fedaudit.arrays import Bools
from fedaudit.attacks.canaries.canary_pool import CanaryPool
from fedaudit.attacks.canaries.planted_canaries import ReleaseEvidence, most_kept
from fedaudit.federations.split import training_clients
from fedaudit.privacy.accounting.privacy_events import Observer
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
    GuessTest,
    f_dp_epsilon,
    most_canaries,
    most_powerful_guesses,
    one_run_epsilon,
    one_run_p_value,
    refutes,
    summed_power,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.privacy.records.record_use import client_rate
from fedaudit.reports.sections.attacks import SUFFICIENT_POWER, BoundName, CanaryBound
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianDistance,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.base.records import record_use_of, spending_of

_SHARES_WITH_SUMS: Mapping[BoundName, float] = {
    "known-noise": 0.7,
    "f-dp": 0.1,
    "one-run": 0.1,
    "summed-releases": 0.1,
}
_LEVELS = (1e-1, 1e-2, 1e-3, one_look_level(0.1), 1e-4, 1e-5, 1e-6)
"""Significances at which `f-dp` and `summed-releases` are evaluated; the p-value is the smallest
that refutes the claim."""
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


@dataclass(frozen=True, kw_only=True)
class CanaryClaim:
    """A promise, and what it implies for a canary's releases."""

    law: ReleaseLaw
    """Law of as many releases as are expected before the run."""
    delta: float
    observer: Observer
    epsilon_of: Callable[[int], float]
    """The claimed epsilon after so many releases."""
    entries: float
    """Releases that all canaries together enter, on average."""
    numbers: float
    """Numbers in all releases that are seen, on average."""
    alike: bool = True
    """Whether every canary takes part as the law says. If some hardly ever do, the power of bounds
    that guess about each canary is unknown, and counts as none."""

    @property
    def weight(self) -> float:
        """The weight of the fit (`SignalFit.weight`), on average."""
        replaces = self.law.adjacency == "replace-one"
        return self.entries if replaces else self.entries / 2

    @property
    def epsilon(self) -> float:
        """Claimed for the expected releases."""
        return self.epsilon_of(self.law.compositions)

    @property
    def shares(self) -> Mapping[BoundName, float]:
        """What each bound has of the significance and of the stakes; together they are 1."""
        shares = dict(_SHARES_WITH_SUMS)
        if self.law.compositions == 1:  # the sum of one release is the release
            shares["known-noise"] += shares.pop("summed-releases")
        return shares


def claim_of(cell: Cell, pool: CanaryPool) -> CanaryClaim | None:
    """The claim of the canaries; None if no epsilon is claimed.

    For records it is the claim against the server, which sees every step that the accountant
    composes, and for the record that is sampled most often.
    """
    privacy, plan = cell.spec.privacy, spending_of(cell.spec, cell.federation)
    if plan is None:
        return None
    match privacy:
        case GaussianCentral() | GaussianLocal():
            return _claim_of_clients(cell, privacy, plan, canaries=len(pool.clients))
        case RecordPersonalised():
            return _claim_of_records(cell, privacy, pool)
        case LaplaceL2() | GaussianDistance() | NoMechanism():
            return None
        case _:
            assert_never(privacy)


def _claim_of_clients(
    cell: Cell, privacy: GaussianCentral | GaussianLocal, plan: SpendingPlan, *, canaries: int
) -> CanaryClaim:
    cohort, rounds = expected_cohort(cell), cell.spec.training.rounds
    block = cell.spec.training.block
    training = training_clients(cell.federation.clients, cell.spec.federation)
    rate = min(1.0, cohort / training)
    by_server = isinstance(privacy, GaussianCentral)
    observer: Observer = "final_model" if by_server else "server"
    # A server that is not trusted sees who sends, and so only the releases that a client enters.
    releases = rounds if by_server else max(1, ceil(rounds * rate))
    if privacy.epsilon_budget is not None:
        within = plan.steps_within(observer, privacy.epsilon_budget)
        releases = max(1, min(releases, within))
    adjacency = plan.adjacency if by_server else "replace-one"
    law = ReleaseLaw(
        ratio=1.0,
        rate=rate if by_server else 1.0,
        compositions=releases,
        adjacency=adjacency,
        block=block if by_server and block > 1 else None,
    )
    entries = canaries * (rate * releases if by_server else min(rounds * rate, releases))
    return CanaryClaim(
        law=law.with_ratio(law.reach / privacy.noise_multiplier),
        delta=privacy.delta,
        observer=observer,
        epsilon_of=lambda count: plan.largest(observer, count),
        entries=entries,
        numbers=cell.shape.n * (releases if by_server else entries),
        alike=by_server or cohort >= training,
    )


def _claim_of_records(
    cell: Cell, privacy: RecordPersonalised, pool: CanaryPool
) -> CanaryClaim | None:
    use, steps = record_use_of(cell.spec, cell.federation), cell.spec.training.local.steps
    if use is None or use.runs is None or steps is None:
        return None
    run = replace(use.runs[0], observer="server")
    clients = client_rate(cell.spec.training.cohort)
    expected, rate = clients * cell.spec.training.rounds, float(pool.rates.max())
    return CanaryClaim(
        law=ReleaseLaw(
            ratio=1 / run.noise_multiplier,
            rate=rate,
            compositions=steps * max(1, ceil(expected)),
            adjacency="add-or-remove-one",
        ),
        delta=privacy.delta,
        observer="server",
        epsilon_of=lambda count: float(
            run.epsilons(np.array([rate]), rounds=ceil(count / steps))[0]
        ),
        entries=float(pool.rates.sum()) * steps * expected,
        numbers=len(np.unique(pool.clients)) * steps * expected * cell.shape.n,
        alike=clients == 1 and float(pool.rates.min()) == rate,
    )


@dataclass(frozen=True)
class PlannedBounds:
    """What is decided before the run."""

    claim: CanaryClaim
    claimed_ratio: float
    """Claimed limit of a canary's share of a release over the deviation of the noise."""
    tests: Mapping[BoundName, GuessTest]
    """How each bound guesses coins, and its power. Those that see more than scores guess none."""


def plan_bounds(claim: CanaryClaim, *, canaries: int, stop: bool = False) -> PlannedBounds:
    """Powers against noise that is half of what is claimed, and what is guessed.

    `stop`: the evidence of `known-noise` is followed, and nothing is staked on the others.
    """
    law, delta, epsilon = claim.law, claim.delta, claim.epsilon
    needed = law.with_ratio(max(law.ratio_of_epsilon(epsilon, delta), law.ratio))
    curve, shares = needed.curve(), claim.shares
    level = {name: one_look_level(part) for name, part in shares.items()}

    def refutes_epsilon(**counts: int) -> bool:
        return one_run_p_value(**counts, epsilon=epsilon, delta=delta) <= level["one-run"]

    def guess(count: int, refuted: Callable[..., bool]) -> GuessTest:
        test = most_powerful_guesses(law, count, refuted)
        return test if claim.alike and not stop else replace(test, power=0.0)

    summed = 0.0
    if "summed-releases" in level and claim.alike and not stop:
        summed = summed_power(
            law,
            claimed=needed.ratio,
            weight=claim.weight / law.compositions,
            numbers=min(round(claim.numbers / law.compositions), most_kept(canaries)),
            significance=level["summed-releases"],
        )
    known_noise = known_noise_alarm_power(
        claimed=needed.ratio / law.reach,
        true=2 * law.ratio / law.reach,
        weight=claim.weight,
        numbers=max(2, round(claim.numbers)),
        share=None if stop else shares["known-noise"],
    )
    tests: Mapping[BoundName, GuessTest] = {
        "known-noise": GuessTest(canaries, 0, 0, known_noise),
        "f-dp": guess(canaries, partial(refutes, curve, significance=level["f-dp"])),
        "one-run": guess(min(canaries, most_canaries(delta) or canaries), refutes_epsilon),
        "summed-releases": GuessTest(canaries, 0, 0, summed),
    }
    return PlannedBounds(claim, needed.ratio / law.reach, tests)


NOT_MEASURED = (
    "nothing was measured: no canary was in what this bound examines, or too few releases or "
    "numbers were seen. That no alarm was raised says nothing"
)


def take_bounds(
    planned: PlannedBounds,
    found: ReleaseEvidence,
    coins: Bools,
    *,
    significance: float,
    releases: int,
) -> list[CanaryBound]:
    """The bounds after a run in which the busiest canary's client made so many `releases`; together
    they are wrong with a chance of at most `significance`. E-values are against the claim for the
    planned releases.

    A bound that measured nothing is 0 with a power of 0, and its `all_clear` is NOT_MEASURED.
    """
    claim, ratio, fit = planned.claim, planned.claimed_ratio, found.fit
    epsilon, delta = claim.epsilon, claim.delta
    law = replace(claim.law, compositions=max(1, releases))
    sums = partial(found.kept.epsilon, law, delta)
    seen, bounds = bool(found.seen.any()), []
    for name, share in claim.shares.items():
        own, test = share * significance, planned.tests[name]
        counts, bound = test.counts(found.scores, coins), None
        match name:
            case "known-noise":
                least = law.with_ratio(fit.least_ratio(own) * law.reach)
                if fit.weight > 0:
                    bound = least.epsilon(delta) if releases else 0.0
                p_value = known_noise_p_value(fit, claimed=ratio)
                e_value = known_noise_e_value(fit, claimed=ratio)
            case "f-dp":
                bound = f_dp_epsilon(law, delta, counts, significance=own) if seen else None
                curve = claim.law.with_ratio(ratio * claim.law.reach).curve()
                p_value = _least_level(partial(refutes, curve, **counts))
                e_value = calibrated(p_value)
            case "one-run":
                if seen:
                    bound = one_run_epsilon(**counts, delta=delta, significance=own)
                p_value = one_run_p_value(**counts, epsilon=epsilon, delta=delta)
                e_value = one_run_e_value(**counts, epsilon=epsilon, delta=delta)
            case "summed-releases":
                bound = sums(significance=own)
                p_value = _least_level(lambda **level: (sums(**level) or 0.0) > epsilon)
                e_value = calibrated(p_value)
            case _:
                assert_never(name)
        bounds.append(
            CanaryBound(
                name=name,
                epsilon_lower_bound=bound or 0.0,
                significance=own,
                power=0.0 if bound is None else test.power,
                assumption=_ASSUMPTIONS[name],
                canaries=test.canaries,
                all_clear=NOT_MEASURED if bound is None else _why_no_all_clear(test.power),
                e_value=staked(p_value, e_value, share=share),
            )
        )
    return bounds


def _least_level(refuted: Callable[..., bool]) -> float:
    """The smallest level at which the claim is refuted, as `significance`; 1 if it is at none."""
    return min((level for level in _LEVELS if refuted(significance=level)), default=1.0)


def _why_no_all_clear(power: float) -> str | None:
    """Why silence of a test of this power is no all-clear; None if it is one."""
    if power >= SUFFICIENT_POWER:
        return None
    return (
        f"noise half of what is claimed would have raised an alarm with a chance of {power:.0%} "
        "only: that none was raised is no all-clear"
    )
