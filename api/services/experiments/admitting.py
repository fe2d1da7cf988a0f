"""Experiments enter the queue: all of one transaction, which reserves for them in one pass."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from api.services.artifacts.artifact_store import hold_start
from api.services.base.dispatch import UnitMessage, queue_unit
from api.services.budgets.reservation import reserve
from api.services.experiments.admission import store_federation
from api.services.federations.disclosure_policies import refuse_departures, stored_policy
from api.services.federations.simulated_noise import refuse_what_is_not_secret
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import new_salt
from fedaudit.privacy.accounting.rdp import composed_epsilon
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.training.base.cell import Cell
from fedaudit.training.stack_key import cells_at_once, stack_digest
from models.person import Actor
from models.repositories import (
    ExperimentRepository,
    LowBudgetRepository,
    SubjectSetRepository,
    gathered_writes,
)
from models.repositories.webhooks import LOW_SHARE
from models.tables.experiments import Experiment
from models.values import BudgetsAcross, NewExperiment, StackPlace


@dataclass
class Admitting:
    """Admits experiments in the caller's transaction.

    What they have in common is looked at once: the content is locked and its budgets are read by
    the first of them. Rows are stored when all are admitted, many at a time.
    """

    session: Session
    project_id: str
    max_attempts: int
    across: BudgetsAcross
    """Whose spending on a content its budgets count."""
    low_share: float
    """Of a total; whoever listens is told when less remains."""
    created_by: Actor | None
    _told: ExitStack
    _federations: set[str] = field(default_factory=set)
    _subject_sets: dict[tuple[str, ...], str] = field(default_factory=dict)

    def queue(self, planned: ExperimentPlan, *, alone: bool = False) -> UnitMessage:
        """A unit for an experiment, or for several that are kept together (`alone`)."""
        # Taken apart after a failed attempt, so there must be another one.
        joins = self.max_attempts > 1 and not alone
        return queue_unit(
            self.session,
            self.project_id,
            kind="run",
            device=planned.spec.device,
            max_attempts=self.max_attempts,
            stack=stack_place(planned) if joins else None,
        )

    def admit(
        self,
        planned: ExperimentPlan,
        unit: UnitMessage,
        *,
        experiment_id: str,
        unit_position: int = 0,
        retry_of: str | None = None,
        created_by: Actor | None = None,
    ) -> Experiment:
        """Reserve the worst case and queue the experiment in the unit.

        `unit_position`: its place among those of the unit. `created_by`: where others submit at
        once.
        Raises ProblemError, to be followed by a roll-back, where a budget has no room, or the
        federation forbids simulation and the noise is not secret; InvalidInputError where the spec
        departs from the federation's disclosure policy.
        """
        session, project_id, across = self.session, self.project_id, self.across
        creator = created_by or self.created_by
        federation_id = store_federation(session, project_id, planned, across=across)
        hold_start(session, project_id, planned.spec)
        refuse_what_is_not_secret(session, project_id, federation_id, planned, across=across)
        policy = refuse_departures(session, project_id, federation_id, planned.spec, across=across)
        self._watch(federation_id)
        reserve(
            session,
            project_id,
            federation_id,
            experiment_id=experiment_id,
            planned=planned,
            across=across,
        )
        experiment = NewExperiment(
            **planned.stored_fields(),
            id=experiment_id,
            federation_id=federation_id,
            subject_set_id=self._subject_set(planned.ledger_context.subjects),
            unit_id=unit.unit_id,
            unit_position=unit_position,
            retry_of=retry_of,
            created_by=None if creator is None else creator.as_dict(),
            disclosure=stored_policy(policy),
            ledger_salt=new_salt(planned.spec.privacy.noise),
        )
        return ExperimentRepository(session, project_id).add(experiment, announced=True)

    def _watch(self, federation_id: str) -> None:
        """Whoever listens is told at the end which budgets on this content run low."""
        if federation_id in self._federations:
            return
        self._federations.add(federation_id)
        budgets = LowBudgetRepository(self.session, self.project_id, across=self.across)
        told = budgets.notifying_on_low(federation_id, price=composed_epsilon, share=self.low_share)
        self._told.enter_context(told)

    def _subject_set(self, subjects: Sequence[str]) -> str:
        names = tuple(subjects)
        if names not in self._subject_sets:
            self._subject_sets[names] = SubjectSetRepository(self.session).put(names)
        return self._subject_sets[names]


@contextmanager
def admitting(
    session: Session,
    project_id: str,
    *,
    max_attempts: int,
    across: BudgetsAcross = "service",
    low_share: float = LOW_SHARE,
    created_by: Actor | None = None,
) -> Iterator[Admitting]:
    """Admits in a write transaction; what was admitted is stored when the block ends.

    Budgets may not be set meanwhile: they would be read without what is not stored yet.
    """
    with gathered_writes(session), ExitStack() as told:
        yield Admitting(session, project_id, max_attempts, across, low_share, created_by, told)


def admitting_for(
    resources: Resources, session: Session, caller: Caller
) -> AbstractContextManager[Admitting]:
    """The same as the service is set, for a caller."""
    settings = resources.settings
    return admitting(
        session,
        caller.project_id,
        max_attempts=settings.max_attempts,
        across=settings.budgets_across,
        low_share=settings.webhooks_low_budget_share,
        created_by=caller.actor,
    )


def stack_place(planned: ExperimentPlan) -> StackPlace | None:
    """With which others it can be trained; None where it gains nothing from them."""
    cell = Cell(planned.spec, planned.federation)
    key = stack_digest(cell)
    if key is None:
        return None
    return StackPlace(key, cells_at_once(cell))
