"""The attack `canaries`: planted in a companion training, by what the mechanism claims."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedaudit.attacks.attack import Attack, AttackedRun, AttackOutcome, Progress, Weighed, source_of
from fedaudit.attacks.canaries.canary_bounds import (
    PlannedBounds,
    claim_of,
    plan_bounds,
    take_bounds,
)
from fedaudit.attacks.canaries.canary_pool import CanaryPool, draw_pool
from fedaudit.attacks.canaries.metric_audit import audit_metric
from fedaudit.attacks.canaries.planted_canaries import (
    ROUNDS_AT_ONCE,
    CanaryClients,
    CanaryRecords,
    CanarySet,
    ReleaseEvidence,
    canaries_outcome,
    companion_of,
    draw_canaries,
    train,
)
from fedaudit.privacy.accounting.privacy_events import observer_words
from fedaudit.privacy.lower_bounds.e_values import ENOUGH_ALONE, EvidenceBasis, known_noise_e_value
from fedaudit.privacy.lower_bounds.epsilon_bounds import GuessPlan, by_score, one_run_epsilon
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.reports.document.attacks.canaries_section import CanaryBound
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.trainer_choice import open_stack

_HALVED_ALONE = (
    "The power is for noise of the claimed kind and half its size alone; of any other fault, such "
    "as noise that cancels over rounds, it says nothing."
)


@dataclass(frozen=True)
class CanaryAttack(Attack):
    """Bounds the privacy loss of a run's mechanism from below."""

    spec: CanariesSpec

    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """Raises ValueError if the data cannot hold the canaries."""
        own, device = attacked.run.cell, attacked.device
        source, cell = source_of(own), companion_of(own)
        pool, privacy = draw_pool(cell, self.spec.count, source), cell.spec.privacy
        if not isinstance(privacy, LaplaceL2) and claim_of(cell, pool) is not None:
            followed = attacked.audit if self.spec.stop else None
            audit = followed or begin_audit(self.spec, own, device=device)
            progress(0.0)
            audit.play(progress=progress)
            return audit.outcome(attacked.weigh)
        canaries = draw_canaries(
            pool.release, n=cell.shape.n, adjacency="replace-one", source=source
        )
        if isinstance(privacy, LaplaceL2):
            return audit_metric(
                self.spec, privacy, cell, pool, canaries, attacked=attacked, progress=progress
            )
        return _audit_without_claim(
            self.spec, cell, pool, canaries, device=device, progress=progress
        )


