"""Canaries planted in a companion training, by what the mechanism claims."""

from dataclasses import dataclass

from fedaudit.attacks.attack import Attack, AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.canaries.canary_audit import begin_audit
from fedaudit.attacks.canaries.canary_claim import claim_of
from fedaudit.attacks.canaries.canary_pool import draw_pool
from fedaudit.attacks.canaries.canary_set import draw_canaries
from fedaudit.attacks.canaries.companion import companion_of, source_of
from fedaudit.attacks.canaries.metric_audit import audit_metric
from fedaudit.attacks.canaries.without_claim import audit_without_claim
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.spec.privacy import LaplaceL2


@dataclass(frozen=True)
class CanaryAttack(Attack):
    """Bounds the privacy loss of a run's mechanism from below."""

    spec: CanariesSpec

    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """See `Attack`. Raises ValueError where `requirements_of_canaries` has faults."""
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
        return audit_without_claim(
            self.spec, cell, pool, canaries, device=device, progress=progress
        )
