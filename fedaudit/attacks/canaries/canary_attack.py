"""The attack `canaries`: planted in a companion training, by what the mechanism claims.

`laplace-l2` promises a leakage within a radius and no epsilon, and is tested by two inputs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress, source_of
from fedaudit.attacks.canaries.canary_bounds import (
    NOT_MEASURED,
    CanaryClaim,
    PlannedBounds,
    claim_of,
    plan_bounds,
    take_bounds,
)
from fedaudit.attacks.canaries.canary_pool import draw_pool
from fedaudit.attacks.canaries.planted_canaries import (
    ROUNDS_AT_ONCE,
    CanaryClients,
    CanaryRecords,
    Companion,
    MetricClients,
    ReleaseEvidence,
    draw_canaries,
)
from fedaudit.federations.split import training_clients
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.privacy.lower_bounds.e_values import (
    ENOUGH_ALONE,
    LARGEST_LEAKAGE,
    MetricTest,
    known_noise_e_value,
    least_leakage,
    metric_e_value,
    one_look_level,
    plan_metric_test,
)
from fedaudit.reports.sections.attacks import CanariesSection, CanaryBound, MetricAudit
from fedaudit.spec.attacks import CanariesSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.stack import Stack

_LEAST_POWER = 0.5
_NO_THEOREM = (
    "an adaptive radius follows the update, so that inputs of different norms have noise of "
    "different sizes: n/nu is a convention, and no theorem that a bound could refute"
)
_ASSUMPTION = "the inputs' noise does not depend on which of them was sent, and coins are fair"
_NO_EPSILON = "metric privacy claims a leakage within a radius, and no epsilon with a delta"


def audit_metric(
    companion: Companion, privacy: LaplaceL2, attacked: AttackedRun, *, progress: Progress
) -> AttackOutcome:
    """Trains the companion with two inputs, if they can test anything."""
    spec, canaries = companion.spec, companion.canaries
    test, why = _plan_test(companion, privacy)
    audit = MetricAudit(
        radius="adaptive" if privacy.radius == "adaptive" else "fixed",
        leakage_claim=companion.cell.shape.n / privacy.noise_multiplier,
        distance_over_radius=None if test is None else test.share,
        releases=0,
        leakage_lower_bound=None,
        significance=spec.significance,
        power=0.0 if test is None else test.power,
        assumption=_ASSUMPTION,
        reason=None if why is None else f"cannot be audited: {why}",
    )
    if privacy.radius == "adaptive" or test is None or why is not None:
        return AttackOutcome(_not_tried(companion, audit))
    half = test.share * privacy.radius / 2
    planted = MetricClients(companion.pool.clients, canaries, present=half, absent=-half)
    companion.train(planted, progress=progress)
    nearness = (planted.distances[:, 1] - planted.distances[:, 0]) / (2 * half)
    seen = np.isfinite(nearness)
    guesses = np.select([nearness > test.threshold, nearness < -test.threshold], [1, -1], 0)
    hits = np.where(canaries.coins, guesses, -guesses)
    right, wrong, uploads = int((hits > 0).sum()), int((hits < 0).sum()), int(seen.sum())
    found = least_leakage(right=right, wrong=wrong, significance=spec.significance)
    weighed = attacked.weigh(
        metric_e_value(right=right, wrong=wrong, leakage=test.leakage),
        "fresh",
        claim=(
            f"leakage {test.leakage:.4g} between two updates of a client at {test.share:g} of the "
            "radius, against the server"
        ),
        evidence=f"at least {found:.4g}, wrong with a chance of at most {spec.significance:.2g}",
    )
    measured = {"leakage_claim": test.leakage, "releases": uploads, "leakage_lower_bound": found}
    statement = (
        f"Claimed: a leakage of at most {test.leakage:.3g} between inputs at {test.share:g} of the "
        f"radius. Measured from below, from the uploads of {uploads} canaries: {found:.3g} (power "
        f"{test.power:.0%})."
    )
    return companion.outcome(
        statement,
        "server",
        releases=seen.astype(np.int64),
        scores=nearness,
        guesses=guesses.astype(np.int8),
        fields={
            "claim_reason": _NO_EPSILON,
            "correlation": 0.0,
            "metric": audit.model_copy(update=measured),
            **weighed,
        },
    )


def _not_tried(companion: Companion, audit: MetricAudit) -> CanariesSection:
    return companion.section(
        f"Not tried, for the answer would say nothing: it {audit.reason}. That is no all-clear. "
        "What tests the noise here are the tests of its distribution.",
        "server",
        status="not-done",
        reason=audit.reason,
        included=None,
        claim_reason=_NO_EPSILON,
        metric=audit,
    )


def _plan_test(companion: Companion, privacy: LaplaceL2) -> tuple[MetricTest | None, str | None]:
    """The test with the largest power, and why none is tried; None where one is."""
    spec, cell = companion.spec, companion.cell
    nu, n = privacy.noise_multiplier, cell.shape.n
    if privacy.radius == "adaptive":
        return None, _NO_THEOREM
    training = training_clients(cell.federation.clients, cell.spec.federation)
    absent = 1 - min(1.0, expected_cohort(cell) / training)
    test = plan_metric_test(
        n=n,
        noise_multiplier=nu,
        # How many canaries upload at all, on average and at least one.
        releases=max(1, int(spec.count * (1 - absent**cell.spec.training.rounds))),
        most_share=math.inf if privacy.clip is None else 2 * privacy.clip / privacy.radius,
        significance=one_look_level(),
    )
    if test is None:
        why = f"a leakage of {n / nu:.3g} is beyond {LARGEST_LEAKAGE:g} at every distance tried"
        return None, why
    if test.power < _LEAST_POWER:
        return test, (
            f"with {spec.count} canaries and {n} parameters, noise half of what is claimed would "
            f"be noticed with a chance of {test.power:.0%} at best; metric privacy hides in "
            "dimension"
        )
    return test, None


_HALVED_ALONE = (
    "The power is for noise of the claimed kind and half its size alone; of any other fault, such "
    "as noise that cancels over rounds, it says nothing."
)


_LATER = (
    "the power is that of a first attack, and after others on this run an alarm takes more "
    "evidence: that none was raised is no all-clear"
)


def attack_by_canaries(
    spec: CanariesSpec,
    attacked: AttackedRun,
    *,
    audit: "CanaryAudit | None" = None,
    progress: Progress,
) -> AttackOutcome:
    """Bounds the privacy loss of a run's mechanism from below, by the `audit` that was followed
    beside it if its spec asks for one. Raises ValueError if the data cannot hold the canaries."""
    companion, claim = draw_companion(spec, attacked.run.cell, device=attacked.device)
    privacy = companion.cell.spec.privacy
    if isinstance(privacy, LaplaceL2):
        return audit_metric(companion, privacy, attacked, progress=progress)
    followed = audit if spec.stop else None
    playing = followed or begin_audit(companion, claim)
    progress(0.0)
    playing.play(progress=progress)
    return playing.outcome(attacked.weigh)


def draw_companion(
    spec: CanariesSpec, of: Cell, *, device: str
) -> tuple[Companion, CanaryClaim | None]:
    """Canaries of a run's cell, and the claim that they can test; None if no epsilon is claimed."""
    source, training = source_of(of), of.spec.training
    # All rounds and a single validation at the end: no loss may end it before its last round, since
    # the claim covers all rounds. The seed stays, since it decides who trains and with which
    # budgets; with `release` no noise is drawn from it.
    stopping = training.stopping.model_copy(
        update={"patience": None, "validate_every": training.rounds, "validation_clients": 1}
    )
    whole = training.model_copy(update={"stopping": stopping})
    cell = replace(of, spec=of.spec.model_copy(update={"training": whole}))
    pool = draw_pool(cell, spec.count, source)
    claim = claim_of(cell, pool)
    adjacency = "replace-one" if claim is None else claim.law.adjacency
    canaries = draw_canaries(pool.release, n=cell.shape.n, adjacency=adjacency, source=source)
    return Companion(spec, cell, pool, canaries, device), claim