class CanaryAudit:
    """The canaries of one attack, and their companion, which is trained step by step."""

    def __init__(
        self,
        spec: CanariesSpec,
        cell: Cell,
        pool: CanaryPool,
        canaries: CanarySet,
        planned: PlannedBounds,
        *,
        device: str,
    ) -> None:
        """`cell`: of the companion. Raises ValueError without a clip that is a number."""
        self._spec, self._cell, self._pool = spec, cell, pool
        self._canaries, self._planned = canaries, planned
        self._found = ReleaseEvidence(canaries, planned.claim.law)
        self._planted = self._plant()
        self._trainer = open_stack([replace(cell, planted=self._planted)], device=device)
        self.rounds = 0
        """Rounds trained so far."""
        self.crossed: int | None = None
        """The round in which the evidence was enough, if the spec asks to `stop`."""

    def _plant(self) -> CanaryClients | CanaryRecords:
        cell, pool, clip = self._cell, self._pool, getattr(self._cell.spec.privacy, "clip", None)
        if not isinstance(clip, float | int) or not np.isfinite(clip):
            raise ValueError("canaries need a clip that is a number")
        if pool.rows is not None:
            return CanaryRecords(pool.clients, pool.rows, self._canaries, self._found, clip=clip)
        denominator = expected_cohort(cell) / cell.spec.training.hypotheses
        return CanaryClients(
            pool.clients, self._canaries, self._found, clip=clip, denominator=denominator
        )

    def play(self, until: int | None = None, *, progress: Progress) -> None:
        """Trains the companion up to the round `until`, or to its end.

        If the spec asks to `stop`, the evidence is evaluated after each round until it is enough.
        `progress` may raise; the companion can then be trained further.
        """
        rounds = self._cell.spec.training.rounds
        until = rounds if until is None else min(until, rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            while self._trainer.active and self.rounds < until:
                watched = self._spec.stop and self.crossed is None
                step = 1 if watched else min(ROUNDS_AT_ONCE, until - self.rounds)
                self._trainer.plan(step)
                self.rounds += len(self._trainer.advance(step)[0])
                if watched and self._evidence() >= ENOUGH_ALONE:
                    self.crossed = self.rounds
                progress(min(1.0, self.rounds / rounds))

    def _evidence(self) -> float:
        return known_noise_e_value(self._found.fit, claimed=self._planned.claimed_ratio)

    def outcome(self, weigh: Callable[[float, EvidenceBasis], Weighed]) -> AttackOutcome:
        """What the canaries show, of a companion that has been trained to its end: bounds hold for
        all of its rounds, and not for a number of them that depends on what was seen."""
        spec, claim, found, coins = self._spec, self._planned.claim, self._found, self._canaries
        releases = self._releases()
        bounds = take_bounds(self._planned, found, coins.coins, releases=releases)
        epsilon = claim.epsilon_of(releases)
        claimed = (
            f"epsilon {epsilon:.4g} at delta {claim.delta:g} for every {spec.unit}, against "
            f"{observer_words(claim.observer)}"
        )
        e_value = self._planned.averaged(bounds)
        if spec.stop:
            # A martingale that was stopped at a level, and cut there (`known_noise_e_value`).
            e_value = ENOUGH_ALONE if self.crossed is not None else self._evidence()
            bounds = [bound.model_copy(update={"e_value": None}) for bound in bounds]
        weighed = weigh(e_value, "fresh")
        alarm = weighed.alarm(claim=claimed, evidence=_measured(bounds))
        figures = ", ".join(
            f"{bound.epsilon_lower_bound:.3g} by {bound.name} (power {bound.power:.0%})"
            for bound in bounds
        )
        verdict = _verdict(epsilon, bounds, alarm=alarm is not None, stopped_in=self.crossed)
        return canaries_outcome(
            spec,
            self._cell,
            self._pool,
            coins,
            statement=(
                f"Claimed: {claimed}. Measured from below: {figures}. {_HALVED_ALONE} {verdict}"
            ),
            observer=claim.observer,
            releases=found.participations,
            scores=found.scores,
            guesses=self._planned.f_dp.plan.guessed(found.scores),
            fields={
                **weighed.fields(),
                "alarm": alarm,
                "claim": epsilon,
                "claim_reason": None,
                "delta": claim.delta,
                "adjacency": claim.law.adjacency,
                "compositions": releases,
                "correlation": coins.correlation(),
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
    return begin_audit(asked, cell, device=device)


def begin_audit(spec: CanariesSpec, of: Cell, *, device: str) -> CanaryAudit:
    """Canaries of a run's cell, before the first round of their companion. Raises ValueError if
    nothing is claimed that they could test (`CanariesSpec.disagreements` refuses that before)."""
    source, cell = source_of(of), companion_of(of)
    pool = draw_pool(cell, spec.count, source)
    claim = claim_of(cell, pool)
    if claim is None:
        raise ValueError("nothing is claimed")
    canaries = draw_canaries(
        pool.release, n=cell.shape.n, adjacency=claim.law.adjacency, source=source
    )
    planned = plan_bounds(
        claim, canaries=spec.count, significance=spec.significance, stop=spec.stop
    )
    return CanaryAudit(spec, cell, pool, canaries, planned, device=device)


def _measured(bounds: Sequence[CanaryBound]) -> str:
    """What each bound measured, for an alarm."""
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


def _audit_without_claim(
    spec: CanariesSpec,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    *,
    device: str,
    progress: Progress,
) -> AttackOutcome:
    """The one-run bound at delta 0 if nothing is claimed, by guessing a quarter of the canaries
    each way."""
    law = ReleaseLaw(ratio=1.0, rate=1.0, compositions=1, adjacency="replace-one")
    found = ReleaseEvidence(canaries, law)
    planted = CanaryClients(pool.clients, canaries, found, clip=1.0, denominator=1.0)
    train(replace(cell, planted=planted), device=device, progress=progress)
    plan = GuessPlan(max(1, spec.count // 4), spec.count // 4)
    correct = int(plan.correct(by_score(found.scores, canaries.coins)))
    epsilon = one_run_epsilon(
        canaries=spec.count,
        guesses=plan.guesses,
        correct=correct,
        delta=0.0,
        significance=spec.significance,
    )
    bound = CanaryBound(
        name="one-run",
        epsilon_lower_bound=epsilon,
        significance=spec.significance,
        power=0.0,
        assumption="fair, independent coins; epsilon at delta 0",
        canaries=spec.count,
        all_clear="nothing is claimed, so that nothing can be exceeded",
    )
    return canaries_outcome(
        spec,
        cell,
        pool,
        canaries,
        statement=(
            f"Nothing is claimed. Of {plan.guesses} coins guessed from the uploads {correct} were "
            f"guessed correctly, which no mechanism with an epsilon below {epsilon:.3g} allows; "
            "how large the figure is depends on the number of canaries alone, since nothing hides "
            "them."
        ),
        observer="server",
        releases=found.participations,
        scores=found.scores,
        guesses=plan.guessed(found.scores),
        fields={
            "claim": None,
            "claim_reason": "updates leave as they are: no epsilon is claimed, and none bounds "
            "them",
            "delta": None,
            "adjacency": None,
            "compositions": None,
            "correlation": 0.0,
            "bounds": [bound],
        },
    )
