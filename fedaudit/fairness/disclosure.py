"""Decides which groups are disclosed, once for each attribute and population.

A *population* is the rows whose sizes decide: held-out rows, training rows, or records by budget.
What a report or a profile states about groups is made from the `Disclosure` of its own population,
and cannot be read for another one. This is the only module that reads a spec's `minimum_group_size`
and `reference_group` in order to act on them, and the only one that uses the rules of
`suppression`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedaudit.arrays import Bools, Ints
from fedaudit.fairness.suppression import (
    IntersectionTable,
    combination_of,
    shown_groups,
    with_complementary_suppression,
)
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.fairness import Groups

TRAINED = "trained, not scored"
_LEFT_OUT_WHOLE = "not scored: it trained, or all of its rows are left out of every figure"
LEFT_OUT = "too few scored rows, or hidden to protect a smaller group"
_LEFT_OUT_CLIENTS = "trained and not scored, or too few scored rows"
USUAL = (LEFT_OUT, _LEFT_OUT_CLIENTS)
"""Why groups are left out where nothing else is said."""
TOO_FEW = "too few people are scored for a figure of all of them"
PROTECTS = "hidden to protect a smaller group"


@dataclass(frozen=True)
class DisclosureRule:
    """The rule by which groups of one attribute are disclosed, in any population."""

    minimum_group_size: int
    minimum_group_clients: int = 1
    """How many clients a group's rows must come from, where a population's clients are known."""
    reference: int | None = None
    """The place of the reference group; None where all groups are compared with each other."""
    combination: IntersectionTable | None = None
    """The table of the groups of an intersection; None for an attribute that combines no others."""
    of_clients: bool = False
    """Whether the groups are clients: who trains and who is held out is then no secret."""
    leaves_out: bool = False
    """Whether rows are left out of every figure, all of a client's perhaps."""
    has_favourable_outcome: bool = True
    """Otherwise nothing was counted, and no rate can be shown of any group."""

    def decide(
        self,
        rows: Ints,
        *,
        of: str = "scored rows",
        clients: Ints | None = None,
        allowed: Bools | None = None,
    ) -> "Disclosure":
        """Which groups are disclosed, from the sizes of each population: [..., groups].

        `of` says what the sizes count. `clients` [..., groups]: how many clients these belong to;
        None where that is not known, or not of the same population. `allowed` [..., groups]: those
        that nothing else speaks against; None for all. The rules are those of
        `suppression.shown_groups`, for this attribute alone; attributes that are reported beside
        each other are decided by `joint_disclosure`. Raises ValueError where the reference group is
        not one of the groups.
        """
        if self.reference is not None and not 0 <= self.reference < rows.shape[-1]:
            raise ValueError(
                f"reference {self.reference} is no group; give a place below {rows.shape[-1]}"
            )
        shown = shown_groups(
            rows, minimum_group_size=self.minimum_group_size, combination=self.combination
        )
        too_few, large = self.few(of), rows >= max(1, self.minimum_group_size)
        enough = np.ones_like(shown) if allowed is None else allowed
        if clients is not None and self.minimum_group_clients > 1:
            too_few = f"{too_few} or {self.minimum_group_clients} clients"
            enough = enough & (clients >= self.minimum_group_clients)
        large = large & enough
        if (shown & ~enough).any():
            shown = with_complementary_suppression(
                shown & enough,
                rows,
                minimum_group_size=self.minimum_group_size,
                combination=self.combination,
            )
        return Disclosure(self, rows, shown, too_few=too_few, large=large)

    def is_large(self, size: int) -> bool:
        """Whether a group of so many rows or records is large enough to be disclosed."""
        return size >= self.minimum_group_size

    def is_small(self, size: int) -> bool:
        """Whether there are some rows or records, and too few to be disclosed."""
        return size > 0 and not self.is_large(size)

    def few(self, of: str) -> str:
        """Such as `fewer than 30 scored rows`."""
        return f"fewer than {self.minimum_group_size} {of}"


