"""Keep a ledger from within a training by Opacus. Needs the extra `opacus`.

The figures are those of records: each step releases noised gradients of a sample of one client's
rows.
"""

from collections.abc import Callable
from typing import Any, Self

from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer

from fedaudit_client.adapters.plain import Event, Ledger, declared, of_epsilon


def terms_for(
    optimizer: DPOptimizer,
    data_loader: Any,
    *,
    name: str,
    delta: float,
    budget: float | None = None,
    accountant: str = "rdp",
) -> dict[str, Any]:
    """The terms of a ledger for `attach`, with the same optimizer and loader.

    `budget`: the most epsilon at `delta`. `accountant`: `rdp`, or `pld`, which is Opacus' prv.
    Raises ValueError where the optimizer is none of Opacus'.
    """
    _check(optimizer)
    of_records = {"mechanism": "gaussian", "observer": "server", "unit": "record"}
    counted = of_epsilon("add-or-remove-one", delta=delta, budget=budget, accountant=accountant)
    return {"name": name, "population": len(data_loader.dataset), **of_records, **counted}


def _check(optimizer: object) -> None:
    if not isinstance(optimizer, DPOptimizer):
        raise ValueError("give the optimizer that `PrivacyEngine.make_private` returned")


class WatchedSteps:
    """The steps of one optimizer, as rounds of a ledger. To be used as a context manager."""

    def __init__(
        self,
        optimizer: DPOptimizer,
        ledger: Ledger,
        *,
        subject: str,
        rate: float | None,
        steps_per_round: int,
    ) -> None:
        """`attach` makes one."""
        self._optimizer = optimizer
        self._ledger = ledger
        self._subject = subject
        self._rate = rate
        self._steps_per_round = steps_per_round
        self._event: dict[str, Any] | None = None
        """What each step of the round that is open releases."""
        self._steps = 0
        self._before: Callable[[Any], None] | None = optimizer.step_hook
        optimizer.attach_step_hook(self._stepped)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Declare the steps that are left, and leave the optimizer as it was."""
        self._declare()
        if self._optimizer.step_hook == self._stepped:
            self._optimizer.attach_step_hook(self._before)

    def _stepped(self, optimizer: DPOptimizer) -> None:
        """Before the parameters change. Raises RoundRefused, and they stay as they are."""
        event = self._event_of(optimizer)
        if event != self._event:
            self._declare()
            self._reserve(event)
        self._steps += 1
        if self._before is not None:
            self._before(optimizer)
        if self._steps >= self._steps_per_round:
            self._declare()

    def _event_of(self, optimizer: DPOptimizer) -> dict[str, Any]:
        multiplier = float(optimizer.noise_multiplier)
        if multiplier == 0:
            return {"kind": "none"}
        if self._rate is None:
            return {"kind": "gaussian", "noise_multiplier": multiplier}
        # Opacus' own accountants count so where gradients of several batches make one step.
        rate = min(1.0, self._rate * optimizer.accumulated_iterations)
        return {"kind": "poisson-gaussian", "rate": rate, "noise_multiplier": multiplier}

    def _reserve(self, event: dict[str, Any]) -> None:
        whole = _with_steps(event, self._steps_per_round)
        self._ledger.reserve(self._ledger.next_round, event=whole, participants=[self._subject])
        self._event = event

    def _declare(self) -> None:
        event, steps = self._event, self._steps
        if event is None:
            return
        if steps == 0:
            self._ledger.release(self._ledger.next_round)
        else:
            one = declared(self._ledger.next_round, _with_steps(event, steps), [self._subject])
            self._ledger.declare([one])
        self._event, self._steps = None, 0


def attach(
    optimizer: DPOptimizer,
    data_loader: Any,
    ledger: Ledger,
    *,
    subject: str,
    steps_per_round: int | None = None,
) -> WatchedSteps:
    """Declare the steps of an optimizer for the client `subject`, whose rows it trains on.

    Optimizer and loader are those that `PrivacyEngine.make_private` returned; the optimizer's one
    hook, which belongs to Opacus' accountant, is called as before. A round is an epoch, or
    `steps_per_round` steps of the same noise and rate: reserved before its first step, which
    raises RoundRefused and changes nothing where there is no room, and declared behind its last.
    A loader that does not sample by Poisson's coins is declared without amplification. Raises
    ValueError where the ledger's figures are not of records, or the optimizer is none of Opacus'.
    """
    _check(optimizer)
    if ledger.terms["unit"] != "record":
        raise ValueError("Opacus protects records; open a ledger whose unit is record")
    epoch = len(data_loader)
    rate = None
    if isinstance(data_loader, DPDataLoader):
        # The first is the engine's figure, and that of its accountants.
        rate = max(1 / epoch, float(data_loader.sample_rate))
    return WatchedSteps(
        optimizer, ledger, subject=subject, rate=rate, steps_per_round=steps_per_round or epoch
    )


def _with_steps(event: Event, steps: int) -> dict[str, Any]:
    return {**event} if event["kind"] == "none" else {**event, "steps": steps}
