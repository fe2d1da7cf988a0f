"""Arrays by the type of their numbers, for signatures; what has one states its shape."""

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Ints16 = NDArray[np.int16]
Ints32 = NDArray[np.int32]
Number = TypeVar("Number", bound=np.generic)


def finite(value: float | None) -> float | None:
    """The number; None in place of NaN and infinities, and where there is none."""
    return float(value) if value is not None and math.isfinite(value) else None


def renumbered(numbers: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """The distinct ones of small numbers from 0, ascending, and the place of each in them: what
    `np.unique` finds by sorting."""
    present = np.bincount(numbers) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]


class Turns:
    """What is kept of everybody while one after the other has a turn, all turns at once."""

    def __init__(self, who: NDArray[np.integer[Any]]) -> None:
        """`who` has each turn: indices [turns]."""
        # Short integers are sorted by their digits, in a tenth of the time.
        short = who.max(initial=0) < 1 << 16
        self._order = np.argsort(who.astype(np.uint16) if short else who, kind="stable")
        self._who = who[self._order]
        self._first = np.append(True, self._who[1:] != self._who[:-1])[: len(who)]

    def count(self, counts: NDArray[Any], more: Bools) -> Ints:
        """Each one's count after the turn, [turns], to which it adds where `more` [turns];
        moves `counts` [everybody] on."""
        added = more[self._order]
        so_far = added.cumsum()
        # A sum never falls, so the largest at the beginning of someone's turns is theirs.
        earlier = np.maximum.accumulate(np.where(self._first, so_far - added, 0))
        after = counts[self._who] + so_far - earlier
        counts[self._who] = after  # the last of the turns of one stays
        return self._in_time(after)

    def renew(
        self, state: NDArray[Number], given: NDArray[Number], known: Bools
    ) -> tuple[NDArray[Number], NDArray[Number]]:
        """Each one's state before and after the turn, [turns] each, which `given` replaces where it
        is `known`; moves `state` [everybody] on."""
        before, known = state[self._who], known[self._order]
        renewed = np.where(known, given[self._order], before)
        place = np.where(known | self._first, np.arange(len(known)), 0)
        after = renewed[np.maximum.accumulate(place)]
        before[1:] = np.where(self._first[1:], before[1:], after[:-1])
        state[self._who] = after
        return self._in_time(before), self._in_time(after)

    def _in_time(self, values: NDArray[Number]) -> NDArray[Number]:
        found = np.empty_like(values)
        found[self._order] = values
        return found
