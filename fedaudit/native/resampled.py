"""Clients exchanged between groups, and rounds that drew the same ones, by the compiled kernels.

Each answers None without kernels.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.native.library import kernels, line, place_of

_NARROW = 2**31


def regroup(group: NDArray[np.int64], own: NDArray[Any], groups: int) -> NDArray[np.float64] | None:
    """Sums [rows, groups, kinds] of what clients add, [clients, kinds], to the group of each
    [rows, clients]."""
    library = kernels()
    if library is None:
        return None
    places, added = line(group, np.int64), line(own, np.float64)
    found = np.zeros((len(places), groups, added.shape[1]))
    library.fedaudit_regroup(
        place_of(places), *places.shape, place_of(added), added.shape[1], groups, place_of(found)
    )
    return found


class NearRounds:
    """Which rounds drew nearly the same of a group as an earlier one, group by group."""

    def __init__(
        self, drawn: NDArray[np.bool_], earlier: NDArray[np.bool_], before: NDArray[np.int64]
    ) -> None:
        """`drawn` [rounds, clients]; `earlier` [clients, rounds], of which the first `before`
        [rounds] are earlier than each of the rounds drawn."""
        self._drawn, self._earlier = line(drawn, np.bool_), line(earlier, np.bool_)
        self._before = line(before, np.int64)
        self._room = np.empty((4, int(before.max(initial=0))), dtype=np.int32)

    def of_group(
        self,
        asked: NDArray[np.int64],
        *,
        members: NDArray[np.int64],
        rows: NDArray[np.int64],
        least_rows: int,
        least_clients: int,
    ) -> NDArray[np.bool_] | None:
        """Whether each of the `asked` rounds is one: [asked].

        The group's `members` have `rows` each. Samples that differ in so many rows and clients are
        not near, and those that have so many are large. None also where its rows are so many that
        narrow numbers do not hold them.
        """
        library = kernels()
        if library is None or max(2 * int(rows.sum()), least_rows, least_clients) >= _NARROW:
            return None
        near = np.ones(len(self._drawn), dtype=np.bool_)
        near[asked] = False
        weights = rows.astype(np.int32)
        library.fedaudit_near(
            place_of(self._drawn),
            *self._drawn.shape,
            place_of(self._earlier),
            self._earlier.shape[1],
            place_of(self._before),
            self._room.shape[1],
            place_of(members),
            place_of(weights),
            len(members),
            least_rows,
            least_clients,
            place_of(self._room),
            place_of(near),
        )
        found: NDArray[np.bool_] = near[asked]
        return found
