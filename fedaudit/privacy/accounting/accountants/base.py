"""The interface of every accountant of (epsilon, delta)-differential privacy.

An accountant is made for one adjacency, states before composing which events it supports under it,
and gives an upper bound on epsilon for everything composed so far. Metric privacy has no such
accountant: its leakage is not an epsilon (`fedaudit.privacy.metric.leakage`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from fedaudit.privacy.accounting.privacy_events import Adjacency, Composed, Event, NonPrivate


class UnsupportedEventError(ValueError):
    """The accountant does not support this event; the message names a pair that it supports."""


@dataclass(frozen=True)
class Spending:
    """An upper bound on epsilon, with the conditions under which it holds."""

    epsilon: float
    """Infinite where something was released without a mechanism."""
    delta: float
    adjacency: Adjacency
    accountant: str
    order: float | None = None
    """The Renyi order that gave the bound; None where the accountant uses no orders."""
    warnings: tuple[str, ...] = ()


class Accountant(ABC):
    """Composes events under one adjacency."""

    name: ClassVar[str]
    adjacencies: ClassVar[tuple[Adjacency, ...]] = ("add-or-remove-one", "replace-one")

    def __init__(self, *, adjacency: Adjacency) -> None:
        """Raises ValueError where this accountant has no bound under the adjacency."""
        if adjacency not in self.adjacencies:
            raise ValueError(
                f"the accountant {self.name!r} has no bound under the adjacency {adjacency!r}; "
                f"it has one under {', '.join(map(repr, self.adjacencies))}"
            )
        self._adjacency: Adjacency = adjacency
        self._counts: dict[Event, int] = {}

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of every figure of this accountant."""
        return self._adjacency

    @property
    def composed(self) -> tuple[Composed, ...]:
        """Everything composed so far: equal events are grouped, in the order of first
        appearance."""
        return tuple(Composed(event, count) for event, count in self._counts.items())

    def unsupported(self, event: Event) -> str | None:
        """Why the event cannot be composed, and which pair is supported; None where it can."""
        if isinstance(event, Composed):
            event, _ = event.flattened()
        return None if isinstance(event, NonPrivate) else self._refusal(event)

    def compose(self, event: Event, count: int = 1) -> Self:
        """Compose the event `count` times, zero or more. Raises UnsupportedEventError."""
        reason = self.unsupported(event)
        if reason is not None:
            raise UnsupportedEventError(reason)
        if count < 0:
            raise ValueError(f"count = {count} must not be negative; spending cannot be undone")
        if isinstance(event, Composed):
            event, inner = event.flattened()
            count *= inner
        if count:
            self._counts[event] = self._counts.get(event, 0) + count
        return self

    def epsilon(self, delta: float) -> float:
        """An upper bound on epsilon at this delta for everything composed so far."""
        return self.spent(delta).epsilon

    def spent(self, delta: float) -> Spending:
        """The bound with its order and warnings. Raises ValueError unless 0 < delta < 1."""
        if not 0 < delta < 1:
            raise ValueError(f"delta = {delta} must lie between 0 and 1")
        if not self._counts:
            return Spending(0.0, delta, self.adjacency, self.name)
        if any(isinstance(event, NonPrivate) for event in self._counts):
            return Spending(math.inf, delta, self.adjacency, self.name)
        return self._spent(self._counts, delta)

    @abstractmethod
    def _refusal(self, event: Event) -> str | None:
        """Why the event, which is not a composition, cannot be composed; None where it can."""

    @abstractmethod
    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        """The bound for these events, of which there is at least one, each supported."""
