"""The attacks of a run, one after the other: one that fails is reported, and loses nothing else."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.canaries.canary_attack import CanaryAudit, attack_by_canaries
from fedaudit.attacks.client_inference import attack_client_inference
from fedaudit.attacks.cluster_membership import attack_cluster_membership
from fedaudit.attacks.gradient_leakage.gradient_leakage_attack import attack_gradient_leakage
from fedaudit.attacks.membership.membership_attack import attack_membership
from fedaudit.privacy.lower_bounds.e_values import e_values_of
from fedaudit.reports.sections.attacks import AttackSection, NotDoneSection
from fedaudit.spec.attacks import (
    AttackSpec,
    CanariesSpec,
    ClientInferenceSpec,
    ClusterMembershipSpec,
    GradientLeakageSpec,
    MembershipSpec,
)
from fedaudit.training.base.rounds import has_diverged

log = logging.getLogger(__name__)


def execute(
    spec: AttackSpec, attacked: AttackedRun, *, audit: CanaryAudit | None, progress: Progress
) -> AttackOutcome:
    """Attacks the run as a spec asks for it, with random numbers from `source_of` under purposes of
    this kind alone. `audit`: the canaries that were followed beside its training."""
    match spec:
        case CanariesSpec():
            return attack_by_canaries(spec, attacked, audit=audit, progress=progress)
        case MembershipSpec():
            return attack_membership(spec, attacked, progress=progress)
        case GradientLeakageSpec():
            return attack_gradient_leakage(spec, attacked, progress=progress)
        case ClientInferenceSpec():
            return attack_client_inference(spec, attacked, progress=progress)
        case ClusterMembershipSpec():
            return attack_cluster_membership(spec, attacked, progress=progress)
        case _:
            assert_never(spec)


class AttackWatch:
    """Follows the attacks of a run. What it raises stops all of them."""

    def begin(self, position: int, spec: AttackSpec) -> str | None:
        """An attack is about to begin; a reason prevents it."""
        return None

    def progressed(self, position: int, done: float) -> None:
        """This share of it is done, from 0 to 1."""

    def end(self, position: int, section: AttackSection) -> None:
        """It has ended or failed."""


def carry_out(
    attacked: AttackedRun, *, watch: AttackWatch, audit: CanaryAudit | None = None
) -> Iterator[AttackOutcome]:
    """What each attack of the run's spec found, in their order, as soon as it has ended.

    None is tried if training diverged. `audit` as in `execute`. Raises what `watch` raised. An
    attack that fails otherwise is `not-done`, with the kind of error as its reason: the error's own
    words may quote data.
    """
    attacks = attacked.run.spec.attacks
    if has_diverged(attacked.result.stopped_by):
        yield from (not_done(spec, "training diverged") for spec in attacks)
        return
    for position, spec in enumerate(attacks):
        reason = watch.begin(position, spec)
        if reason is None:
            outcome = _carry_out(attacked, spec, position, watch, audit)
        else:
            outcome = not_done(spec, reason)
        watch.end(position, outcome.section)
        found = e_values_of([outcome.section.model_dump()])
        attacked = replace(attacked, before=(*attacked.before, *found))
        yield outcome


def not_done(spec: AttackSpec, reason: str) -> AttackOutcome:
    """The outcome of an attack that was asked for and not carried out."""
    return AttackOutcome(
        NotDoneSection(
            kind=spec.kind,
            status="not-done",
            reason=reason,
            statement=(
                "This attack was asked for and could not be carried out, so it says nothing, "
                f"neither for the run nor against it: {reason}."
            ),
            capabilities=[],
        )
    )


def _carry_out(
    attacked: AttackedRun,
    spec: AttackSpec,
    position: int,
    watch: AttackWatch,
    audit: CanaryAudit | None,
) -> AttackOutcome:
    raised: list[BaseException] = []

    def progress(done: float) -> None:
        try:
            watch.progressed(position, done)
        except BaseException as error:
            raised.append(error)
            raise

    progress(0.0)
    try:
        return execute(spec, attacked, audit=audit, progress=progress)
    except Exception as error:
        if raised:
            raise raised[0] from None
        log.exception("attack %d (%s) failed", position, spec.kind)
        why = f"it failed with {type(error).__name__}; the log of the process that ran it says more"
        return not_done(spec, why)
