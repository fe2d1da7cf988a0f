"""Which groups are disclosed in rounds that score a sample of the held-out clients.

Every such round has its own population. Who is drawn follows from the experiment's seed, so
its groups are decided from the rows of those drawn, and a group is shown in no round that leaves
out so little of it that the round's counts and the report's would give the few away, nor in one
whose sample of it differs so little from an earlier round's: models of two rounds mostly decide
alike once training has settled, and the figures of a group then differ by the rows that only one of
the two samples has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Ints
from fedaudit.fairness.disclosure import Disclosure, DisclosureRule, everybody_rule
from fedaudit.fairness.joint_disclosure import Population, decide_together
from fedaudit.native.library import near_samples
from fedaudit.randomness import CounterSource, Purpose, sample_without_replacement
from fedaudit.runs.held_out_groups import held_out_groups
from fedaudit.training.base.cell import Cell

_EVERYBODY = ""
"""No attribute has this name."""
_CLIENTS_PER_ROUND = 10
"""Everybody's figures are shown in one round for so many held-out clients, spread over the run: as
many samples as there are clients are equations whose solution is each client's own figures."""
_SAMPLED = (
    "the round scores a sample of the held-out clients, and beside other rounds or the report its "
    "figure could give those of few clients; leave training.stopping.validation_clients out"
)
_TOGETHER = 4096
"""Earlier rounds that are compared at a time, which bounds the memory."""
_EXACT = 1 << 24
"""Integers below are exact in single precision."""


def _any_near(
    drawn: Bools, earlier: Bools, before: Ints, rows: Ints, rule: DisclosureRule
) -> Bools:
    """Compute `near_samples` of the clients that have `rows`, `drawn` [drawn, clients] and
    `earlier` [clients, rounds] being of them alone."""
    found = np.zeros(len(drawn), dtype=np.bool_)
    # Sums of integers are exact either way, and the narrow numbers take half the time.
    exact: Any = np.float32 if 2 * rows.sum() < _EXACT else np.float64
    ours, weights, each = drawn.astype(exact), rows.astype(exact), np.ones(len(rows), exact)
    for begin in range(0, int(before.max(initial=0)), _TOGETHER):
        those = earlier[:, begin : begin + _TOGETHER].astype(exact)
        # Of rows and of clients, what either of two samples has, less twice what both have.
        of_rows, of_clients = (
            (ours @ one)[:, np.newaxis] + one @ those - 2 * (ours * one) @ those
            for one in (weights, each)
        )
        few = of_rows < rule.minimum_group_size
        few |= of_clients < rule.minimum_group_clients
        large = weights @ those >= rule.minimum_group_size
        large &= each @ those >= rule.minimum_group_clients
        is_earlier = begin + np.arange(those.shape[1]) < before[:, np.newaxis]
        found |= (few & (of_rows > 0) & large & is_earlier).any(axis=1)
    return found


