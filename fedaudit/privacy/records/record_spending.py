"""What records spend under `record-personalised`: each of them, and by groups of budgets, which
are the ledger's subjects."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.epsilon_tables import EpsilonCurve, RepeatedEvent, worst_epsilons
from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.privacy.accounting.two_stage import TwoStageRun
from fedaudit.privacy.records.record_use import RecordUse
from fedaudit.spec.errors import FieldError, InvalidInputError

_MAX_LEVELS = 12


@dataclass(frozen=True)
class RecordGroup:
    """Records whose budgets lie in one range."""

    name: str
    low: float
    high: float
    """The largest budget that may lie in the group."""


def record_groups(
    budgets: NDArray[np.float64], used: NDArray[np.bool_]
) -> tuple[tuple[RecordGroup, ...], NDArray[np.int64]]:
    """The groups, by ascending budget, and each record's: int [records], -1 for an unused record.

    A few distinct budgets make a group each. Many budgets are binned between 1, 2 and 5 times a
    power of ten; these bounds do not depend on the budgets.
    """
    group_of = np.full(len(budgets), -1, dtype=np.int64)
    levels = np.unique(budgets[used])
    if len(levels) <= _MAX_LEVELS:
        group_of[used] = np.searchsorted(levels, budgets[used])
        exact = [RecordGroup(f"budget {level!r}", level, level) for level in levels.tolist()]
        return tuple(exact), group_of
    ends = _round_numbers(float(levels[0]), float(levels[-1]))
    # A budget equal to a bound belongs to the group below it.
    found = np.searchsorted(ends, budgets[used], side="left")
    present, position = np.unique(found, return_inverse=True)
    group_of[used] = position
    ranges = [(ends[place - 1], ends[place]) for place in present.tolist()]
    return tuple(
        RecordGroup(f"budget over {low:g} to {high:g}", low, high) for low, high in ranges
    ), group_of


def enclosing(low: float, high: float) -> tuple[float, float]:
    """The nearest of those round numbers below budgets in [low, high], and at or above them."""
    ends = _round_numbers(low, high)
    first, last = np.searchsorted(ends, [low, high], side="left").tolist()
    below = first if low < high and ends[first] == low else first - 1
    return ends[below], ends[last]


def _round_numbers(smallest: float, largest: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from below `smallest` to `largest` or above."""
    exponents = range(int(np.floor(np.log10(smallest))) - 1, int(np.floor(np.log10(largest))) + 2)
    return [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]


RECORD_OBSERVERS: tuple[Observer, ...] = ("final_model", "server")
RECORD_ADJACENCY: Adjacency = "add-or-remove-one"


