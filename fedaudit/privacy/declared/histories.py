"""What each subject of a declared ledger was charged, and what that comes to.

A history is how often each distinct event was charged; its order does not matter. Subjects with the
same history cost the same, so figures are computed once for each distinct history, whatever the
number of rounds and subjects.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.pld import PldAccountant
from fedaudit.privacy.accounting.privacy_events import Adjacency, Event, LaplaceL2, NonPrivate
from fedaudit.privacy.accounting.rdp import RDP_ORDERS, RdpAccountant
from fedaudit.privacy.declared.declared_releases import Charge
from fedaudit.privacy.declared.loss_sizes import MAX_CELLS, loss_cells
from fedaudit.privacy.leakage import leakage, worst_log_ratio
from fedaudit.spec.declared.ledger_terms import (
    EVERYONE,
    ClientBudget,
    EpsilonBudget,
    LeakageBudget,
    LedgerTerms,
)

Counts = NDArray[np.int64]
_ORDERS = np.array(RDP_ORDERS)
_ROUNDING = 1 + 1e-12
"""A budget such as 1.2 has room for three times 0.4, whose sum in floating point lies above."""
_MAX_EXACT = 16
"""Histories of which none bounds another, for each of which loss distributions are composed."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How often one charge was made."""

    charge: Charge
    rounds: int
    """Rounds that declared it."""
    counts: Counts
    """[subjects]: compositions charged to each. Where everyone pays, the first subject stands for
    all and its count is the only one; who was named is counted in `Drawn`."""


class Histories:
    """The charges of a ledger so far. Its first subject stands for the whole population."""

    def __init__(self, names: Sequence[str] = (EVERYONE,), tallies: Iterable[Tally] = ()) -> None:
        self.names = list(names)
        self.places = {name: place for place, name in enumerate(self.names)}
        self.tallies: dict[Charge, Tally] = {one.charge: one for one in tallies}

    def copy(self) -> "Histories":
        """One that may be charged without changing this one."""
        found = Histories(tallies=self.tallies.values())
        found.names, found.places = self.names.copy(), self.places.copy()
        return found

    def enter(self, names: Iterable[str]) -> NDArray[np.int32]:
        """The places of these subjects, which exist from now on."""
        wanted = list(names)
        for name in wanted:
            if name not in self.places:
                self.places[name] = len(self.names)
                self.names.append(name)
        return np.array([self.places[name] for name in wanted], dtype=np.int32)

    def charge(self, charge: Charge, named: NDArray[np.int32], *, steps: int) -> Tally:
        """Charge a round of so many steps; `named`: whoever was asked to take part, which does not
        matter where everyone pays."""
        before = self.tallies.get(charge)
        if before is not None:
            charge = before.charge  # Which has its curve already.
        counts = np.zeros(len(self.names), dtype=np.int64)
        if before is not None:
            counts[: len(before.counts)] = before.counts
        if charge.everyone:
            counts[0] += steps
        else:
            counts[named] += steps
        rounds = 1 if before is None else before.rounds + 1
        tally = Tally(charge, rounds, counts)
        self.tallies[charge] = tally
        return tally

    @property
    def charges(self) -> list[Charge]:
        """The distinct charges, in the order of their first appearance."""
        return list(self.tallies)

    def of(self, places: NDArray[np.integer]) -> Counts:
        """The histories of some subjects: [subjects, charges]. A place beyond all stands for a
        subject that was never named."""
        found = np.zeros((len(places), len(self.tallies)), dtype=np.int64)
        for column, tally in enumerate(self.tallies.values()):
            if tally.charge.everyone:
                found[:, column] = tally.counts[0]
            else:
                known = places < len(tally.counts)
                found[known, column] = tally.counts[places[known]]
        return found

    def distinct(self) -> Counts:
        """The distinct histories of all subjects, of the one without any charge of its own too."""
        return distinct(self.of(np.arange(len(self.names))))[0]


def distinct(histories: Counts) -> tuple[Counts, NDArray[np.intp]]:
    """The distinct ones of some histories, ascending, and which of them each one is."""
    if histories.shape[1] == 1:
        # numpy compares numbers several times as fast as rows.
        values, which = np.unique(histories[:, 0], return_inverse=True)
        return values[:, None], which.reshape(-1)
    rows, which = np.unique(histories, axis=0, return_inverse=True)
    return rows, which.reshape(-1)


