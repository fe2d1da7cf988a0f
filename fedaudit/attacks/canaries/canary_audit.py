"""Canaries in a companion training that is played step by step, and what they show in the end."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedaudit.attacks.attack import AttackOutcome, Progress, Weighed
from fedaudit.attacks.canaries.canary_bounds import PlannedBounds, plan_bounds, take_bounds
from fedaudit.attacks.canaries.canary_claim import claim_of
from fedaudit.attacks.canaries.canary_clients import CanaryClients
from fedaudit.attacks.canaries.canary_pool import CanaryPool, draw_pool
from fedaudit.attacks.canaries.canary_records import CanaryRecords
from fedaudit.attacks.canaries.canary_set import CanarySet, draw_canaries
from fedaudit.attacks.canaries.canary_words import (
    bounds_statement,
    capabilities,
    claim_words,
    measured_words,
)
from fedaudit.attacks.canaries.companion import ROUNDS_AT_ONCE, companion_of, source_of
from fedaudit.attacks.canaries.evidence_of_releases import ReleaseEvidence
from fedaudit.attacks.canaries.score_table import score_table
from fedaudit.privacy.lower_bounds.e_values import ENOUGH_ALONE, EvidenceBasis, known_noise_e_value
from fedaudit.reports.sections.attacks import CanariesSection
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.stack import open_stack


class CanaryAudit:
    """The canaries of one attack and their companion, which is played as far as it is asked."""

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
        self._planted = self._plant(_clip(cell))
        self._trainer = open_stack([replace(cell, planted=self._planted)], device=device)
        self.rounds = 0
        """Played so far."""
        self.crossed: int | None = None
        """Where the spec asks to `stop`: the round in which the evidence was enough."""

    def _plant(self, clip: float) -> CanaryClients | CanaryRecords:
        cell, pool = self._cell, self._pool
        if pool.rows is not None:
            return CanaryRecords(pool.clients, pool.rows, self._canaries, self._found, clip=clip)
        return CanaryClients(
            pool.clients,
            self._canaries,
            self._found,
            clip=clip,
            denominator=expected_cohort(cell) / cell.spec.training.hypotheses,
        )

    def play(self, until: int | None = None, *, progress: Progress) -> None:
        """The companion's rounds up to `until`, or all of them.

        Where the spec asks to `stop`, the evidence is looked at after each of them until it is
        enough. `progress` may raise; the companion can then be played on.
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
        """What the canaries show, of a companion that has been played to its end: bounds hold for
        all of its rounds, and not for a number of them that followed from what was seen."""
        spec, claim, found, coins = self._spec, self._planned.claim, self._found, self._canaries
        releases = self._releases()
        bounds = take_bounds(self._planned, found, coins.coins, releases=releases)
        epsilon = claim.epsilon_of(releases)
        words = claim_words(spec, epsilon=epsilon, delta=claim.delta, observer=claim.observer)
        e_value = self._planned.averaged(bounds)
        if spec.stop:
            # A martingale that was stopped at a level, and cut there (`known_noise_e_value`).
            e_value = ENOUGH_ALONE if self.crossed is not None else self._evidence()
            bounds = [bound.model_copy(update={"e_value": None}) for bound in bounds]
        weighed = weigh(e_value, "fresh")
        alarm = weighed.alarm(claim=words, evidence=measured_words(bounds))
        section = CanariesSection(
            status="done",
            reason=None,
            statement=bounds_statement(
                words, epsilon, bounds, alarm=alarm is not None, stopped_in=self.crossed
            ),
            capabilities=capabilities(claim.observer, by_record=self._pool.rows is not None),
            alarm=alarm,
            **weighed.fields(),
            unit=spec.unit,
            count=spec.count,
            included=int(coins.coins.sum()),
            claim=epsilon,
            claim_reason=None,
            delta=claim.delta,
            adjacency=claim.law.adjacency,
            observer=claim.observer,
            compositions=releases,
            correlation=coins.directions.correlation(),
            bounds=bounds,
            stopped_in=self.crossed,
        )
        scores = score_table(
            names=[self._cell.federation.client_names[client] for client in self._pool.clients],
            rows=self._pool.rows,
            coins=coins.coins,
            releases=found.participations,
            scores=found.scores,
            guesses=self._planned.f_dp.plan.guessed(found.scores),
        )
        return AttackOutcome(section, {"scores.csv": scores})

    def _releases(self) -> int:
        """How many releases the claim counts, after the kept model was looked at."""
        if isinstance(self._planted, CanaryRecords):
            return int(self._found.seen.max())
        if self._planned.claim.observer != "final_model":
            return int(self._found.participations.max())
        result = self._trainer.result(0)
        self._planted.see_model(result.hypotheses[0], round_=result.best_round)
        return self.rounds


def audit_beside(cell: Cell, *, device: str) -> CanaryAudit | None:
    """The audit that may end a run of this cell; None where its spec asks for none."""
    asked = cell.spec.attacks[0] if cell.spec.attacks else None
    if not isinstance(asked, CanariesSpec) or not asked.stop:
        return None
    return begin_audit(asked, cell, device=device)


def begin_audit(spec: CanariesSpec, of: Cell, *, device: str) -> CanaryAudit:
    """Canaries of a run's cell, at the beginning of their companion. Raises ValueError where
    nothing is claimed that they could test (`CanariesSpec.disagreements` says so before)."""
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


def _clip(cell: Cell) -> float:
    clip = getattr(cell.spec.privacy, "clip", None)
    if not isinstance(clip, float | int) or not np.isfinite(clip):
        raise ValueError("canaries need a clip that is a number")
    return float(clip)
