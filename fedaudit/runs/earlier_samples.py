"""Which groups of a round's sample lie so near those of an earlier round that both give few away.

Models of two rounds mostly decide alike once training has settled. Then the figures of a group in
two rounds differ by the rows that only one of the two samples has, and few of these are people.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import DisclosureRule
from fedaudit.native.library import NearRounds

_TOGETHER = 4096
"""Earlier rounds that are compared at a time, which bounds the memory."""
_EXACT = 1 << 24
"""Integers below are exact in single precision."""


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
        self._draw, self._every = draw, every
        clients = len(next(iter(rows.values())))
        self._sets = np.zeros((clients, 0), dtype=np.bool_)
        """Who is drawn, [clients, rounds]: the rounds of a few clients are asked for."""
        self._known = 0
        self._members = {
            (name, group): (members, of_groups[members, group])
            for name, of_groups in rows.items()
            for group in range(of_groups.shape[1])
            for members in [np.flatnonzero(of_groups[:, group])]
        }
        """Of each group: its clients, and how many rows they have."""

    def near(
        self, attribute: str, rule: DisclosureRule, rounds: Sequence[int], wanted: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Whether a group lies too near that of an earlier round: [rounds, groups].

        Too near: other rows, but fewer than the rule's minimum, or of fewer clients. Every earlier
        round counts in which the group is large enough, also where it was not shown in the end, so
        that the answer is the same wherever a run went on. `wanted`: the groups asked about.
        """
        before = np.searchsorted(self._until(max(rounds)), rounds)
        drawn, found = self._draw(rounds), np.zeros_like(wanted)
        compared = NearRounds(drawn, self._sets, before)
        for group in np.flatnonzero(wanted.any(axis=0)).tolist():
            members, rows = self._members[attribute, group]
            asked = np.flatnonzero(wanted[:, group])
            near = compared.of_group(
                asked,
                members=members,
                rows=rows,
                least_rows=rule.minimum_group_size,
                least_clients=rule.minimum_group_clients,
            )
            if near is None:
                ours, those = drawn[asked[:, np.newaxis], members], self._sets[members]
                near = _any_near(ours, those, before[asked], rows, rule)
            found[asked, group] = near
        return found

    def _until(self, last: int) -> NDArray[np.int64]:
        """The numbers of the validated rounds up to one; their sets are there afterwards."""
        numbers = np.arange(self._every, last + 1, self._every)
        missing = numbers[self._known :]
        if len(missing):
            if len(numbers) > self._sets.shape[1]:
                grown = np.zeros((len(self._sets), 2 * len(numbers)), dtype=np.bool_)
                grown[:, : self._known] = self._sets[:, : self._known]
                self._sets = grown
            self._sets[:, self._known : len(numbers)] = self._draw(missing.tolist()).T
            self._known = len(numbers)
        return numbers


def _any_near(
    drawn: NDArray[np.bool_],
    earlier: NDArray[np.bool_],
    before: NDArray[np.int64],
    rows: NDArray[np.int64],
    rule: DisclosureRule,
) -> NDArray[np.bool_]:
    """Whether any of the first `before` [drawn] earlier ones is near, as `_near`: [drawn]."""
    found = np.zeros(len(drawn), dtype=np.bool_)
    for begin in range(0, int(before.max(initial=0)), _TOGETHER):
        part = earlier[:, begin : begin + _TOGETHER]
        is_earlier = begin + np.arange(part.shape[1]) < before[:, np.newaxis]
        found |= (_near(drawn, part, rows, rule) & is_earlier).any(axis=1)
    return found


def _near(
    drawn: NDArray[np.bool_],
    earlier: NDArray[np.bool_],
    rows: NDArray[np.int64],
    rule: DisclosureRule,
) -> NDArray[np.bool_]:
    """Of all pairs [drawn, earlier], whether they are near and the earlier one is large enough.

    `drawn` [drawn, clients] and `earlier` [clients, earlier] are of the clients that have `rows`.
    """
    # Sums of integers are exact either way, and the narrow numbers take half the time.
    exact: Any = np.float32 if 2 * rows.sum() < _EXACT else np.float64
    ours, those, weights = drawn.astype(exact), earlier.astype(exact), rows.astype(exact)
    large = weights @ those >= rule.minimum_group_size
    large &= those.sum(axis=0) >= rule.minimum_group_clients
    apart = _apart(ours, those, weights)
    near: NDArray[np.bool_] = apart < rule.minimum_group_size
    if (rule.minimum_group_clients - 1) * rows.max() >= rule.minimum_group_size:
        # Otherwise so few clients have few rows in any case.
        near |= _apart(ours, those, np.ones_like(weights)) < rule.minimum_group_clients
    near &= apart > 0
    near &= large
    return near


def _apart(one: NDArray[Any], other: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """The weight of what only one of two sets has, of all pairs; one product, so that the pairs
    are gone through once: what either has, less twice what both have."""
    ours = np.column_stack([-2 * one * weights, one @ weights, np.ones_like(one[:, 0])])
    those = np.vstack([other, np.ones_like(other[:1]), weights @ other])
    apart: NDArray[Any] = ours @ those
    return apart