class CanaryAudit:
    """The canaries of one attack, and their companion, which is trained step by step."""

    def __init__(self, companion: Companion, planned: PlannedBounds) -> None:
        """Raises ValueError without a clip that is a number."""
        self._companion, self._planned = companion, planned
        self._found = ReleaseEvidence(companion.canaries, planned.claim.law)
        self._planted = self._plant()
        cell = replace(companion.cell, planted=self._planted)
        self._trainer = Stack([cell], device=companion.device)
        self.rounds = 0
        """Rounds trained so far."""
        self.crossed: int | None = None
        """The round in which the evidence was enough, if the spec asks to `stop`."""

    def _plant(self) -> CanaryClients | CanaryRecords:
        cell, pool, canaries = self._companion.cell, self._companion.pool, self._companion.canaries
        clip = getattr(cell.spec.privacy, "clip", None)
        if not isinstance(clip, float | int) or not np.isfinite(clip):
            raise ValueError("canaries need a clip that is a number")
        if pool.rows is not None:
            return CanaryRecords(pool.clients, pool.rows, canaries, self._found, clip=clip)
        denominator = expected_cohort(cell) / cell.spec.training.hypotheses
        return CanaryClients(
            pool.clients, canaries, self._found, clip=clip, denominator=denominator
        )

    def play(self, until: int | None = None, *, progress: Progress) -> None:
        """Trains the companion up to the round `until`, or to its end.

        If the spec asks to `stop`, the evidence is evaluated after each round until it is enough.
        `progress` may raise; the companion can then be trained further.
        """
        rounds, stop = self._companion.cell.spec.training.rounds, self._companion.spec.stop
        until = rounds if until is None else min(until, rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            while self._trainer.active and self.rounds < until:
                watched = stop and self.crossed is None
                step = 1 if watched else min(ROUNDS_AT_ONCE, until - self.rounds)
                self._trainer.plan(step)
                self.rounds += len(self._trainer.advance(step)[0])
                if watched and self._evidence() >= ENOUGH_ALONE:
                    self.crossed = self.rounds
                progress(min(1.0, self.rounds / rounds))

    def _evidence(self) -> float:
        return known_noise_e_value(self._found.fit, claimed=self._planned.claimed_ratio)

    def outcome(self, weigh: Callable[..., dict[str, Any]]) -> AttackOutcome:
        """What the canaries show, of a companion that has been trained to its end: bounds hold for
        all of its rounds, and not for a number of them that depends on what was seen. `weigh`: as
        of `attack`."""
        spec, claim, found = self._companion.spec, self._planned.claim, self._found
        canaries = self._companion.canaries
        releases = self._releases()
        bounds = take_bounds(
            self._planned, found, canaries.coins, significance=spec.significance, releases=releases
        )
        epsilon = claim.epsilon_of(releases)
        claimed = (
            f"epsilon {epsilon:.4g} at delta {claim.delta:g} for every {spec.unit}, against "
            f"{observer_words(claim.observer)}"
        )
        e_value = sum(claim.shares[bound.name] * (bound.e_value or 0.0) for bound in bounds)
        if spec.stop:
            # A martingale that was stopped at a level, and cut there (`known_noise_e_value`).
            e_value = ENOUGH_ALONE if self.crossed is not None else self._evidence()
            bounds = [bound.model_copy(update={"e_value": None}) for bound in bounds]
        weighed = weigh(e_value, "fresh", claim=claimed, evidence=_measured(bounds))
        alarmed = weighed["alarm"] is not None
        # A power is the chance of so much evidence as a first attack on the run needs.
        if weigh(ENOUGH_ALONE, "fresh", claim=claimed, evidence="")["alarm"] is None:
            bounds = [
                one if one.all_clear else one.model_copy(update={"all_clear": _LATER})
                for one in bounds
            ]
        figures = ", ".join(map(_figure, bounds))
        verdict = _verdict(epsilon, bounds, alarm=alarmed, stopped_in=self.crossed)
        return self._companion.outcome(
            f"Claimed: {claimed}. Measured from below: {figures}. {_HALVED_ALONE} {verdict}",
            claim.observer,
            releases=found.participations,
            scores=found.scores,
            guesses=self._planned.tests["f-dp"].guessed(found.scores),
            fields={
                **weighed,
                "claim": epsilon,
                "delta": claim.delta,
                "adjacency": claim.law.adjacency,
                "compositions": releases,
                "correlation": canaries.correlation(),
                "bounds": bounds,
                "stopped_in": self.crossed,
            },
        )

    def _releases(self) -> int:
        """How many releases the claim counts. Takes the kept model into the evidence first."""
        if isinstance(self._planted, CanaryRecords):
            return int(self._found.seen.max())
        if self._planned.claim.observer != "final_model":
            return int(self._found.participations.max())
        result = self._trainer.result(0)
        self._planted.see_model(result.hypotheses[0], round_=result.best_round)
        return self.rounds


def audit_beside(cell: Cell, *, device: str) -> CanaryAudit | None:
    """The audit that may end a run of this cell; None if its spec asks for none."""
    asked = cell.spec.attacks[0] if cell.spec.attacks else None
    if not isinstance(asked, CanariesSpec) or not asked.stop:
        return None
    return begin_audit(*draw_companion(asked, cell, device=device))


def begin_audit(companion: Companion, claim: CanaryClaim | None) -> CanaryAudit:
    """The audit of a claim, before the first round of the companion. Raises ValueError without a
    claim (`CanariesSpec.disagreements` refuses that before)."""
    if claim is None:
        raise ValueError("nothing is claimed, and canaries have nothing to test")
    spec = companion.spec
    return CanaryAudit(companion, plan_bounds(claim, canaries=spec.count, stop=spec.stop))


def _figure(bound: CanaryBound) -> str:
    if bound.all_clear == NOT_MEASURED:
        return f"nothing by {bound.name}"
    return f"{bound.epsilon_lower_bound:.3g} by {bound.name} (power {bound.power:.0%})"


def _measured(bounds: Sequence[CanaryBound]) -> str:
    return "; ".join(
        f"{bound.name}: at least {bound.epsilon_lower_bound:.4g}, wrong with a chance of at most "
        f"{bound.significance:.2g}"
        + ("" if bound.e_value is None else f" (e-value {bound.e_value:.4g})")
        for bound in bounds
    )


def _verdict(
    epsilon: float, bounds: Sequence[CanaryBound], *, alarm: bool, stopped_in: int | None
) -> str:
    if stopped_in is not None:
        return (
            f"After round {stopped_in} the evidence was enough, and a run beside it was ended: "
            "either the mechanism or its accounting is wrong."
        )
    if alarm:
        return "The evidence is enough: either the mechanism or its accounting is wrong."
    if any(bound.epsilon_lower_bound > epsilon for bound in bounds):
        return (
            "A bound exceeds the claim, which a single test at its significance does by chance now "
            "and then; all attacks on this run together are not enough for an alarm."
        )
    if all(bound.all_clear == NOT_MEASURED for bound in bounds):
        return "No bound measured anything, so the claim was not tested: this is no all-clear."
    if any(bound.all_clear is None for bound in bounds):
        return (
            "No measurement exceeds the claim, and one of them would likely have done so if the "
            "noise were half of what is claimed. That is evidence and no proof: other faults may "
            "be hidden."
        )
    return (
        "No measurement exceeds the claim, but none was likely to even if the noise were half of "
        "what is claimed: this is no all-clear. More canaries or rounds would show more, by "
        "known-noise at least."
    )