def keep_curves(charges: Iterable[Charge], adjacency: Adjacency) -> None:
    """Compute the curves of these charges, which keep them."""
    for charge in charges:
        if not isinstance(charge.event, NonPrivate):
            charge.curve(adjacency)


def renyi_epsilons(
    histories: Counts, charges: Sequence[Charge], *, adjacency: Adjacency, delta: float
) -> NDArray[np.float64]:
    """By Renyi orders, for each history [histories, charges]; infinite where nothing bounds it."""
    if not len(histories) or not charges:
        return np.zeros(len(histories))
    divergences = np.zeros((len(histories), len(RDP_ORDERS)))
    unbounded = np.zeros(len(histories), dtype=np.bool_)
    for column, charge in enumerate(charges):
        if isinstance(charge.event, NonPrivate):
            unbounded |= histories[:, column] > 0
            continue
        curve = charge.curve(adjacency)
        divergences += _composed(histories[:, column], curve)
    bounds: NDArray[np.float64] = divergences + added_epsilon(_ORDERS, delta)
    found: NDArray[np.float64] = np.maximum(bounds.min(axis=1), 0.0)
    found[~histories.any(axis=1)] = 0.0
    found[unbounded] = np.inf
    return found


def renyi_curve(
    histories: Counts, charges: Sequence[Charge], *, adjacency: Adjacency
) -> NDArray[np.float64]:
    """Renyi divergences at RDP_ORDERS that no history exceeds; infinite where nothing bounds
    one."""
    most = np.zeros(len(RDP_ORDERS))
    for column, charge in enumerate(charges):
        if isinstance(charge.event, NonPrivate) and histories[:, column].any():
            most += np.inf
    if np.isinf(most).any():
        return most
    curves = np.zeros((len(histories), len(RDP_ORDERS)))
    for column, charge in enumerate(charges):
        if not isinstance(charge.event, NonPrivate):
            curve = charge.curve(adjacency)
            curves += _composed(histories[:, column], curve)
    found: NDArray[np.float64] = curves.max(axis=0) if len(curves) else most
    return found