class SampledRounds:
    """The disclosures of rounds of one run."""

    def __init__(self, cell: Cell, whole: Mapping[str, Disclosure], *, size: int) -> None:
        """`whole`: what the report discloses, of all held-out clients; `size`: how many of them
        each round draws."""
        self._population, self._whole = held_out_groups(cell), whole
        self._clients = cell.validation_rows.clients
        self._source, self._size = CounterSource(cell.spec.seed), size
        place = np.searchsorted(self._clients, self._population.clients)
        held_out = cell.validation_rows
        self._rule = everybody_rule(cell.spec.fairness)
        self._rows: dict[str, Ints] = {_EVERYBODY: held_out.scored_by_client[:, np.newaxis]}
        """How many rows of each group each client has: [clients, groups]."""
        for name, codes in self._population.codes.items():
            known, groups = codes >= 0, self._population.groups[name]
            slots = np.bincount(
                place[known] * groups + codes[known], minlength=len(self._clients) * groups
            )
            self._rows[name] = slots.reshape(-1, groups)
        # Sums of integers are exact.
        self._number: Any = np.float32 if len(held_out.scored) < _EXACT else np.float64
        self._newest: tuple[tuple[int, ...], Ints, Bools] | None = None
        self._all_rows = np.bincount(place, minlength=len(self._clients))
        self._every = cell.spec.training.stopping.validate_every
        validated = cell.spec.training.rounds // self._every
        most = len(self._clients) // _CLIENTS_PER_ROUND
        self._apart = -(-validated // most) * self._every if most else 0
        """Everybody's figures may be shown in rounds that it divides; 0 for none."""
        self._validated = np.zeros((len(self._clients), 0), dtype=np.bool_)
        """Who was drawn in the first so many validated rounds, [clients, rounds]: drawn anew
        wherever a run goes on. The rounds of a few clients are asked for."""

    def drawn(self, rounds: Sequence[int]) -> tuple[Ints, Bools]:
        """The places of the clients that each round draws [rounds, size], and whether each client
        is drawn [rounds, clients]. The newest are kept: they are asked for several times."""
        asked = tuple(rounds)
        if self._newest is None or asked != self._newest[0]:
            found = sample_without_replacement(
                self._source,
                purpose=Purpose.VALIDATION,
                round_=np.array(rounds),
                population=len(self._clients),
                count=self._size,
            )
            sets = np.zeros((len(asked), len(self._clients)), dtype=np.bool_)
            np.put_along_axis(sets, found, values=True, axis=1)
            self._newest = asked, found, sets
        return self._newest[1:]

    def everybody_withheld(self, rounds: Sequence[int]) -> dict[int, str]:
        """The rounds that may show no figure of everybody they score, and why."""
        own, shown = self._rows[_EVERYBODY], set[int]()
        if asked := [one for one in rounds if self._apart and one % self._apart == 0]:
            whole = self._rule.decide(own.sum(axis=0), clients=(own > 0).sum(axis=0))
            sets = self.drawn(rounds)[1][np.isin(rounds, asked)]
            decided, _ = self._decided(_EVERYBODY, whole, asked, sets)
            shown = set(np.array(asked)[decided.shown[:, 0]].tolist())
        return {one: _SAMPLED for one in rounds if one not in shown}

    def _decided(
        self, name: str, whole: Disclosure, rounds: Sequence[int], sets: Bools
    ) -> tuple[Disclosure, Ints]:
        """One attribute's groups of each round, by themselves, and how many clients each has."""
        own, rule = self._rows[name], whole.rule
        weights = np.hstack([own, own > 0]).astype(self._number)
        rows, clients = np.hsplit((sets.astype(self._number) @ weights).astype(np.int64), 2)
        # Groups that the report shows, of which the round leaves out none or many.
        rest, without = whole.rows - rows, (own > 0).sum(axis=0) - clients
        few = (rest < rule.minimum_group_size) | (without < rule.minimum_group_clients)
        allowed = whole.shown & ~((rest > 0) & few)
        allowed &= ~self._near(name, rule, rounds, sets, allowed)
        return rule.decide(rows, clients=clients, allowed=allowed), clients

    def disclosures(self, rounds: Sequence[int]) -> dict[str, Disclosure]:
        """The disclosure of each round, keyed by attribute: [rounds, groups]."""
        drawn, sets = self.drawn(rounds)
        found: dict[str, Disclosure] = {}
        clients: dict[str, Ints] = {}
        for name, whole in self._whole.items():
            found[name], clients[name] = self._decided(name, whole, rounds, sets)
            if whole.why is not None:
                nothing = np.zeros_like(found[name].shown)
                found[name] = replace(found[name], shown=nothing, why=whole.why)
        looked_at = self._to_be_looked_at(found, clients, sets.astype(self._number))
        return self._together(found, drawn, looked_at)

    def _near(
        self, name: str, rule: DisclosureRule, rounds: Sequence[int], drawn: Bools, wanted: Bools
    ) -> Bools:
        """Whether a group is too near that of an earlier round: [rounds, groups].

        Too near: other rows, but fewer than the rule's minimum, or of fewer clients. Every earlier
        round counts in which the group is large enough, also where it was not shown in the end, so
        that the answer is the same wherever a run went on. `wanted`: the groups asked about.
        """
        before = np.searchsorted(self._validated_until(max(rounds)), rounds)
        found = np.zeros_like(wanted)
        for group in np.flatnonzero(wanted.any(axis=0)).tolist():
            asked, rows = np.flatnonzero(wanted[:, group]), self._rows[name][:, group]
            members, rows = np.flatnonzero(rows), rows[rows > 0]
            near = near_samples(
                drawn[asked],
                self._validated,
                before[asked],
                members=members,
                rows=rows,
                least_rows=rule.minimum_group_size,
                least_clients=rule.minimum_group_clients,
            )
            if near is None:
                ours, those = drawn[asked[:, np.newaxis], members], self._validated[members]
                near = _any_near(ours, those, before[asked], rows, rule)
            found[asked, group] = near
        return found

    def _validated_until(self, last: int) -> Ints:
        """The numbers of the validated rounds up to one; their sets are there afterwards."""
        numbers = np.arange(self._every, last + 1, self._every)
        missing = numbers[self._validated.shape[1] :]
        if len(missing):
            more = np.ascontiguousarray(self.drawn(missing.tolist())[1].T)
            self._validated = np.hstack([self._validated, more])
        return numbers

    def _together(
        self, found: Mapping[str, Disclosure], drawn: Ints, looked_at: Bools
    ) -> dict[str, Disclosure]:
        """Each round's groups of all attributes that show any, decided beside each other."""
        open_ = {name: one for name, one in found.items() if one.why is None}
        shown = {name: one.shown.copy() for name, one in found.items()}
        for place in np.flatnonzero(looked_at).tolist():
            chosen = np.isin(self._population.clients, self._clients[drawn[place]])
            people = Population(
                codes={name: codes[chosen] for name, codes in self._population.codes.items()},
                groups=self._population.groups,
                clients=self._population.clients[chosen],
            )
            decided = decide_together(
                {name: one.rule for name, one in open_.items()},
                people,
                beforehand={name: one.shown[place] for name, one in open_.items()},
            )
            for name, one in decided.items():
                shown[name][place] = one.shown
        return {name: replace(one, shown=shown[name]) for name, one in found.items()}

    def _to_be_looked_at(
        self, found: Mapping[str, Disclosure], clients: Mapping[str, Ints], sets: NDArray[Any]
    ) -> Bools:
        """The rounds in which something may follow that is not to be shown: [rounds].

        Groups of one attribute have no rows in common, so everybody less those that are shown is
        all that follows: what is hidden, as a whole. It is more than one group by the rule of the
        attribute, and here it has to be many rows of several clients. With several attributes any
        round is looked at.
        """
        open_ = [(name, one) for name, one in found.items() if one.why is None]
        if len(open_) != 1:
            return np.full(len(sets), bool(open_))
        [(name, one)] = open_
        hidden = ~one.shown & (one.rows > 0)
        of_clients = self._rows[name]
        # Rows without a value are in no group.
        without = self._all_rows - of_clients.sum(axis=1)
        rows = (one.rows * hidden).sum(axis=1) + sets @ without.astype(self._number)
        few: Bools = (rows > 0) & (rows < one.rule.minimum_group_size)
        several = (clients[name] * hidden).max(axis=1) >= one.rule.minimum_group_clients
        for place in np.flatnonzero((rows > 0) & ~few & ~several).tolist():
            drawn = sets[place] > 0
            own = of_clients[drawn][:, hidden[place]].sum(axis=1) + without[drawn]
            few[place] = np.count_nonzero(own) < one.rule.minimum_group_clients
        return few
