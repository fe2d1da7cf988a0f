"""Canaries planted in a companion training, and the bounds that their scores give."""

from dataclasses import dataclass, replace

import numpy as np

from fedaudit.attacks.attack import Attack, AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.canaries.canary_bounds import PlannedBounds, plan_bounds, take_bounds
from fedaudit.attacks.canaries.canary_claim import CanaryClaim, claim_of
from fedaudit.attacks.canaries.canary_clients import CanaryClients
from fedaudit.attacks.canaries.canary_pool import CanaryPool, draw_pool
from fedaudit.attacks.canaries.canary_records import CanaryRecords
from fedaudit.attacks.canaries.canary_set import CanarySet, draw_canaries
from fedaudit.attacks.canaries.canary_words import (
    bounds_alarm,
    bounds_statement,
    capabilities,
    claim_words,
)
from fedaudit.attacks.canaries.companion import companion_of, source_of, train
from fedaudit.attacks.canaries.evidence_of_releases import ReleaseEvidence
from fedaudit.attacks.canaries.metric_audit import audit_metric
from fedaudit.attacks.canaries.score_table import score_table
from fedaudit.attacks.canaries.without_claim import audit_without_claim
from fedaudit.reports.document.attacks.canaries_section import CanariesSection
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.base.cell import Cell, expected_cohort


@dataclass(frozen=True)
class CanaryAttack(Attack):
    """Bounds the privacy loss of a run's mechanism from below."""

    spec: CanariesSpec

    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """See `Attack`. Raises ValueError where `requirements_of_canaries` has faults."""
        source = source_of(attacked.run.cell)
        cell = companion_of(attacked.run.cell)
        pool = draw_pool(cell, self.spec.count, source)
        claim, privacy = claim_of(cell, pool), cell.spec.privacy
        adjacency = "replace-one" if claim is None else claim.law.adjacency
        canaries = draw_canaries(pool.release, n=cell.shape.n, adjacency=adjacency, source=source)
        device = attacked.device
        if isinstance(privacy, LaplaceL2):
            return audit_metric(
                self.spec, privacy, cell, pool, canaries, device=device, progress=progress
            )
        if claim is None:
            return audit_without_claim(
                self.spec, cell, pool, canaries, device=device, progress=progress
            )
        planned = plan_bounds(claim, canaries=self.spec.count, significance=self.spec.significance)
        return audit_claim(
            self.spec, cell, pool, canaries, planned, device=device, progress=progress
        )


def audit_claim(
    spec: CanariesSpec,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    planned: PlannedBounds,
    *,
    device: str,
    progress: Progress,
) -> AttackOutcome:
    """Trains the companion cell with these canaries, and takes the bounds that were planned."""
    claim = planned.claim
    found = ReleaseEvidence(canaries, claim.law)
    releases = _play(cell, pool, canaries, found, claim, device=device, progress=progress)
    bounds = take_bounds(planned, found, canaries.coins, releases=releases)
    epsilon = claim.epsilon_of(releases)
    words = claim_words(spec, epsilon=epsilon, delta=claim.delta, observer=claim.observer)
    alarm = bounds_alarm(words, epsilon, bounds)
    section = CanariesSection(
        status="done",
        reason=None,
        statement=bounds_statement(words, bounds, alarm=alarm is not None),
        capabilities=capabilities(claim.observer, by_record=pool.rows is not None),
        alarm=alarm,
        alarm_level=spec.significance,
        unit=spec.unit,
        count=spec.count,
        included=int(canaries.coins.sum()),
        claim=epsilon,
        claim_reason=None,
        delta=claim.delta,
        adjacency=claim.law.adjacency,
        observer=claim.observer,
        compositions=releases,
        correlation=canaries.directions.correlation(),
        bounds=bounds,
    )
    scores = score_table(
        names=[cell.federation.client_names[client] for client in pool.clients],
        rows=pool.rows,
        coins=canaries.coins,
        releases=found.participations,
        scores=found.scores,
        guesses=planned.f_dp.plan.guessed(found.scores),
    )
    return AttackOutcome(section, {"scores.csv": scores})


def _play(
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    found: ReleaseEvidence,
    claim: CanaryClaim,
    *,
    device: str,
    progress: Progress,
) -> int:
    """Trains the companion, and returns how many releases the claim counts."""
    clip = _clip(cell)
    if pool.rows is not None:
        records = CanaryRecords(pool.clients, pool.rows, canaries, found, clip=clip)
        train(replace(cell, planted=records), device=device, progress=progress)
        return int(found.seen.max())
    clients = CanaryClients(
        pool.clients,
        canaries,
        found,
        clip=clip,
        denominator=expected_cohort(cell) / cell.spec.training.hypotheses,
    )
    rounds, trainer = train(replace(cell, planted=clients), device=device, progress=progress)
    if claim.observer != "final_model":
        return int(found.participations.max())
    result = trainer.result(0)
    clients.see_model(result.hypotheses[0], round_=result.best_round)
    return rounds


def _clip(cell: Cell) -> float:
    clip = getattr(cell.spec.privacy, "clip", None)
    if not isinstance(clip, float | int) or not np.isfinite(clip):
        raise ValueError("canaries need a clip that is a number")
    return float(clip)