def _composed(counts: NDArray[np.int64], curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The divergences of so many of one event; none of it adds nothing, also at the orders at
    which the event has no bound (where 0 * inf would be NaN, which exceeds no budget)."""
    found = np.zeros((len(counts), len(curve)))
    np.multiply.outer(counts, curve, out=found, where=(counts > 0)[:, None])
    return found


@lru_cache(maxsize=4096)
def exact_epsilon(
    composed: tuple[tuple[Event, int], ...], *, accountant: str, adjacency: Adjacency, delta: float
) -> float:
    """The accountant's own figure for one history."""
    made = PldAccountant if accountant == "pld" else RdpAccountant
    counted = made(adjacency=adjacency)
    for event, count in composed:
        counted.compose(event, count)
    return counted.epsilon(delta)


def composed_of(
    history: NDArray[np.int64], charges: Sequence[Charge]
) -> tuple[tuple[Event, int], ...]:
    """A history as events with their counts."""
    pairs = zip(charges, history.tolist(), strict=True)
    return tuple((charge.event, count) for charge, count in pairs if count)


TOO_LARGE = (
    "the loss distributions would be too large to compose, so this is the bound by Renyi orders, "
    "which is never smaller than what was proven"
)


@dataclass(frozen=True)
class LargestEpsilon:
    """The largest epsilon of any subject; infinite where nothing bounds it."""

    value: float
    accountant: str
    """Whose figure it is."""
    reason: str | None = None
    """Why it is not that of the ledger's accountant."""


def largest_epsilon(histories: Histories, terms: LedgerTerms) -> LargestEpsilon | None:
    """By the ledger's accountant, or by Renyi orders where loss distributions would be too large;
    None where the cost is not an epsilon."""
    if terms.adjacency is None or terms.delta is None or not terms.counts_epsilon:
        return None
    accountant, rows, charges = terms.accountant or "rdp", histories.distinct(), histories.charges
    if not charges:
        return LargestEpsilon(0.0, accountant)
    bounds = renyi_epsilons(rows, charges, adjacency=terms.adjacency, delta=terms.delta)
    largest = float(bounds.max())
    if not np.isfinite(largest):
        return LargestEpsilon(np.inf, accountant)
    chosen = rows[[int(bounds.argmax())]]
    if accountant == "pld":
        chosen = _maximal(rows)
        few = len(chosen) <= _MAX_EXACT
        cells = [loss_cells(row, charges, adjacency=terms.adjacency) for row in chosen[:_MAX_EXACT]]
        if not few or sum(cells) > MAX_CELLS:
            return LargestEpsilon(largest, "rdp", TOO_LARGE)
    value = max(
        exact_epsilon(
            composed_of(row, charges),
            accountant=accountant,
            adjacency=terms.adjacency,
            delta=terms.delta,
        )
        for row in chosen
    )
    if not np.isfinite(value):
        return LargestEpsilon(largest, "rdp", TOO_LARGE)
    return LargestEpsilon(value, accountant)


def _maximal(rows: Counts) -> Counts:
    """Those that no other one contains; more charges never cost less."""
    within = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
    found: Counts = rows[within.sum(axis=1) == 1]
    return found


def leakages(histories: Counts, charges: Sequence[Charge]) -> NDArray[np.float64]:
    """The leakage of each history, by the paper's convention; infinite without noise."""
    found = np.zeros(len(histories))
    for column, charge in enumerate(charges):
        counts = histories[:, column]
        event = charge.event
        if isinstance(event, LaplaceL2):
            nu = event.noise_multiplier
            found += [leakage(count, n=event.n, noise_multiplier=nu) for count in counts.tolist()]
        else:
            found[counts > 0] = np.inf
    return found


def log_ratio(history: NDArray[np.int64], charges: Sequence[Charge]) -> float | None:
    """The theorem's sum of one history; None where some release has no fixed radius or no clip,
    infinite where it exceeds what floating-point numbers hold."""
    total = 0.0
    for charge, count in zip(charges, history.tolist(), strict=True):
        event = charge.event
        if not count:
            continue
        if not isinstance(event, LaplaceL2) or event.radius is None or charge.clip is None:
            return None
        try:
            total += worst_log_ratio(
                count,
                sizes=(event.n,),
                noise_multiplier=event.noise_multiplier,
                radius=event.radius,
                clip=charge.clip,
            )
        except ArithmeticError:
            # The rate overflows, or its denominator vanishes: no finite number bounds it.
            return np.inf
    return total


def over_budget(rows: Counts, charges: Sequence[Charge], terms: LedgerTerms) -> NDArray[np.bool_]:
    """Which of some distinct histories exceed the budget of a client; none without one."""
    if terms.budget is None:
        return np.zeros(len(rows), dtype=np.bool_)
    return _over(rows, charges, terms, terms.budget)


def _over(
    rows: Counts, charges: Sequence[Charge], terms: LedgerTerms, budget: ClientBudget
) -> NDArray[np.bool_]:
    match budget:
        case LeakageBudget():
            found: NDArray[np.bool_] = leakages(rows, charges) > budget.leakage * _ROUNDING
            return found
        case EpsilonBudget():
            return _over_epsilon(rows, charges, terms, budget.epsilon * _ROUNDING)
        case _:
            assert_never(budget)


def _over_epsilon(
    rows: Counts, charges: Sequence[Charge], terms: LedgerTerms, most: float
) -> NDArray[np.bool_]:
    if terms.adjacency is None or terms.delta is None:
        raise ValueError("an epsilon has a delta and an adjacency")
    bounds = renyi_epsilons(rows, charges, adjacency=terms.adjacency, delta=terms.delta)
    over: NDArray[np.bool_] = bounds > most
    if terms.accountant == "pld":
        # Loss distributions take long, so they decide only where the quick bound refuses.
        # Those that would be too large stay refused, which claims no room that is not proven.
        left = MAX_CELLS
        for place in np.flatnonzero(over & np.isfinite(bounds)).tolist():
            left -= loss_cells(rows[place], charges, adjacency=terms.adjacency)
            if left < 0:
                break
            composed = composed_of(rows[place], charges)
            exact = exact_epsilon(
                composed, accountant="pld", adjacency=terms.adjacency, delta=terms.delta
            )
            over[place] = exact > most
    return over
