"""Canaries where nothing is claimed: they show what that means."""

from dataclasses import replace

from fedaudit.attacks.attack import AttackOutcome, Progress
from fedaudit.attacks.canaries.canary_clients import CanaryClients
from fedaudit.attacks.canaries.canary_pool import CanaryPool
from fedaudit.attacks.canaries.canary_set import CanarySet
from fedaudit.attacks.canaries.canary_words import COMPANION, CONFIDENTIAL, capabilities
from fedaudit.attacks.canaries.companion import train
from fedaudit.attacks.canaries.evidence_of_releases import ReleaseEvidence
from fedaudit.attacks.canaries.score_table import score_table
from fedaudit.privacy.lower_bounds.epsilon_bounds import GuessPlan, by_score, one_run_epsilon
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.reports.sections.attacks import CanariesSection, CanaryBound
from fedaudit.spec.attacks.canaries_spec import CanariesSpec
from fedaudit.training.base.cell import Cell

_NO_CLAIM = "updates leave as they are: no epsilon is claimed, and none bounds them"
_LAW = ReleaseLaw(ratio=1.0, rate=1.0, compositions=1, adjacency="replace-one")


def audit_without_claim(
    spec: CanariesSpec,
    cell: Cell,
    pool: CanaryPool,
    canaries: CanarySet,
    *,
    device: str,
    progress: Progress,
) -> AttackOutcome:
    """The one-run bound at delta 0, by guessing a quarter of the canaries each way."""
    found = ReleaseEvidence(canaries, _LAW)
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
        all_clear="nothing is claimed, so that nothing can be passed",
    )
    section = CanariesSection(
        status="done",
        reason=None,
        statement=(
            f"Nothing is claimed. Of {plan.guesses} coins guessed from the uploads {correct} were "
            f"guessed rightly, which no mechanism with an epsilon below {epsilon:.3g} allows; how "
            "large the figure is depends on the number of canaries alone, since nothing hides "
            f"them. {COMPANION} {CONFIDENTIAL}"
        ),
        capabilities=capabilities(None, by_record=False),
        unit=spec.unit,
        count=spec.count,
        included=int(canaries.coins.sum()),
        claim=None,
        claim_reason=_NO_CLAIM,
        delta=None,
        adjacency=None,
        observer="server",
        compositions=None,
        correlation=0.0,
        bounds=[bound],
    )
    scores = score_table(
        names=[cell.federation.client_names[client] for client in pool.clients],
        rows=None,
        coins=canaries.coins,
        releases=found.participations,
        scores=found.scores,
        guesses=plan.guessed(found.scores),
    )
    return AttackOutcome(section, {"scores.csv": scores})
