"""What is wrong with declared rounds: every fault at once, by JSON pointer."""

from collections.abc import Iterator, Sequence, Set
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fedaudit.privacy.accounting.privacy_events import LaplaceL2
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Histories, charge_of, refusal
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
from fedaudit.spec.errors import FieldError, InvalidInputError, field_errors, pointer

Read = TypeVar("Read", bound=BaseModel)

_NOBODY = (
    "names nobody, and only rounds that are charged to everyone may: name whoever was asked, here "
    "or under failures; a round that nothing left is not declared"
)


MAX_EVENTS = 256
"""Distinct ones of a ledger: each has a curve of its own to compute, a count for every subject to
store, and a column in every history that is compared."""


def read_rounds(
    value: Any, terms: LedgerTerms, histories: Histories, drawn: Drawn
) -> list[DeclaredRound]:
    """The rounds in a body, in ascending order. Raises InvalidInputError with every fault."""
    items = _items(value)
    found: list[DeclaredRound] = []
    faults: list[FieldError] = []
    names = _Names(terms, {*histories.places, *drawn.names})
    leakage_terms, events = _LeakageTerms(terms, histories), _Events(terms, histories)
    for place, item in enumerate(items):
        at = pointer("rounds", place)
        one = _read(DeclaredRound, item, at, faults)
        if one is None:
            continue
        if found and one.round <= found[-1].round:
            message = f"stands behind round {found[-1].round}; order rounds, each of them once"
            faults.append(FieldError(f"{at}/round", message))
        found.append(one)
        faults += names.faults({"participants": one.participants, "failures": one.failures}, at)
        asked = len(one.participants) + len(one.failures)
        faults += _event_faults(terms, one.event, asked, at)
        faults += events.faults(one.event, at)
        if not asked and not charge_of(terms, one.event).everyone:
            faults.append(FieldError(f"{at}/participants", _NOBODY))
        faults += leakage_terms.faults(one.event, at)
    if faults:
        raise InvalidInputError(faults)
    return found


class SentReservation:
    """What a body asks to reserve. A ledger may be looked at again, under its lock or after another
    round came in; what depends on nothing new is found once."""

    def __init__(self, value: Any) -> None:
        self._faults: list[FieldError] = []
        self._one = _read(ReservationRequest, value, "", self._faults)
        self._seen: tuple[Histories, Drawn] | None = None
        self._names: list[FieldError] = []

    def read(
        self, terms: LedgerTerms, histories: Histories, drawn: Drawn, *, held: Histories
    ) -> ReservationRequest:
        """The request, of a ledger with these `histories`, beside what is `held` already: neither
        is changed afterwards. Raises InvalidInputError with every fault."""
        one = self._one
        if one is None:
            raise InvalidInputError(self._faults)
        if self._seen is None or self._seen[0] is not histories or self._seen[1] is not drawn:
            names = _Names(terms, {*histories.places, *drawn.names})
            self._names = list(names.faults({"participants": one.participants}, ""))
            self._seen = histories, drawn
        faults = [
            *self._names,
            *_event_faults(terms, one.event, len(one.participants), ""),
            *_LeakageTerms(terms, held).faults(one.event, ""),
            *_Events(terms, held).faults(one.event, ""),
        ]
        if faults:
            raise InvalidInputError(faults)
        return one


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, dict):
        raise InvalidInputError([FieldError("", "must be an object with named fields")])
    faults = [FieldError(pointer(name), "unknown field") for name in value if name != "rounds"]
    items = value.get("rounds")
    if "rounds" not in value:
        faults.append(FieldError("/rounds", "is required"))
    elif not isinstance(items, list):
        faults.append(FieldError("/rounds", "must be a list"))
    elif not 1 <= len(items) <= MAX_ROUNDS_A_REQUEST:
        faults.append(FieldError("/rounds", f"must name 1 to {MAX_ROUNDS_A_REQUEST} rounds"))
    if faults:
        raise InvalidInputError(faults)
    assert isinstance(items, list)
    return items


