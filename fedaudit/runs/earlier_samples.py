"""Which groups of a round's sample lie so near those of an earlier round that both give few away.

Models of two rounds mostly decide alike once training has settled. Then the figures of a group in
two rounds differ by the rows that only one of the two samples has, and few of these are people.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule

_TOGETHER = 4096
"""Earlier rounds that are compared at a time, which bounds the memory."""


class EarlierSamples:
    """The samples of a run's validated rounds, drawn anew from the seed wherever a run goes on."""

    def __init__(
        self,
        draw: Callable[[Sequence[int]], NDArray[np.bool_]],
        rows: Mapping[str, NDArray[np.int64]],
        *,
        every: int,
    ) -> None:
        """`draw`: who is drawn in some rounds, [rounds, clients]; `rows` by attribute: of each
        client in each group, [clients, groups]; `every`: of so many rounds one is validated."""
        self._draw, self._rows, self._every = draw, rows, every
        clients = len(next(iter(rows.values())))
        self._sets = np.zeros((0, clients), dtype=np.bool_)

    def near(
        self, attribute: str, rule: DisclosureRule, rounds: Sequence[int], wanted: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether a group lies too near that of an earlier round: [rounds, groups].

        Too near: other rows, but fewer than the rule's minimum, or of fewer clients. Every earlier
        round counts in which the group is large enough, also where it was not shown in the end, so
        that the answer is the same wherever a run went on. `wanted`: the groups asked about.
        """
        numbers = self._until(max(rounds))
        drawn, found = self._draw(rounds), np.zeros_like(wanted)
        for begin in range(0, len(numbers), _TOGETHER):
            part = slice(begin, begin + _TOGETHER)
            before = numbers[part] < np.array(rounds)[:, np.newaxis]
            if not before.any():
                break
            sets = self._sets[: len(numbers)][part]
            for group in np.flatnonzero(wanted.any(axis=0)).tolist():
                rows = self._rows[attribute][:, group].astype(np.float64)
                found[:, group] |= (_near(drawn, sets, rows, rule) & before).any(axis=1)
        return found & wanted

    def _until(self, last: int) -> NDArray[np.int64]:
        """The numbers of the validated rounds up to one; their sets are there afterwards."""
        numbers = np.arange(self._every, last + 1, self._every)
        if missing := numbers[len(self._sets) :].tolist():
            self._sets = np.concatenate([self._sets, self._draw(missing)])
        return numbers


def _near(
    drawn: NDArray[np.bool_],
    earlier: NDArray[np.bool_],
    rows: NDArray[np.float64],
    rule: DisclosureRule,
) -> NDArray[np.bool_]:
    """Of all pairs [drawn, earlier], whether they are near and the earlier one is large enough."""
    mine = np.flatnonzero(rows)
    ours, those = (one[:, mine].astype(np.float64) for one in (drawn, earlier))
    rows, clients = rows[mine], np.ones(len(mine))
    large = those @ rows >= rule.minimum_group_size
    large &= those.sum(axis=1) >= rule.minimum_group_clients
    apart = _apart(ours, those, rows)
    few = apart < rule.minimum_group_size
    few |= _apart(ours, those, clients) < rule.minimum_group_clients
    near: NDArray[np.bool_] = few & (apart > 0) & large
    return near


def _apart(
    one: NDArray[np.float64], other: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weight of what only one of two sets has, of all pairs; exact, as all are integers."""
    alone, others = one @ weights, other @ weights
    return alone[:, np.newaxis] + others - 2 * (one * weights) @ other.T
