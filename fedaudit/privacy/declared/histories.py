"""What a declared round charges, and to whom; or why its ledger cannot count it.

Sampling amplifies only where no observer knows who was drawn. Such a round is
therefore charged to the whole population, drawn or not: a client's epsilon by an amplified event
holds over all rounds, and not over those in which it happened to be drawn. Rounds without
amplification are charged to the clients that were asked to take part.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints, Ints32
from fedaudit.privacy.accounting.accountant import (
    LOSS_STEP,
    RDP_ORDERS,
    added_epsilon,
    epsilon_of_events,
    event_curve,
    sampling_refusal,
)
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
)
from fedaudit.privacy.leakage import leakage, worst_log_ratio
from fedaudit.spec.declared_ledgers import (
    EVERYONE,
    AnyRelease,
    DistanceRelease,
    EpsilonBudget,
    FixedSizeRelease,
    GaussianRelease,
    LaplaceRelease,
    LeakageBudget,
    LedgerTerms,
    PoissonRelease,
    UnprotectedRelease,
)


@dataclass(frozen=True)
class Charge:
    """One event, and whether the whole population pays for it."""

    event: Event
    everyone: bool
    clip: float | None = None
    """Clip of metric privacy."""

    def as_dict(self) -> dict[str, object]:
        """The charge as it is stored."""
        return {"event": self.event.as_dict(), "everyone": self.everyone, "clip": self.clip}

    def curve(self, adjacency: Adjacency) -> Floats:
        """The event's Renyi divergence at RDP_ORDERS; infinite without noise."""
        if isinstance(self.event, NonPrivate):
            return np.full(len(RDP_ORDERS), np.inf)
        return event_curve(self.event, RDP_ORDERS, adjacency)


def charge_of(terms: LedgerTerms, release: AnyRelease) -> Charge:
    """What one step of a release charges under these terms."""
    secret = terms.unit == "client"
    match release:
        case GaussianRelease():
            return Charge(Gaussian(release.noise_multiplier), everyone=False)
        case PoissonRelease():
            inner = Gaussian(release.noise_multiplier)
            return Charge(PoissonSampled(release.rate, inner), everyone=secret)
        case FixedSizeRelease():
            inner = Gaussian(release.noise_multiplier)
            drawn = FixedSizeSampled(release.population, release.clients, inner)
            return Charge(drawn, everyone=secret)
        case LaplaceRelease():
            event = LaplaceL2(release.n, release.noise_multiplier, release.radius)
            return Charge(event, everyone=False, clip=release.clip)
        case DistanceRelease() | UnprotectedRelease():
            return Charge(NonPrivate(), everyone=False)
        case _:
            assert_never(release)


def refusal(terms: LedgerTerms, release: AnyRelease) -> tuple[str, str] | None:
    """The field of an event that its ledger cannot count, and why; None where it can."""
    other = "kind", f"the ledger's mechanism is {terms.mechanism}; open another ledger"
    match release:
        case UnprotectedRelease():
            return None
        case DistanceRelease():
            return None if terms.mechanism == release.kind else other
        case LaplaceRelease():
            return None if terms.mechanism == "laplace-l2" else other
        case GaussianRelease():
            return None if terms.counts_epsilon else other
        case PoissonRelease() | FixedSizeRelease():
            return _not_amplified(terms, release) if terms.counts_epsilon else other
        case _:
            assert_never(release)


def _not_amplified(
    terms: LedgerTerms, release: PoissonRelease | FixedSizeRelease
) -> tuple[str, str] | None:
    if terms.unit == "client" and not terms.hides_participants:
        return (
            "kind",
            "the server sees who takes part, so sampling clients amplifies nothing; declare the "
            "kind gaussian, or a ledger against final_model",
        )
    if isinstance(release, FixedSizeRelease):
        if terms.unit == "client" and release.population != terms.population:
            return "population", f"the ledger's population is {terms.population}; state the same"
        if release.population > terms.population:
            return "population", f"exceeds the ledger's population of {terms.population}"
    if terms.adjacency is None:
        return None
    event, accountant = charge_of(terms, release).event, terms.accountant or "rdp"
    why = sampling_refusal(event, accountant=accountant, adjacency=terms.adjacency)
    return None if why is None else ("kind", why)


MAX_CELLS = 4e6
"""Cells of all arrays of loss distributions for one figure: seconds, and some hundred MiB."""
_CUT = 50.0
_BEYOND_ONE = np.array(RDP_ORDERS) - 1


