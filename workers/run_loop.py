"""Run a stack of experiments: blocks of rounds, and a flush after each."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from time import monotonic
from typing import assert_never

import structlog
from sqlalchemy.orm import Session

from fedaudit.attacks.attack import AttackedRun, AttackOutcome
from fedaudit.attacks.attack_files import packed
from fedaudit.attacks.carried_out import carry_out
from fedaudit.attacks.played_runs import FollowedRuns, record_played
from fedaudit.privacy.accounting.accountant import composed_epsilon
from fedaudit.reports.sections.fairness import FiguresDisagreeError
from fedaudit.runs.blocks import record_block
from fedaudit.runs.run import Run
from fedaudit.training.base.cell import draws_in_secret, expected_cohort
from fedaudit.training.base.rounds import FinalResult, PlannedRound, PlayedRounds, has_diverged
from fedaudit.training.engine import backend
from fedaudit.training.stack import Stack
from infrastructure.storage import file_key
from models.repositories import Budgets, ExperimentRepository, LedgerRepository
from models.repositories.webhooks import announcing_low
from workers.attacks.attacked_experiment import AttacksCancelledError, LeasedAttacks
from workers.claim import DETAIL_CHARACTERS, FencedWriter, Lease, StopAskedError, go_on
from workers.context import WorkerContext
from workers.finish import DIVERGED, report_of, sign_end, store_file, succeed
from workers.flush import Pace, Played, RunningExperiment, store_blocks
from workers.proof.signing import CHECKPOINT_SECONDS, sign_checkpoint

log = structlog.get_logger()
_DIVERGED = (
    "training diverged, a loss was no longer a finite number: lower `training.local.step_size` to "
    "a tenth, scale the features and a target that is a number, or ask for less noise"
)


class RunLoop:
    """The experiments of a unit on one device, each run to its end."""

    def __init__(
        self,
        context: WorkerContext,
        lease: Lease,
        writer: FencedWriter,
        experiments: Sequence[RunningExperiment],
    ) -> None:
        """Raises ValueError where the experiments cannot be stacked."""
        self._context = context
        self._lease = lease
        self._writer = writer
        self._experiments = experiments
        self._taken_up = {
            experiment.id
            for experiment in experiments
            if experiment.run.interrupted_rounds or experiment.run.ledger.entries
        }
        self._pace = Pace(context.database.dialect)
        self._signed: dict[int, float] = {}
        """When the newest checkpoint of each was stored; the first flush starts the clock."""
        self._stack = Stack(
            [experiment.run.cell for experiment in experiments],
            device=context.device,
            checkpoints=[experiment.checkpoint for experiment in experiments],
        )
        runs = [experiment.run for experiment in experiments]
        self._audits = FollowedRuns(
            runs, self._stack, device=context.device, progress=lambda _: go_on(context, lease)
        )
        self._held: dict[int, FinalResult] = {}
        """Ended runs whose reports speak of those beside them, which go on."""
        self._repeat_until = max(map(self._charge_interrupted, range(len(experiments))))

    def play(self) -> None:
        """Runs every experiment to its end. Raises StopAskedError where the worker was asked to
        stop."""
        try:
            self._audits.follow(0)
            for position in set(range(len(self._experiments))) - set(self._stack.active):
                # Training had ended and the worker was lost before the report was stored; or rounds
                # that were lost with it have used up its budget.
                self._flush({position: PlayedRounds()})
            while active := self._stack.active:
                if self._context.stopping():
                    raise StopAskedError
                self._flush(self._block(active))
            for position, result in self._held.items():
                self._succeed(position, result)
        except StopAskedError:
            # Between two blocks of rounds, or after the last: the next worker attacks anew.
            self._writer.write(lambda session: self._sign(session, self._stack.active))
            raise

    def _block(self, active: Sequence[int]) -> dict[int, PlayedRounds]:
        """Rounds that are stored together: those by which the pace was found go with the next."""
        run, played = self._experiments[active[0]].run, dict[int, PlayedRounds]()
        subjects, secret = _subjects_a_round(run), draws_in_secret(run.cell)
        pace = partial(self._pace.rounds, experiments=len(active), cohort=subjects)
        begun, rounds = monotonic(), pace()
        # What is charged, and who follows, goes by the rounds that are stored.
        alone = secret or bool(self._audits.audits)
        while True:
            asked = self._charged_together(rounds) if secret else rounds
            self._audits.follow(asked)
            if secret:
                asked = self._charge_ahead(asked)
            began = monotonic()
            more = self._stack.advance(asked)
            self._pace.took(max(map(len, more.values()), default=1), monotonic() - began)
            self._lease.progressed()
            for position, one in more.items():
                played[position] = played.get(position, PlayedRounds()) + one
            before, done = rounds, max(map(len, played.values()), default=1)
            rounds = pace(played=done, seconds=monotonic() - begun)
            if alone or rounds <= before or self._stack.active != active:
                return played

    # -- noise that no one can draw again ---------------------------------------------------------

    def _charge_interrupted(self, position: int) -> int:
        """Charges interrupted rounds, which run again under a new release number; returns the last
        of them, or 0."""
        interrupted = self._experiments[position].run.interrupted_rounds
        for charged in interrupted:
            self._stack.charge(position, charged.subjects)
        until = max((charged.round for charged in interrupted), default=0)
        if interrupted:
            release = 1 + max(charged.release for charged in interrupted)
            self._stack.set_release(position, release, until=until)
        return until

    def _charged_together(self, rounds: int) -> int:
        """At least so many rounds, as many as are charged at once: one block repeats all
        interrupted rounds, so that ledger rows keep the order (round, release), and cohorts by
        blocks go by whole ones. An audit beside the run is ahead of all of them."""
        active = [self._experiments[position].run for position in self._stack.active]
        done = min(run.rounds_done for run in active)
        whole = active[0].spec.training.block
        return whole * -(-max(rounds, self._repeat_until - done) // whole)

    def _charge_ahead(self, rounds: int) -> int:
        """Commits the spending of the next rounds before their noise is drawn; returns how many
        were charged. If training stops within them, the rest stays charged: its noise was drawn as
        well."""
        planned = self._stack.plan(rounds)
        refused = self._writer.write(lambda session: self._reserve(session, planned))
        for position in refused:
            self._stack.stop(position)
            self._end(position, status="failed", reason="budget-exhausted")
        return max(map(len, planned.values()), default=1)

    def _reserve(
        self, session: Session, planned: Mapping[int, Sequence[PlannedRound]]
    ) -> list[int]:
        """Draws on the budgets and stores the intents; returns the positions without room."""
        refused = []
        contents = {one: self._experiments[one].run.federation.fingerprint for one in planned}
        # In the order in which budgets' contents are locked.
        for position in sorted(planned, key=contents.__getitem__):
            rounds, experiment = planned[position], self._experiments[position]
            if not self._draw(session, experiment, rounds):
                refused.append(position)
                continue
            intents = [(plan.round, plan.release, plan.subjects) for plan in rounds]
            ledger = LedgerRepository(session, experiment.project_id)
            if self._writer.again:
                open_ = {(one.round, one.release) for one in ledger.open_intents(experiment.id)}
                intents = [intent for intent in intents if intent[:2] not in open_]
            ledger.add_intents(experiment.id, intents)
        return refused

    def _draw(
        self, session: Session, experiment: RunningExperiment, rounds: Sequence[PlannedRound]
    ) -> bool:
        """Whether the budgets have room for these rounds, in the worst case; if so, books them.
        Only a run that was taken up again, whose lost rounds were charged, can cost more than was
        reserved, and so announces the budgets that run low by it."""
        run, ledger = experiment.run, experiment.run.ledger
        inputs, context = ledger.inputs, ledger.ledger_context
        budgets = Budgets(session, experiment.project_id, price=composed_epsilon)
        most = ledger.largest_charges([*run.interrupted_rounds, *rounds])
        with (
            announcing_low(budgets, experiment.row.federation_id)
            if experiment.id in self._taken_up
            else nullcontext()
        ):
            match inputs.cost_kind:
                case "epsilon":
                    assert context.plan is not None
                    counts: dict[str, int] = {
                        observer: context.plan.events_within(observer, count)
                        for observer, count in zip(context.observers, most, strict=True)
                    }
                    return budgets.draw_epsilon(experiment.id, counts)
                case "leakage":
                    spent = inputs.leakage(most[0])
                    return budgets.draw(experiment.id, spent=spent, releases=most[0])
                case "unbounded":
                    return True
                case _:
                    assert_never(inputs.cost_kind)

    # -- storing ----------------------------------------------------------------------------------

    def _flush(self, played: Mapping[int, PlayedRounds]) -> None:
        """Stores the rounds of all experiments in one transaction, then ends those that ended."""
        ended = set(played) - set(self._stack.active)
        results = dict[int, FinalResult]()
        for position in ended:
            results[position] = self._stack.result(position)
            self._lease.progressed()  # of many held-out people it takes long
        diverged = {position for position in ended if has_diverged(results[position].stopped_by)}
        blocks: dict[int, Played] = {}
        for position, rounds in played.items():
            experiment = self._experiments[position]
            block = record_played(experiment.run, self._stack, position, rounds)
            blocks[position] = Played(experiment, block, self._stack.checkpoint(position))
            self._lease.progressed()

        now = monotonic()
        due = [
            one for one in blocks if now - self._signed.setdefault(one, now) >= CHECKPOINT_SECONDS
        ]

        def store(session: Session) -> set[int]:
            asked = store_blocks(session, list(blocks.values()), again=self._writer.again)
            cancelled = {one for one, block in blocks.items() if block.experiment.id in asked}
            over = diverged - cancelled
            for position in over:
                # Stored with the last rounds: a resumed run could not know that this one had ended.
                self._store_end(
                    session, position, status="failed", reason=DIVERGED, detail=_DIVERGED
                )
            # Last: who holds a log's lock waits for no row.
            self._sign(session, [position for position in due if position not in over])
            return cancelled

        cancelled = self._writer.write(store)
        self._signed |= dict.fromkeys(due, monotonic())
        for position in cancelled:
            self._stack.stop(position)
            self._end(position, status="cancelled", reason="cancelled-by-caller")
        for position in sorted(ended - cancelled - diverged):
            if self._experiments[position].run.spec.repeats > 1:
                self._held[position] = results[position]
            else:
                self._succeed(position, results[position])

    def _sign(self, session: Session, positions: Sequence[int]) -> None:
        """Signs the ledger states of runs that go on."""
        key = self._context.signing_key
        for experiment in (self._experiments[position] for position in positions):
            state = experiment.ledger_checkpoint("running")
            sign_checkpoint(session, state, project_id=experiment.project_id, key=key)

    def _succeed(self, position: int, result: FinalResult) -> None:
        experiment = self._experiments[position]
        try:
            attacks = self._attacked(experiment, result)
        except AttacksCancelledError:
            self._end(position, status="cancelled", reason="cancelled-by-caller")
            return
        key = self._context.signing_key
        make_report = partial(
            report_of,
            self._context.database,
            experiment,
            result,
            device=self._context.device,
            backend=backend(self._context.device),
            key=key,
            attacks=[one.section for one in attacks],
            progressed=self._lease.progressed,
        )
        try:
            report = make_report()
        except FiguresDisagreeError as error:
            # Another attempt would give the same figures.
            log.error("figures disagree", experiment_id=experiment.id)
            self._end(position, status="failed", reason="figures-disagree", detail=str(error))
            return
        # Before the end is published, so that readers of it find these files.
        store = partial(store_file, self._context.storage, progressed=self._lease.progressed)
        owner = experiment.project_id, experiment.id
        if not isinstance(report.material.model, str):
            store(file_key("model", *owner), [report.material.model.data])
        if attacks:
            store(file_key("attack-files", *owner), [packed(one.files for one in attacks)])
        if result.records is not None:
            names = experiment.run.federation.client_names
            store(file_key("record-table", *owner), result.records.csv(names))
        while not self._writer.write(
            partial(succeed, experiment=experiment, report=report, key=key)
        ):
            log.info("sweep has grown; the report is made again", experiment_id=experiment.id)
            report = make_report()
        log.info("experiment ended", experiment_id=experiment.id, status="succeeded")

    def _attacked(self, experiment: RunningExperiment, result: FinalResult) -> list[AttackOutcome]:
        if not experiment.run.spec.attacks:
            return []

        def is_cancelled(session: Session) -> bool:
            experiments = ExperimentRepository(session, experiment.project_id)
            return bool(experiments.progress_each({experiment.id: experiment.run.rounds_done}))

        watch = LeasedAttacks(
            self._context,
            self._lease,
            self._writer,
            experiment_id=experiment.id,
            project_id=experiment.project_id,
            is_cancelled=is_cancelled,
        )
        audit = self._audits.audits.get(experiment.id)
        attacked = AttackedRun(experiment.run, result, self._context.device)
        return list(carry_out(attacked, watch=watch, audit=audit))

    def _end(self, position: int, *, status: str, reason: str, detail: str | None = None) -> None:
        """Ends an experiment without a report; interrupted rounds are entered in its ledger."""
        experiment = self._experiments[position]
        block = record_block(experiment.run, PlayedRounds(), last=True)

        def end(session: Session) -> None:
            if block.ledger:
                played = Played(experiment, block, self._stack.checkpoint(position))
                store_blocks(session, [played], again=self._writer.again)
            self._store_end(session, position, status=status, reason=reason, detail=detail)

        self._writer.write(end)
        log.info("experiment ended", experiment_id=experiment.id, status=status, reason=reason)

    def _store_end(
        self,
        session: Session,
        position: int,
        *,
        status: str,
        reason: str,
        detail: str | None = None,
    ) -> None:
        experiment = self._experiments[position]
        experiments = ExperimentRepository(session, experiment.project_id)
        shown = detail and detail[:DETAIL_CHARACTERS]
        if experiments.conclude(experiment.id, status=status, reason=reason, detail=shown):
            sign_end(
                session,
                experiment.id,
                experiment.project_id,
                key=self._context.signing_key,
                checkpoint=experiment.ledger_checkpoint(status),
                diverged=reason == DIVERGED,
            )


def _subjects_a_round(run: Run) -> int:
    """Approximate number of ledger subjects of a round."""
    ledger_context = run.ledger.ledger_context
    if ledger_context.subject_kind != "client":
        return len(ledger_context.observers) * len(ledger_context.subjects)
    return math.ceil(expected_cohort(run.cell))
