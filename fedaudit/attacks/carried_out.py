"""The attacks of a run, one after the other: one that fails is reported, and loses nothing else."""

import logging
from collections.abc import Iterator
from dataclasses import replace

from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.attack_files import check_names
from fedaudit.attacks.registry import attack_of
from fedaudit.privacy.lower_bounds.e_values import e_values_of
from fedaudit.reports.sections.attacks import AttackSection, NotDoneSection
from fedaudit.spec.attacks.attack_spec import AttackSpec
from fedaudit.training.base.stopping import has_diverged

log = logging.getLogger(__name__)


class AttackWatch:
    """Is told how the attacks of a run go on. What it raises stops all of them."""

    def begin(self, position: int, spec: AttackSpec) -> str | None:
        """An attack is about to begin; a reason keeps it from it."""
        return None

    def progressed(self, position: int, done: float) -> None:
        """So much of it is done, from 0 to 1."""

    def end(self, position: int, section: AttackSection) -> None:
        """It has come to its end, or failed."""


def carry_out(attacked: AttackedRun, *, watch: AttackWatch) -> Iterator[AttackOutcome]:
    """What each attack of the run's spec found, in their order, as soon as it has ended.

    None is tried where training diverged. Raises what `watch` raised. An attack that fails
    otherwise is `not-done`, with the kind of error as its reason: the error's own words may quote
    data.
    """
    attacks = attacked.run.spec.attacks
    if has_diverged(attacked.result.stopped_by):
        yield from (not_done(spec, "training diverged") for spec in attacks)
        return
    for position, spec in enumerate(attacks):
        reason = watch.begin(position, spec)
        if reason is None:
            outcome = _carry_out(attacked, spec, _Watched(position, watch))
        else:
            outcome = not_done(spec, reason)
        watch.end(position, outcome.section)
        found = e_values_of([outcome.section.model_dump()])
        attacked = replace(attacked, before=(*attacked.before, *found))
        yield outcome


def not_done(spec: AttackSpec, reason: str) -> AttackOutcome:
    """That an attack was asked for and not carried out."""
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


class _Watched:
    """Keeps what the watch raised apart from the failures of an attack."""

    def __init__(self, position: int, watch: AttackWatch) -> None:
        self.position = position
        self._watch = watch
        self.raised: BaseException | None = None

    def __call__(self, done: float) -> None:
        try:
            self._watch.progressed(self.position, done)
        except BaseException as error:
            self.raised = error
            raise


def _carry_out(attacked: AttackedRun, spec: AttackSpec, watched: _Watched) -> AttackOutcome:
    progress: Progress = watched
    progress(0.0)
    try:
        outcome = attack_of(spec).execute(attacked, progress=progress)
        # Here, where a fault costs the attack and not the run.
        check_names(outcome.files)
    except Exception as error:
        if watched.raised is not None:
            raise watched.raised from None
        log.exception("attack %d (%s) failed", watched.position, spec.kind)
        why = f"it failed with {type(error).__name__}; the log of the process that ran it says more"
        return not_done(spec, why)
    return outcome