def loss_cells(history: Ints, charges: Sequence[Charge], *, adjacency: Adjacency) -> float:
    """Cells of all arrays on the way to one history's loss distribution; 0 without any event.

    The moments of a privacy loss are its Renyi divergences, so by Chernoff's bound it is within
    min over orders of (divergence + 50 / (order - 1)) of zero but for a mass of exp(-50) on either
    side, which is where the library cuts its grid. Its arrays grow with that width over the step of
    the grid, whatever noise and steps a trainer declares.
    """
    cells = composed = 0.0
    for charge, count in zip(charges, history.tolist(), strict=True):
        if not count or isinstance(charge.event, NonPrivate):
            continue
        curve = charge.curve(adjacency)
        # One event, so many of them, and all of the earlier events with these.
        own = _width(count * curve)
        composed += own
        cells += max(_width(curve), own) + composed
    return cells / LOSS_STEP


def _width(curve: Floats) -> float:
    return 2 * float(np.min(curve + _CUT / _BEYOND_ONE))


Counts = Ints
_ORDERS = np.array(RDP_ORDERS)
_ROUNDING = 1 + 1e-12
"""A budget such as 1.2 has room for three times 0.4, which as floats add up to more."""
_MAX_EXACT = 16
"""Histories of which none bounds another, for each of which loss distributions are composed."""


@dataclass(frozen=True, eq=False)
class Tally:
    """How often one charge was made."""

    charge: Charge
    rounds: int
    """Rounds that declared it."""
    counts: Counts
    """[subjects]: compositions charged to each. Where everyone pays, the first subject represents
    all and its count is the only one; who was named is counted in `Drawn`."""


class Histories:
    """The charges of a ledger so far. Its first subject represents the whole population."""

    def __init__(self, names: Sequence[str] = (EVERYONE,), tallies: Iterable[Tally] = ()) -> None:
        self.names = list(names)
        self.places = {name: place for place, name in enumerate(self.names)}
        self.tallies: dict[Charge, Tally] = {one.charge: one for one in tallies}

    def copy(self) -> "Histories":
        """One that may be charged without changing this one."""
        found = Histories(tallies=self.tallies.values())
        found.names, found.places = self.names.copy(), self.places.copy()
        return found

    def enter(self, names: Iterable[str]) -> Ints32:
        """The places of these subjects, which exist from now on."""
        wanted = list(names)
        for name in wanted:
            if name not in self.places:
                self.places[name] = len(self.names)
                self.names.append(name)
        return np.array([self.places[name] for name in wanted], dtype=np.int32)

    def charge(
        self, charge: Charge, named: Ints32, *, steps: int, is_counted: bool = False
    ) -> Tally:
        """Charge a round of so many steps; `named`: the clients asked to take part, which do not
        matter where everyone pays. `is_counted`: the round was charged to others before."""
        before = self.tallies.get(charge, Tally(charge, 0, np.zeros(0, dtype=np.int64)))
        counts = np.zeros(len(self.names), dtype=np.int64)
        counts[: len(before.counts)] = before.counts
        counts[0 if charge.everyone else named] += steps
        tally = Tally(charge, before.rounds + (not is_counted), counts)
        self.tallies[charge] = tally
        return tally

    @property
    def charges(self) -> list[Charge]:
        """The distinct charges, in the order of their first appearance."""
        return list(self.tallies)

    @property
    def draws_secretly(self) -> bool:
        """Whether everyone paid for some round, because it is secret who was drawn."""
        return any(one.everyone for one in self.charges)

    def of(self, places: NDArray[np.integer]) -> Counts:
        """The histories of some subjects: [subjects, charges]. A place beyond all represents a
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
        """The distinct histories of all subjects, including one without any charge."""
        return distinct(self.of(np.arange(len(self.names))))[0]


def distinct(histories: Counts) -> tuple[Counts, NDArray[np.intp]]:
    """The distinct ones of some histories, ascending, and which of them each one is."""
    if histories.shape[1] == 1:
        # numpy compares numbers several times as fast as rows.
        values, which = np.unique(histories[:, 0], return_inverse=True)
        return values[:, None], which.reshape(-1)
    rows, which = np.unique(histories, axis=0, return_inverse=True)
    return rows, which.reshape(-1)


def renyi_epsilons(histories: Counts, charges: Sequence[Charge], terms: LedgerTerms) -> Floats:
    """Epsilon by Renyi orders of each history [histories, charges]; infinite if nothing bounds it.

    Raises ValueError for terms without adjacency and delta.
    """
    if terms.adjacency is None or terms.delta is None:
        raise ValueError("an epsilon has a delta and an adjacency")
    divergences = _divergences(histories, charges, terms.adjacency)
    bounds: Floats = divergences + added_epsilon(_ORDERS, terms.delta)
    found: Floats = np.maximum(bounds.min(axis=1), 0.0)
    found[~histories.any(axis=1)] = 0.0
    return found


def renyi_curve(histories: Histories, adjacency: Adjacency) -> Floats:
    """Renyi divergences at RDP_ORDERS that no subject exceeds; infinite where nothing bounds
    one."""
    curves = _divergences(histories.distinct(), histories.charges, adjacency)
    found: Floats = curves.max(axis=0, initial=0.0)
    return found


def _divergences(histories: Counts, charges: Sequence[Charge], adjacency: Adjacency) -> Floats:
    """[histories, orders]"""
    found = np.zeros((len(histories), len(RDP_ORDERS)))
    for column, charge in enumerate(charges):
        counts = histories[:, column]
        # None of an event adds nothing, also at orders at which it has no bound, where 0 * inf
        # would be NaN, which exceeds no budget.
        added = np.zeros_like(found)
        curve = charge.curve(adjacency)
        np.multiply.outer(counts, curve, out=added, where=(counts > 0)[:, None])
        found += added
    return found


def _exact(history: Ints, charges: Sequence[Charge], terms: LedgerTerms) -> float:
    """Epsilon by the ledger's accountant."""
    assert terms.adjacency is not None
    assert terms.delta is not None
    pairs = zip(charges, history.tolist(), strict=True)
    return epsilon_of_events(
        tuple((charge.event, count) for charge, count in pairs if count),
        terms.accountant or "rdp",
        adjacency=terms.adjacency,
        delta=terms.delta,
    )


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
    """Why it is not the figure of the ledger's accountant."""


