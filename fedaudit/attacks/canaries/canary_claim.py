"""What the unit of canaries is promised, by the accountant of the ledger. No torch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import assert_never

import numpy as np

from fedaudit.attacks.canaries.canary_pool import CanaryPool
from fedaudit.federations.split import training_clients
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.privacy.records.record_use import client_rate
from fedaudit.spec.privacy import (
    GaussianCentral,
    GaussianLocal,
    LaplaceL2,
    NoMechanism,
    RecordPersonalised,
)
from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.base.records import record_use_of, spending_of


@dataclass(frozen=True, kw_only=True)
class CanaryClaim:
    """A promise, and what it says of a canary's releases."""

    law: ReleaseLaw
    """As many releases as are expected before the run."""
    delta: float
    observer: Observer
    epsilon_of: Callable[[int], float]
    """The claimed epsilon after so many releases."""
    entries: float
    """Releases that all canaries together enter, on average."""
    numbers: float
    """Numbers in all releases that are seen, on average."""
    alike: bool = True
    """Whether every canary takes part as the law says. Where some hardly ever do, the power of
    bounds that guess about each canary is not known, and counts as none."""

    @property
    def weight(self) -> float:
        """The weight of the fit (`SignalFit.weight`), on average."""
        replaces = self.law.adjacency == "replace-one"
        return self.entries if replaces else self.entries / 2

    @property
    def epsilon(self) -> float:
        """Claimed for the expected releases."""
        return self.epsilon_of(self.law.compositions)


def claim_of(cell: Cell, pool: CanaryPool) -> CanaryClaim | None:
    """The claim of the canaries; None where no epsilon is claimed.

    Of records it is that against the server, who sees every step that the accountant composes, for
    the record that is sampled most often.
    """
    privacy, plan = cell.spec.privacy, spending_of(cell.spec, cell.federation)
    if plan is None:
        return None
    match privacy:
        case GaussianCentral():
            return _central(cell, privacy, plan, canaries=len(pool.clients))
        case GaussianLocal():
            return _local(cell, privacy, plan, canaries=len(pool.clients))
        case RecordPersonalised():
            return _records(cell, privacy, pool)
        case LaplaceL2() | NoMechanism():
            return None
        case _:
            assert_never(privacy)


def _central(
    cell: Cell, privacy: GaussianCentral, plan: SpendingPlan, *, canaries: int
) -> CanaryClaim:
    training = training_clients(cell.federation.clients, cell.spec.federation)
    rate = min(1.0, expected_cohort(cell) / training)
    rounds = _within_budget(cell.spec.training.rounds, plan, "final_model", privacy.epsilon_budget)
    law = ReleaseLaw(ratio=1.0, rate=rate, compositions=rounds, adjacency=plan.adjacency)
    return CanaryClaim(
        law=law.with_ratio(law.reach / privacy.noise_multiplier),
        delta=privacy.delta,
        observer="final_model",
        epsilon_of=lambda count: plan.largest("final_model", count),
        entries=canaries * rate * rounds,
        numbers=cell.shape.n * rounds,
    )


def _local(cell: Cell, privacy: GaussianLocal, plan: SpendingPlan, *, canaries: int) -> CanaryClaim:
    training = training_clients(cell.federation.clients, cell.spec.federation)
    expected = cell.spec.training.rounds * min(1.0, expected_cohort(cell) / training)
    uploads = _within_budget(max(1, ceil(expected)), plan, "server", privacy.epsilon_budget)
    entries = canaries * min(expected, uploads)
    law = ReleaseLaw(ratio=1.0, rate=1.0, compositions=uploads, adjacency="replace-one")
    return CanaryClaim(
        law=law.with_ratio(law.reach / privacy.noise_multiplier),
        delta=privacy.delta,
        observer="server",
        epsilon_of=lambda count: plan.largest("server", count),
        entries=entries,
        numbers=cell.shape.n * entries,
        alike=expected_cohort(cell) >= training,
    )


def _records(cell: Cell, privacy: RecordPersonalised, pool: CanaryPool) -> CanaryClaim | None:
    use, steps = record_use_of(cell.spec, cell.federation), cell.spec.training.local.steps
    if use is None or use.plan.runs is None or steps is None or pool.noise_multipliers is None:
        return None
    run = replace(use.plan.runs[0], observer="server")
    expected = client_rate(cell.spec.training.cohort) * cell.spec.training.rounds
    rate = float(pool.rates.max())

    def epsilon_of(count: int) -> float:
        return float(run.epsilons(np.array([rate]), rounds=ceil(count / steps))[0])

    return CanaryClaim(
        law=ReleaseLaw(
            ratio=1 / run.noise_multiplier,
            rate=rate,
            compositions=steps * max(1, ceil(expected)),
            adjacency="add-or-remove-one",
        ),
        delta=privacy.delta,
        observer="server",
        epsilon_of=epsilon_of,
        entries=float(pool.rates.sum()) * steps * expected,
        numbers=len(np.unique(pool.clients)) * steps * expected * cell.shape.n,
        alike=client_rate(cell.spec.training.cohort) == 1 and float(pool.rates.min()) == rate,
    )


def _within_budget(count: int, plan: SpendingPlan, observer: Observer, budget: float | None) -> int:
    return count if budget is None else max(1, min(count, plan.steps_within(observer, budget)))
