"""Whether what a trainer declares was tested, by what and with which power, or is contradicted.

Canaries in a training test the *size of its noise* against the clip. How units were sampled, which
data were used and what else left the training remain as declared, and a test that finds nothing is
no proof.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedaudit.privacy.declared.canary_evidence import CLAIMED, TOGETHER, CanaryEvidence, by_round
from fedaudit.privacy.lower_bounds.e_values import (
    ENOUGH_ALONE,
    known_noise_alarm_power,
    one_look_level,
)
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    SignalFit,
    f_dp_epsilon,
    most_canaries,
    most_powerful_guesses,
    one_run_epsilon,
    one_run_p_value,
    refutes,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, gaussian_epsilon
from fedaudit.reports.declared.ledger_material import DeclaredEvidence, DeclaredMaterial
from fedaudit.reports.sections.attacks import SUFFICIENT_POWER, Alarm, CanaryBound
from fedaudit.reports.sections.part import Part, Section, Share

FigureStatus = Literal["declared", "tested", "contradicted"]
_SIGNIFICANCE = 0.01
_MOST_WEIGHT, _MOST_NUMBERS = 1e6, 10**8
_Bound = Literal["known-noise", "f-dp", "one-run"]
"""The bounds that take one look at all scores."""
_SHARES: Mapping[_Bound, float] = {"known-noise": 0.8, "f-dp": 0.1, "one-run": 0.1}
_ASSUMPTIONS: Mapping[_Bound, str] = {
    "known-noise": (
        "the noise is Gaussian, alike and independent in every number that is released; what the "
        "others sent is known to the adapter"
    ),
    "f-dp": (
        "the mechanism is at most as revealing as Gaussian noise of some size; coins are fair and "
        "independent"
    ),
    "one-run": "nothing but the definition of (epsilon, delta)-privacy and fair coins",
}
_NO_ALL_CLEAR = (
    "noise half of what is declared would have shown with a chance of {} only, so silence is no "
    "all-clear"
)


class TestedNoise(Part):
    """What is known of the declared noise besides the trainer's word."""

    status: FigureStatus
    """Status of the declared figures: `tested` where every round has canaries and noise half as
    large would likely have raised an alarm; `contradicted` where what was declared is refuted."""
    reason: str
    test: Literal["canaries"] | None = None
    """None where nothing was tested."""
    power: Share | None = None
    """The chance that noise half of what is declared would have raised an alarm by now."""
    rounds: Annotated[int, Field(ge=0)] = 0
    """Declared rounds with canaries in each of their releases."""
    canaries: Annotated[int, Field(ge=0)] = 0
    releases: Annotated[int, Field(ge=0)] = 0
    """That each of them was in."""
    claim: float | None = None
    """The epsilon that noise of the declared size gives these releases without any sampling."""
    bounds: list[CanaryBound]
    e_value: float | None = None
    alarm: Alarm | None = None
    alarm_round: int | None = None


def _tested(material: DeclaredMaterial) -> TestedNoise:
    found, terms = material.canaries, material.terms
    rounds = [one for one in material.rounds if one.event["kind"] != "none"]
    if found is None or terms.delta is None or terms.adjacency is None:
        return TestedNoise(
            status="contradicted" if material.contradicted else "declared",
            reason="no canaries were declared, so nothing tests the noise",
            bounds=[],
        )
    fit = _thinned(found.fit)
    even, fresh = by_round((one.event, one.canaries) for one in rounds if one.canaries)
    power = known_noise_alarm_power(
        claimed=CLAIMED,
        true=2 * CLAIMED,
        # Many canaries in one round say nothing of the others' noise.
        weight=min(fit.weight, even),
        numbers=fit.numbers,
        share=None,
        stake=TOGETHER,
    )
    status, reason = _status(material, found, power, rounds=len(rounds), fresh=fresh)
    reach = 2 if terms.adjacency == "replace-one" else 1
    # How far apart neighbours move all releases of one canary together, in declared deviations.
    mu = reach * math.sqrt(found.squared_ratio)
    law = ReleaseLaw(ratio=mu, rate=1.0, compositions=1, adjacency=terms.adjacency)
    claim, alarm = gaussian_epsilon(law.mu, terms.delta), None
    if found.alarm_round is not None:
        alarm = Alarm(
            claim="Gaussian noise of the declared multiplier on sums of clipped contributions",
            evidence=f"in round {found.alarm_round} likelihood ratios against it reached "
            f"{ENOUGH_ALONE:g}, which they ever do in at most {1 / ENOUGH_ALONE:.1%} of trainings "
            "whose noise is as declared",
        )
    return TestedNoise(
        status=status,
        reason=reason,
        test="canaries",
        power=power,
        **{name: getattr(found, name) for name in ("rounds", "releases", "e_value", "alarm_round")},
        canaries=len(found.present),
        claim=claim,
        bounds=list(_bounds(found, law, delta=terms.delta, claim=claim, power=power)),
        alarm=alarm,
    )


