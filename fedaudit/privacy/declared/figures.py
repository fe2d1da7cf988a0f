"""Who spent more than the budget of a declared ledger, whether its names fit the declared sampling,
and every fault of new rounds, by JSON pointer."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from fedaudit.privacy.accounting.privacy_events import (
    FixedSizeSampled,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
)
from fedaudit.privacy.declared.histories import (
    Charge,
    Histories,
    Tally,
    charge_of,
    distinct,
    over_budget,
    refusal,
)
from fedaudit.spec.base import SpecPart
from fedaudit.spec.declared_ledgers import (
    EVERYONE,
    MAX_ROUNDS_A_REQUEST,
    AnyRelease,
    DeclaredRound,
    FixedSizeRelease,
    LaplaceRelease,
    LedgerTerms,
    ReservationRequest,
)
from fedaudit.spec.errors import FieldError, InvalidInputError, pointer, raise_errors, validated

UNBOUNDED = "some rounds were declared without noise, so nothing bounds what they reveal"


def has_unprotected(histories: Histories) -> bool:
    """Whether some round was declared without noise."""
    return any(isinstance(charge.event, NonPrivate) for charge in histories.charges)


def clients_over(terms: LedgerTerms, histories: Histories) -> int:
    """How many clients have spent more than the budget of a client. Those that were never named
    have spent what everyone is charged."""
    if terms.budget is None:
        return 0
    rows = histories.of(np.arange(len(histories.names)))
    found, which = distinct(rows)
    over = over_budget(found, histories.charges, terms)[which]
    unnamed = terms.population - (len(rows) - 1)
    return int(over[1:].sum()) + (unnamed if over[0] else 0)


Drawn = Counter[str] | None
"""For each client the number of rounds that charge everyone and named it; None before the first
such round since these are counted.