@dataclass(frozen=True, eq=False)
class Disclosure:
    """Which groups of a population are disclosed, and why the others are not."""

    rule: DisclosureRule
    rows: Ints
    """[..., groups]: the sizes by which it was decided."""
    shown: Bools
    """[..., groups]"""
    too_few: str
    """What a suppressed group has too few of."""
    why: str | None = None
    """Why groups are suppressed for another reason; None for the usual ones."""
    large: Bools | None = None
    """[..., groups]: groups that are shown, or are hidden only because others would follow from
    them; None where that is unknown."""

    @property
    def reference(self) -> int | None:
        """The place of the reference group, if there is one."""
        return self.rule.reference

    @property
    def because(self) -> str:
        """Why a figure leaves groups out."""
        return self.why or (_LEFT_OUT_CLIENTS if self.rule.of_clients else LEFT_OUT)

    def reason(self, place: int) -> str:
        """Why the group at a place, which is not shown, is suppressed; of one population."""
        if self.why is not None:
            return self.why
        if self.rule.of_clients and not self.rows[place]:
            return _LEFT_OUT_WHOLE if self.rule.leaves_out else TRAINED
        if self.large is None or not self.large[place]:
            return f"suppressed: {self.too_few}"
        return f"{PROTECTS}, of {self.too_few}, which would follow from it"

    @property
    def suppresses(self) -> bool:
        """Whether a group that has rows is not shown."""
        return bool((~self.shown & (self.rows > 0)).any())

    def repeated(self, times: int) -> "Disclosure":
        """The same for that many populations of the same rows: [times, groups]."""
        shape = times, *self.rows.shape
        return replace(
            self,
            rows=np.broadcast_to(self.rows, shape),
            shown=np.broadcast_to(self.shown, shape),
            large=None,
        )

    def check(self, rows: Ints) -> None:
        """Check that figures of groups with these row counts [..., groups] come from this
        population. Raises ValueError where they do not: a group that one population discloses may
        be suppressed in another."""
        if rows.shape != self.rows.shape or not np.array_equal(rows, self.rows):
            raise ValueError(
                f"groups of sizes {rows.shape} are not those whose disclosure was decided, "
                f"{self.rows.shape}; decide it from their own rows"
            )


def size_rule(groups: Groups) -> DisclosureRule:
    """The rule for groups that are not compared, and of which no attribute combines others."""
    return DisclosureRule(groups.minimum_group_size)


def everybody_rule(groups: Groups) -> DisclosureRule:
    """The rule for everybody who is scored, as one group."""
    return DisclosureRule(
        groups.minimum_group_size, minimum_group_clients=groups.minimum_group_clients
    )


def why_too_few(groups: Groups, clients: Ints) -> str | None:
    """Why there may be no figure of rows, given by the client of each [rows]; None where it may."""
    of = np.array([len(np.unique(clients))])
    decided = everybody_rule(groups).decide(np.array([len(clients)]), clients=of)
    return None if decided.shown.all() else f"{TOO_FEW}: {decided.too_few}"


def attribute_rule(
    spec: ExperimentSpec, attribute: str, groups: Mapping[str, Sequence[str]]
) -> DisclosureRule:
    """The rule for one attribute of an experiment. `groups`: the groups of every attribute
    measured. A reference group belongs to one attribute; the groups of other attributes are
    compared with each other."""
    fairness, values = spec.fairness, list(groups[attribute])
    group = fairness.reference_group
    return DisclosureRule(
        fairness.minimum_group_size,
        minimum_group_clients=fairness.minimum_group_clients,
        reference=values.index(group) if group in values else None,
        combination=combination_of(attribute, fairness.combinations, groups),
        of_clients=attribute == spec.federation.traits.client_key,
        leaves_out=bool(fairness.exclude),
        has_favourable_outcome=spec.declares_outcome,
    )