def _status(
    material: DeclaredMaterial, found: CanaryEvidence, power: float, *, rounds: int, fresh: bool
) -> tuple[FigureStatus, str]:
    if found.alarm_round is not None:
        return (
            "contradicted",
            f"canaries contradict the declared noise in round {found.alarm_round}",
        )
    if material.contradicted:
        return "contradicted", "what was declared contradicts itself"
    if found.rounds < rounds or len(material.rounds) > rounds:
        return "declared", f"canaries were in {found.rounds} of {len(material.rounds)} rounds only"
    if not fresh:
        return "declared", "two rounds have the same scores, as no two measurements of noise do"
    if power < SUFFICIENT_POWER:
        return "declared", (
            "noise half of what is declared would have raised an alarm with a chance of "
            f"{chance_words(power)} only: that none was raised is no all-clear"
        )
    return "tested", (
        "canaries in every round raised no alarm, and noise half of what is declared would have "
        f"with a chance of {chance_words(power)}. That is evidence of the size of the noise and no "
        "proof; sampling and data are as declared"
    )


def _thinned(fit: SignalFit) -> SignalFit:
    """The fit of a smaller share of very many releases, which shows no more than all of them:
    Student's t is not computed for arbitrarily large numbers."""
    share = min(1.0, _MOST_WEIGHT / fit.weight)
    numbers, deviation = min(fit.numbers, _MOST_NUMBERS), fit.deviation or 0.0
    product, weight = share * fit.product, share * fit.weight
    squares = product**2 / weight + deviation**2 * (numbers - 1)
    return SignalFit(product, weight, squares, numbers)


def _bounds(
    found: CanaryEvidence, law: ReleaseLaw, *, delta: float, claim: float, power: float
) -> Iterator[CanaryBound]:
    """Each bound holds for one look, at its share of the significance; the alarm for all looks
    together. Which coins are guessed follows from the declaration alone, and from no score."""
    share = {name: part * _SIGNIFICANCE for name, part in _SHARES.items()}
    level = {name: one_look_level(part) for name, part in _SHARES.items()}
    ratio = _thinned(found.fit).least_ratio(share["known-noise"]) * law.ratio
    scores, coins, curve = np.array(found.scores), found.coins, law.curve()
    by_curve = most_powerful_guesses(
        law, len(coins), partial(refutes, curve, significance=level["f-dp"])
    )
    by_epsilon = most_powerful_guesses(
        law,
        max(2, min(len(coins), most_canaries(delta) or len(coins))),
        lambda **counts: one_run_p_value(**counts, epsilon=claim, delta=delta) <= level["one-run"],
    )
    of_curve, of_epsilon = (one.counts(scores, coins) for one in (by_curve, by_epsilon))
    by_guess = f_dp_epsilon(law, delta, of_curve, significance=share["f-dp"])
    by_run = one_run_epsilon(**of_epsilon, delta=delta, significance=share["one-run"])
    bounds: dict[_Bound, tuple[float, float, int]] = {
        "known-noise": (gaussian_epsilon(ratio, delta), power, len(found.present)),
        "f-dp": (by_guess, by_curve.power, by_curve.canaries),
        "one-run": (by_run, by_epsilon.power, by_epsilon.canaries),
    }
    for name, (epsilon, its_power, canaries) in bounds.items():
        too_weak = _NO_ALL_CLEAR.format(chance_words(its_power))
        yield CanaryBound(
            name=name,
            epsilon_lower_bound=epsilon,
            significance=share[name],
            power=its_power,
            assumption=_ASSUMPTIONS[name],
            canaries=canaries,
            all_clear=None if its_power >= SUFFICIENT_POWER else too_weak,
            e_value=found.e_value if name == "known-noise" else None,
        )


def chance_words(power: float) -> str:
    """A power: never certainty."""
    return "over 99%" if power > 0.99 else f"{power:.0%}"


def _limits(material: DeclaredMaterial) -> Iterator[str]:
    if material.canaries is None:
        return
    yield (
        "Canaries were planted, and their scores sent, by the trainer's own process: they detect "
        "faults, and no trainer that sends false scores."
    )
    yield (
        "Canaries test how large the noise is beside one contribution: by all releases together, "
        "of which the power is, and by single rounds, where noise that is too small in few of many "
        "may not show. They do not test how units were sampled, which data were used, or noise "
        "that depends over releases; these are as declared."
    )


TESTED = Section[DeclaredMaterial, DeclaredEvidence](
    "tests",
    _tested,
    "entries hold no scores: the service compares them with what the chain holds",
    _limits,
)


def status_of(report: object) -> FigureStatus:
    """The status of a declared report's figures; `declared` of earlier versions."""
    tests = report.get("tests") if isinstance(report, dict) else None
    return tests["status"] if tests else "declared"