def largest_epsilon(histories: Histories, terms: LedgerTerms) -> LargestEpsilon | None:
    """Largest epsilon, by the ledger's accountant or, where loss distributions would be too large,
    by Renyi orders; None where the cost is not an epsilon."""
    if terms.adjacency is None or terms.delta is None or not terms.counts_epsilon:
        return None
    accountant, rows, charges = terms.accountant or "rdp", histories.distinct(), histories.charges
    if not charges:
        return LargestEpsilon(0.0, accountant)
    bounds = renyi_epsilons(rows, charges, terms)
    largest = float(bounds.max())
    if not np.isfinite(largest):
        return LargestEpsilon(np.inf, accountant)
    chosen = rows[[int(bounds.argmax())]]
    if accountant == "pld":
        # Those that no other one contains: more charges never cost less.
        within = (rows[:, None, :] <= rows[None, :, :]).all(axis=2)
        chosen = rows[within.sum(axis=1) == 1]
        few = len(chosen) <= _MAX_EXACT
        cells = [loss_cells(row, charges, adjacency=terms.adjacency) for row in chosen[:_MAX_EXACT]]
        if not few or sum(cells) > MAX_CELLS:
            return LargestEpsilon(largest, "rdp", TOO_LARGE)
    value = max(_exact(row, charges, terms) for row in chosen)
    if not np.isfinite(value):
        return LargestEpsilon(largest, "rdp", TOO_LARGE)
    return LargestEpsilon(value, accountant)


def leakages(histories: Counts, charges: Sequence[Charge]) -> Floats:
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


def over_budget(rows: Counts, charges: Sequence[Charge], terms: LedgerTerms) -> Bools:
    """Which of some distinct histories exceed the budget of a client; none without one."""
    match terms.budget:
        case None:
            return np.zeros(len(rows), dtype=np.bool_)
        case LeakageBudget():
            return leakages(rows, charges) > terms.budget.leakage * _ROUNDING
        case EpsilonBudget():
            return _over_epsilon(rows, charges, terms, terms.budget.epsilon * _ROUNDING)
        case _:
            assert_never(terms.budget)


def _over_epsilon(
    rows: Counts, charges: Sequence[Charge], terms: LedgerTerms, most: float
) -> Bools:
    bounds = renyi_epsilons(rows, charges, terms)
    over: Bools = bounds > most
    if terms.accountant == "pld" and terms.adjacency is not None:
        # Loss distributions take long, so they decide only where the quick bound refuses.
        # Those that would be too large stay refused, which claims no room that is not proven.
        left = MAX_CELLS
        for place in np.flatnonzero(over & np.isfinite(bounds)).tolist():
            left -= loss_cells(rows[place], charges, adjacency=terms.adjacency)
            if left < 0:
                break
            over[place] = _exact(rows[place], charges, terms) > most
    return over


def largest_leakage(histories: Histories) -> float:
    """Largest leakage, by the paper's n/nu a release; infinite where some release had no noise."""
    return float(leakages(histories.distinct(), histories.charges).max(initial=0.0))


def largest_log_ratio(histories: Histories) -> float | None:
    """The theorem's sum; None where some release of that client has no fixed radius or no clip,
    infinite where the sum exceeds what floating-point numbers hold.

    Under one radius and clip it grows with the leakage, so the client with most of one has most of
    the other.
    """
    rows, charges = histories.distinct(), histories.charges
    worst = rows[int(leakages(rows, charges).argmax())]
    total = 0.0
    for charge, count in zip(charges, worst.tolist(), strict=True):
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
