"""What one kind of subject spends against one observer, by number of compositions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.epsilon_tables import renyi_epsilons, shared_curve
from fedaudit.privacy.accounting.privacy_events import Adjacency, Event, Observer, event_from_dict


@dataclass(frozen=True)
class RepeatedEvent:
    """One event, composed repeatedly."""

    event: Event
    max_compositions: int | None = None
    """Compositions after which the subject takes no further part; None where it stays to the
    end."""

    def compositions_within(self, compositions: ArrayLike) -> NDArray[np.int64]:
        """How many of these compositions the subject takes part in."""
        counts = np.asarray(compositions, dtype=np.int64)
        return (
            counts if self.max_compositions is None else np.minimum(counts, self.max_compositions)
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-able values; `repeated_event_from_dict` reads them back."""
        return {"event": self.event.as_dict(), "lasts": self.max_compositions}


def repeated_event_from_dict(values: dict[str, Any]) -> RepeatedEvent:
    """The inverse of `as_dict`. Raises ValueError, KeyError or TypeError where the value is
    malformed."""
    lasts = values["lasts"]
    if lasts is not None and (type(lasts) is not int or lasts < 1):
        raise ValueError(f"lasts = {lasts} must be a whole number, 1 or more, or null")
    return RepeatedEvent(event_from_dict(values["event"]), lasts)


@dataclass(frozen=True, eq=False, kw_only=True)
class EpsilonCurve:
    """Epsilon of one kind of subject, by number of compositions."""

    observer: Observer
    delta: float
    adjacency: Adjacency
    repeated_events: tuple[RepeatedEvent, ...]
    """The possible repeated events of a subject; the curve is their maximum at each place. A single
    one, except for groups of records that their clients sample with noise of their own."""
    epsilons: NDArray[np.float64]
    """[steps + 1]: epsilon after that many compositions; upper bounds that never decrease, from
    0."""

    @property
    def event(self) -> Event:
        """One composition of the repeated event that spends most in the end."""
        return self.repeated_events[0].event

    def after(self, compositions: ArrayLike) -> NDArray[np.float64]:
        """Epsilon after each of these numbers of compositions, which may exceed the planned ones.

        A round that was charged, lost and repeated is composed twice.
        """
        counts = np.asarray(compositions, dtype=np.int64)
        last = len(self.epsilons) - 1
        found: NDArray[np.float64] = np.array(self.epsilons[np.minimum(counts, last)])
        beyond = counts > last
        if beyond.any():
            more = worst_epsilons(
                self.repeated_events,
                counts[beyond],
                adjacency=self.adjacency,
                observer=self.observer,
                delta=self.delta,
            )
            found[beyond] = np.maximum(found[beyond], more)
        return found

    def steps_within(self, epsilon: float) -> int:
        """The largest number of planned compositions after which `epsilon` is not exceeded."""
        return int(np.searchsorted(self.epsilons, epsilon, side="right")) - 1

    def curve(self, compositions: int) -> NDArray[np.float64]:
        """Renyi divergences after this many compositions, at RDP_ORDERS: float64 [orders]."""
        most = np.zeros(1)
        for repeated in self.repeated_events:
            one = shared_curve(repeated.event, adjacency=self.adjacency, observer=self.observer)
            count = int(repeated.compositions_within(compositions))
            # An order without a bound stays infinite, unless nothing was composed.
            most = np.maximum(most, count * one if count else np.zeros(len(one)))
        return most


def worst_epsilons(
    repeated_events: tuple[RepeatedEvent, ...],
    compositions: ArrayLike,
    *,
    adjacency: Adjacency,
    observer: Observer,
    delta: float,
) -> NDArray[np.float64]:
    """The largest epsilon of the events after each number of compositions, by Renyi orders:
    float64."""
    found = [
        renyi_epsilons(
            repeated.event,
            repeated.compositions_within(compositions),
            adjacency=adjacency,
            observer=observer,
            delta=delta,
        )
        for repeated in repeated_events
    ]
    most: NDArray[np.float64] = np.max(found, axis=0)
    return most