They are kept apart from the subjects of a ledger, which bundles show: the cost of such rounds
assumes that it is secret who was drawn. The names are compared with the declared sampling, and not
shown."""


def drawn_clients(names: Sequence[str] | None, counts: Iterable[int] | None) -> Drawn:
    """Those of a stored ledger: rounds that named each."""
    if names is None or counts is None:
        return None
    return Counter(dict(zip(names, map(int, counts), strict=True)))


FALSE_ALARMS = 1e-9
"""Chance of a false alarm for a ledger, over all its counts and all its rounds."""
_EXPONENTS = np.geomspace(1e-5, 50.0, 100)
_MORE_CLIENTS = "more clients were named than the declared population of {}"
_LARGE_DELTA = (
    "delta is not below one in the {}s of the federation that the ledger names, whatever "
    "population it declares"
)
_FEWER_RECORDS = (
    "{} clients were named, each of which has a record at least, and the declared population is "
    "{}: state how many records all clients have together"
)
SECRET_COUNT = (
    "the figures assume that samples are secret, and this count tells of them: only the scope "
    "ledger:read opens it"
)
_UNNAMED = (
    "participants of amplified rounds are not named, by the terms of the ledger, so nothing tests "
    "whether the sampling was as rare as declared"
)


def contradictions(
    terms: LedgerTerms, histories: Histories, drawn: Drawn, units: int = 0
) -> list[str]:
    """How the names contradict the declared population or sampling, and whether delta is too large
    for the `units` of the federation that the ledger names, 0 where they are not known; empty if
    there is no contradiction.

    A population of clients is as large as the number that were named. Each of them has a record at
    least, so a population of records is no smaller: a delta below one in it would bound nothing
    otherwise.

    If samples are larger than declared, every epsilon is too small. The names then show too many
    participations in all, or of one client. All amplified rounds are tested together, whatever rate
    and noise each of them declares. Too few participations in all show that the names are not those
    of the sample; the first two tests saw nothing then, since naming no one passes both. A trainer
    that cannot name participants, as under secure aggregation, states that in its terms. Nothing
    tests its sampling then, and its figures are conditional.

    Each count is tested by its Chernoff bound, averaged over fixed exponents t. If all is as
    declared, exp(t * count) over its declared mean is a martingale from round to round, and so is
    the average over t. The test for too few in all takes exp(-t * count). By Ville's inequality the
    average ever exceeds 1 / alpha with a chance of at most alpha, however often a report is made
    and however rates are chosen from round to round. Alpha is 1e-9 over the number of tests: one
    for each client of the population, and two of the total.
    """
    large = [_LARGE_DELTA.format(terms.unit)] * ((terms.delta or 0.0) * units >= 1)
    if terms.unit == "record":
        clients = int(histories.of(np.arange(1, len(histories.names))).any(axis=1).sum())
        fewer = [_FEWER_RECORDS.format(clients, terms.population)] * (clients > terms.population)
        return fewer + large
    tallies = [one for one in histories.tallies.values() if one.charge.everyone]
    # Not of both together: a name that is in both would show itself by what the other lacks.
    clients = max(len(histories.names) - 1, len(drawn or ()))
    more = [_MORE_CLIENTS.format(terms.population)] * (clients > terms.population)
    return [*more, *large, *(_contradictions(terms, tallies, drawn) if tallies else ())]


def conditions(terms: LedgerTerms, histories: Histories) -> dict[str, str]:
    """By figure, why it rests on a sampling that nothing tests; empty if none does."""
    untested = histories.draws_secretly and not terms.names_participants
    return {"epsilon_max": _UNNAMED} if untested else {}


def _contradictions(terms: LedgerTerms, tallies: list[Tally], drawn: Drawn) -> Iterator[str]:
    rounds = np.array([one.rounds for one in tallies])
    rates = np.array([_rate(one) for one in tallies])
    expected = float(rounds @ rates)
    named = Counter(drawn)
    total, most = named.total(), max(named.values(), default=0)
    population, number = terms.population, int(rounds.sum())
    alarm = math.log((population + 2) / FALSE_ALARMS)
    # [exponents]: the logarithm of a client's mean of exp(t * rounds that named it), as declared.
    growth = _mean_log(rates, rounds)
    # Without the counts, which are as secret as the samples.
    if _evidence(total, population * growth) > alarm:
        yield (
            f"participations in {number} rounds of a population of {population} are more than the "
            f"declared sampling gives, which is {population * expected:.4g} on average"
        )
    if _evidence(most, growth) > alarm:
        yield (
            f"one client was named in more of {number} rounds than the declared sampling gives, "
            f"{expected:.4g} on average: the population is smaller than declared, or the sample "
            "was not drawn at random"
        )
    if not terms.names_participants or drawn is None:
        return
    # At least one step names clients in each round: rounds of several only name more.
    least = np.array([_sampled(one) for one in tallies])
    if _evidence(-total, population * _mean_log(least, rounds, -_EXPONENTS)) > alarm:
        yield (
            f"participations in {number} rounds of a population of {population} are fewer than the "
            f"declared sampling gives, at least {population * float(rounds @ least):.4g} on "
            "average: those who were drawn and did not answer belong under `failures`, and a "
            "training that cannot name who was drawn states so in the terms of its ledger "
            "(`names_participants: false`)"
        )


def _rate(tally: Tally) -> float:
    """The chance that a round of this charge names a client."""
    rate = _sampled(tally)
    # A round of several steps names who was drawn in any of them. The chance is concave in the
    # number of steps, so that of their mean, rounded up, is never below the mean chance.
    steps = max(1, math.ceil(int(tally.counts[0]) / max(1, tally.rounds)))
    return -math.expm1(steps * math.log1p(-rate)) if rate < 1 else 1.0


def _sampled(tally: Tally) -> float:
    """The chance that one step of this charge draws a client."""
    event = tally.charge.event
    match event:
        case PoissonSampled():
            return event.rate
        case FixedSizeSampled():
            return event.sample / event.population
        case _:
            raise ValueError(f"everyone pays for an event that samples no one: {event.kind}")


def _mean_log(
    rates: np.ndarray, rounds: np.ndarray, exponents: np.ndarray = _EXPONENTS
) -> np.ndarray:
    """[exponents]: the logarithm of the mean of exp(exponent * rounds that name one client)."""
    with np.errstate(divide="ignore"):  # a rate of 1
        stays = np.log1p(-rates)
    logs = np.logaddexp(stays, np.add.outer(exponents, np.log(rates)))
    found: np.ndarray = logs @ rounds
    return found


def _evidence(count: int, growth: np.ndarray) -> float:
    """The logarithm of the average over exponents of exp(t * count) over its declared mean; with a
    count below 0, of exp(-t * count)."""
    logs = _EXPONENTS * count - growth
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))


_NOBODY = (
    "names no one, which only rounds that are charged to everyone may do; name all who were asked, "
    "here or under failures, and do not declare a round that released nothing"
)


class _Posted(SpecPart):
    """A body of rounds, each of which is read by itself: one with faults hides no others."""

    rounds: Annotated[list[Any], Field(min_length=1, max_length=MAX_ROUNDS_A_REQUEST)]


MAX_EVENTS = 256
"""Most distinct events of a ledger. Each has a curve to compute, a count for every subject to
store, and a column in every history that is compared."""


def read_rounds(value: Any, terms: LedgerTerms, histories: Histories) -> list[DeclaredRound]:
    """The rounds in a body, in ascending order. Raises InvalidInputError with every fault, none of
    which depends on who was drawn in secret."""
    found: list[DeclaredRound] = []
    faults: list[FieldError] = []
    wrong = _Faults(terms, histories.places.keys(), histories.charges)
    for place, item in enumerate(validated(_Posted, value).rounds):
        at = pointer("rounds", place)
        try:
            one = validated(DeclaredRound, item)
        except InvalidInputError as error:
            faults += [FieldError(at + fault.pointer, fault.message) for fault in error.errors]
            continue
        if found and one.round <= found[-1].round:
            message = f"comes after round {found[-1].round}; give rounds in ascending order, once"
            faults.append(FieldError(f"{at}/round", message))
        found.append(one)
        named = {"participants": one.participants, "failures": one.failures}
        faults += wrong.of_round(one.event, named, at)
        if not any(named.values()) and not charge_of(terms, one.event).everyone:
            faults.append(FieldError(f"{at}/participants", _NOBODY))
    raise_errors(faults)
    return found


def read_reservation(
    value: Any, terms: LedgerTerms, histories: Histories, *, held: Histories
) -> ReservationRequest:
    """What a body asks to reserve of a ledger with these `histories`, beside what is `held`
    already. Raises InvalidInputError with every fault, as above."""
    one = validated(ReservationRequest, value)
    wrong = _Faults(terms, histories.places.keys(), held.charges)
    faults = list(wrong.of_round(one.event, {"participants": one.participants}, ""))
    raise_errors(faults)
    return one


class _Faults:
    """Finds what is wrong with rounds, one after the other: with the names that they have, and with
    which events they are, and how many."""

    def __init__(self, terms: LedgerTerms, names: Set[str], charges: Sequence[Charge]) -> None:
        """`names` and `charges`: those that the ledger has already."""
        self._terms = terms
        self._listed = None if terms.subjects is None else frozenset(terms.subjects)
        self._names, self._fresh = names, set[str]()
        self._room = terms.population - (len(names) - 1)
        self._charges = set(charges)
        # Leakages of one radius and one clip add up, and no others: None before the first round.
        counted = (
            [one.event.radius, one.clip] for one in charges if isinstance(one.event, LaplaceL2)
        )
        metric = terms.metric
        self._within = next(counted, None) if metric is None else [metric.radius, metric.clip]

    def of_round(
        self, event: AnyRelease, lists: dict[str, list[str]], at: str
    ) -> Iterator[FieldError]:
        """The faults of one round, by its lists of the clients that it asked."""
        yield from self._of_names(lists, at)
        charge, refused = charge_of(self._terms, event), refusal(self._terms, event)
        if refused is not None:
            yield FieldError(f"{at}/event/{refused[0]}", refused[1])
        elif isinstance(event, FixedSizeRelease) and charge.everyone:
            # Each step draws anew.
            asked, drawn = sum(map(len, lists.values())), event.clients * event.steps
            if asked > drawn:
                message = f"{asked} clients were asked, more than the {drawn} that were drawn"
                yield FieldError(f"{at}/participants", message)
        if charge not in self._charges and len(self._charges) >= MAX_EVENTS:
            message = (
                f"is one distinct event more than the {MAX_EVENTS} that a ledger may have; declare "
                "fewer different values (with noise multipliers rounded down, and rates or clients "
                "rounded up, figures stay upper bounds), or open another ledger"
            )
            yield FieldError(f"{at}/event", message)
        else:
            self._charges.add(charge)
        if not isinstance(event, LaplaceRelease):
            return
        self._within = self._within or [event.radius, event.clip]
        whose = "earlier rounds have" if self._terms.metric is None else "the ledger's terms have"
        for name, known in zip(("radius", "clip"), self._within, strict=True):
            if getattr(event, name) != known:
                message = (
                    f"{whose} {known}; n/nu holds between uploads within the radius, "
                    "so leakages of different ones cannot be added; open another ledger"
                )
                yield FieldError(f"{at}/event/{name}", message)

    def _of_names(self, lists: dict[str, list[str]], at: str) -> Iterator[FieldError]:
        named = {name for values in lists.values() for name in values}
        size = sum(map(len, lists.values()))
        if len(named) == size and EVERYONE not in named and named <= self._names:
            return
        seen: set[str] = set()
        for listed, values in lists.items():
            for place, name in enumerate(values):
                message = self._of_name(name, seen)
                if message is not None:
                    yield FieldError(at + pointer(listed, place), message)
                seen.add(name)

    def _of_name(self, name: str, seen: set[str]) -> str | None:
        if name in seen:
            return f"{name!r} is named twice in the round; name it once"
        if name in self._names and name != EVERYONE:
            return None
        if name == EVERYONE:
            return f"{EVERYONE!r} means the whole population; name clients"
        if self._listed is not None and name not in self._listed:
            return f"{name!r} is none of the ledger's subjects"
        if self._terms.unit == "client":
            self._fresh.add(name)
            if len(self._fresh) > self._room:
                population = self._terms.population
                return f"is one client more than the ledger's population of {population}"
        return None