def _read(model: type[Read], value: Any, at: str, faults: list[FieldError]) -> Read | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = field_errors(error, value)
        faults += [FieldError(at + one.pointer, one.message) for one in found]
        return None


class _Names:
    """Who may be named, and whom rounds have named already."""

    def __init__(self, terms: LedgerTerms, known: Set[str]) -> None:
        self._terms = terms
        self._listed = None if terms.subjects is None else frozenset(terms.subjects)
        self._known = known
        self._fresh: set[str] = set()
        self._room = terms.population - (len(known) - 1)

    def faults(self, lists: dict[str, list[str]], at: str) -> Iterator[FieldError]:
        """Of one round's lists."""
        named = {name for values in lists.values() for name in values}
        size = sum(map(len, lists.values()))
        if len(named) == size and EVERYONE not in named and named <= self._known:
            return
        seen: set[str] = set()
        for field, values in lists.items():
            for place, name in enumerate(values):
                message = self._fault(name, seen)
                if message is not None:
                    yield FieldError(at + pointer(field, place), message)
                seen.add(name)

    def _fault(self, name: str, seen: set[str]) -> str | None:
        if name in seen:
            return f"{name!r} is named twice in the round; name it once"
        if name in self._known and name != EVERYONE:
            return None
        if name == EVERYONE:
            return f"{EVERYONE!r} stands for the whole population; name clients"
        if self._listed is not None and name not in self._listed:
            return f"{name!r} is none of the ledger's subjects"
        if self._terms.unit == "client":
            self._fresh.add(name)
            if len(self._fresh) > self._room:
                population = self._terms.population
                return f"is one client more than the ledger's population of {population}"
        return None


class _LeakageTerms:
    """Leakages of one radius and one clip add up, and no others."""

    def __init__(self, terms: LedgerTerms, histories: Histories) -> None:
        known = (
            (one.event.radius, one.clip)
            for one in histories.charges
            if isinstance(one.event, LaplaceL2)
        )
        stated = terms.metric
        self._whose = "earlier rounds have" if stated is None else "the ledger's terms have"
        self._terms = next(known, None) if stated is None else (stated.radius, stated.clip)

    def faults(self, event: AnyRelease, at: str) -> Iterator[FieldError]:
        """Of one event."""
        if not isinstance(event, LaplaceRelease):
            return
        mine = event.radius, event.clip
        if self._terms is None:
            self._terms = mine
        names = ("radius", "clip")
        for name, own, known in zip(names, mine, self._terms, strict=True):
            if own != known:
                message = (
                    f"{self._whose} {known}; n/nu holds between uploads within the radius, "
                    "so leakages of different ones cannot be added; open another ledger"
                )
                yield FieldError(f"{at}/event/{name}", message)


class _Events:
    """How many distinct events a ledger has."""

    def __init__(self, terms: LedgerTerms, histories: Histories) -> None:
        self._terms = terms
        self._known = set(histories.charges)

    def faults(self, event: AnyRelease, at: str) -> Iterator[FieldError]:
        """Of one event; one that is known already is none."""
        charge = charge_of(self._terms, event)
        if charge in self._known:
            return
        if len(self._known) >= MAX_EVENTS:
            message = (
                f"is one distinct event more than the {MAX_EVENTS} that a ledger may have; declare "
                "fewer different values (with noise multipliers rounded down, and rates or clients "
                "rounded up, figures stay upper bounds), or open another ledger"
            )
            yield FieldError(f"{at}/event", message)
            return
        self._known.add(charge)


def _event_faults(
    terms: LedgerTerms, event: AnyRelease, named: int, at: str
) -> Iterator[FieldError]:
    refused = refusal(terms, event)
    if refused is not None:
        field, why = refused
        yield FieldError(f"{at}/event/{field}", why)
        return
    if not isinstance(event, FixedSizeRelease) or not charge_of(terms, event).everyone:
        return
    drawn = event.clients * event.steps
    if named > drawn:
        # Each step draws anew.
        message = f"{named} clients were asked, more than the {drawn} that were drawn"
        yield FieldError(f"{at}/participants", message)
