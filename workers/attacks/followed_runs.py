"""Canaries beside the runs of a worker, which end those whose noise proves too small."""

from collections.abc import Sequence

from fedaudit.attacks.canaries.canary_audit import audit_beside
from fedaudit.runs.run import Run
from fedaudit.training.base.rounds import Trainer
from workers.attacks.attack_watch import AttacksStoppedError
from workers.claim import Lease
from workers.context import WorkerContext


class FollowedRuns:
    """The audits of those runs of a stack whose specs ask for one."""

    def __init__(
        self, runs: Sequence[Run], stack: Trainer, *, context: WorkerContext, lease: Lease
    ) -> None:
        """`runs` by their positions in the stack."""
        self._runs, self._stack, self._context, self._lease = runs, stack, context, lease
        found = {run.experiment_id: audit_beside(run.cell, device=context.device) for run in runs}
        self.audits = {id_: audit for id_, audit in found.items() if audit is not None}
        """By experiment."""

    def follow(self, rounds: int) -> None:
        """Play the canaries as far as the next rounds go, and end the runs that they stop.

        A run that was taken up is followed by canaries from its first round on; with simulated
        noise they are the same again. Raises AttacksStoppedError where this worker has to stop.
        """
        if not self.audits:
            return
        for position in self._stack.active:
            run = self._runs[position]
            audit = self.audits.get(run.experiment_id)
            if audit is None:
                continue
            audit.play(run.rounds_done + rounds, progress=self._look)
            if audit.crossed is not None:
                self._stack.end_after(position, audit.crossed)

    def _look(self, _done: float) -> None:
        self._lease.progressed()
        if self._context.stopping():
            raise AttacksStoppedError