@dataclass(frozen=True, kw_only=True)
class GroupSpending:
    """What the records of a group spent, against one observer."""

    group: RecordGroup
    records: int
    epsilon_max: float
    budget_used_share: float
    """The largest share of its own budget that a record spent; above 1 it was passed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordSpending:
    """Every record's own figures; arrays [records], client after client."""

    use: RecordUse
    rounds: int
    """Rounds of the whole run. A record leaves after the compositions for which it stays, rounds
    that were lost and repeated included, so that repeats let nobody pass a budget."""
    delta: float
    groups: tuple[RecordGroup, ...]
    group_of: NDArray[np.int64]
    """-1 where the record is left out."""

    @property
    def left_out(self) -> int:
        """Records that are never sampled, because their budget is too small or a baseline drops
        them."""
        return int(np.count_nonzero(self.group_of < 0))

    def epsilons(self, observer: Observer, compositions: ArrayLike) -> NDArray[np.float64]:
        """What each record has spent after this many compositions (a number, or [records])."""
        plan = self.use.plan
        counts = np.minimum(np.asarray(compositions, dtype=np.int64), plan.rounds)
        spent = np.zeros(len(plan.rates))
        for run, mine in self._runs():
            seen = replace(run, observer=observer)
            spent[mine] = seen.epsilons(plan.rates[mine], rounds=counts[mine])
        return spent

    def overspent(self, compositions: ArrayLike) -> int:
        """The number of records that exceeded their budget against the final model."""
        spent = self.epsilons("final_model", compositions)
        return int(np.count_nonzero(spent > self.use.plan.budgets))

    def of_groups(self, observer: Observer, compositions: ArrayLike) -> list[GroupSpending]:
        """The figures of every group, in their order."""
        spent, budgets = self.epsilons(observer, compositions), self.use.plan.budgets
        return [
            GroupSpending(
                group=group,
                records=int(np.count_nonzero(mine)),
                epsilon_max=float(spent[mine].max()),
                budget_used_share=float((spent[mine] / budgets[mine]).max()),
            )
            for group, mine in ((one, self.group_of == at) for at, one in enumerate(self.groups))
        ]

    def lines(self) -> dict[Observer, tuple[EpsilonCurve, ...]]:
        """By observer, one curve for each group: that of the record that spends most."""
        groups = [self._lines(group) for group in range(len(self.groups))]
        return {
            observer: tuple(lines[observer] for lines in groups) for observer in RECORD_OBSERVERS
        }

    def _lines(self, group: int) -> dict[Observer, EpsilonCurve]:
        """By observer; the events are the same against all, so one list of them is enough."""
        repeated_events = self._repeated_events(group)
        tables = {
            observer: np.array([self._table(repeated, observer) for repeated in repeated_events])
            for observer in RECORD_OBSERVERS
        }
        # Keep each event that is the worst somewhere against any observer, the largest final cost
        # first.
        worst = np.unique([table.argmax(axis=0)[1:] for table in tables.values()])
        found: dict[Observer, EpsilonCurve] = {}
        for observer, table in tables.items():
            order = worst[np.argsort(-table[worst, -1], kind="stable")]
            found[observer] = EpsilonCurve(
                observer=observer,
                delta=self.delta,
                adjacency=RECORD_ADJACENCY,
                repeated_events=tuple(repeated_events[place] for place in order.tolist()),
                epsilons=table.max(axis=0),
            )
        return found

    def _table(self, repeated: RepeatedEvent, observer: Observer) -> NDArray[np.float64]:
        return worst_epsilons(
            (repeated,),
            np.arange(self.rounds + 1),
            adjacency=RECORD_ADJACENCY,
            observer=observer,
            delta=self.delta,
        )

    def _repeated_events(self, group: int) -> list[RepeatedEvent]:
        """The repeated events of the group's records; of those that differ only in rate, the
        largest."""
        plan = self.use.plan
        repeated_events = []
        for run, mine in self._runs():
            inside = mine & (self.group_of == group)
            for lasts in np.unique(plan.rounds[inside]).tolist():
                rate = float(plan.rates[inside & (plan.rounds == lasts)].max())
                repeated_events.append(
                    RepeatedEvent(run.event(rate), lasts if lasts < self.rounds else None)
                )
        return repeated_events

    def _runs(self) -> list[tuple[TwoStageRun, NDArray[np.bool_]]]:
        """The distinct runs of the clients, and the records of each."""
        runs = self.use.plan.runs or ()
        distinct = list(dict.fromkeys(runs))
        number = {run: place for place, run in enumerate(distinct)}
        of_client = np.array([number[run] for run in runs], dtype=np.int64)
        of_record = of_client[self.use.client_of]
        return [(run, of_record == place) for place, run in enumerate(distinct)]


def record_spending(use: RecordUse, *, rounds: int, delta: float) -> RecordSpending:
    """The figures of a plan with noise.

    Raises InvalidInputError where no record can be used, and ValueError for a plan without noise.
    """
    if use.plan.runs is None:
        raise ValueError("without noise nothing bounds what a record spends")
    used = ~use.plan.left_out
    if not used.any():
        raise InvalidInputError(
            [
                FieldError(
                    "/privacy/epsilon_max",
                    "no record can be sampled even once within its budget; raise the budgets, "
                    "epsilon_max or delta, or take fewer rounds or steps",
                )
            ]
        )
    groups, group_of = record_groups(use.plan.budgets, used)
    return RecordSpending(use=use, rounds=rounds, delta=delta, groups=groups, group_of=group_of)
