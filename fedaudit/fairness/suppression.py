"""Which groups may be shown: small cells are hidden, and what would give them away with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from fedaudit.arrays import Bools, Ints


@dataclass(frozen=True)
class IntersectionTable:
    """Cells in the order of the parts' groups, the last part's changing fastest."""

    sizes: tuple[int, ...]
    """Groups of each part."""
    margins: tuple[tuple[int, ...], ...]
    """Places of parts, ascending, whose own groups are measured too: their totals are published."""

    def lines(self, margin: tuple[int, ...]) -> Ints:
        """The cells that add up to each total of a margin: [totals, cells]."""
        cells = np.arange(prod(self.sizes)).reshape(self.sizes)
        totals = prod(self.sizes[place] for place in margin)
        return np.moveaxis(cells, margin, range(len(margin))).reshape(totals, -1)

    def of_margin(self, margin: tuple[int, ...]) -> "IntersectionTable":
        """The table of the totals of a margin."""
        place = {part: position for position, part in enumerate(margin)}
        return IntersectionTable(
            tuple(self.sizes[part] for part in margin),
            tuple(
                tuple(place[part] for part in other)
                for other in self.margins
                if set(other) < set(margin)
            ),
        )


def combination_of(
    attribute: str, combinations: Mapping[str, Sequence[str]], groups: Mapping[str, Sequence[str]]
) -> IntersectionTable | None:
    """The combination that an attribute is; None if it combines no others. `combinations`:
    the parts of each intersection; `groups`: the groups of every attribute measured."""
    parts = combinations.get(attribute)
    if parts is None:
        return None
    others = [(name,) for name in parts] + [
        other for other in combinations.values() if set(other) < set(parts)
    ]
    return IntersectionTable(
        sizes=tuple(len(groups[name]) for name in parts),
        margins=tuple(tuple(sorted(parts.index(name) for name in other)) for other in others),
    )


_BEYOND = np.iinfo(np.int64).max


def shown_groups(
    rows: Ints, *, minimum_group_size: int, combination: IntersectionTable | None = None
) -> Bools:
    """Which groups may be shown, [..., groups], from their scored rows.

    A group with fewer than `minimum_group_size` rows is hidden. Where exactly one group that has
    rows is hidden, or those hidden have fewer rows together, the smallest of the others is hidden
    too: otherwise the total less what is shown would give them away (complementary suppression).
    A group without rows is not shown, and hides nothing.

    Groups of a `combination` add up to the groups of the attributes that it combines as well, so
    that holds within each of these too, and what belongs to one that is hidden is hidden. Several
    totals taken together are not looked at.
    """
    large = rows >= max(1, minimum_group_size)
    if combination is not None and not large.all():
        for margin in combination.margins:
            lines = combination.lines(margin)
            totals = shown_groups(
                rows[..., lines].sum(axis=-1),
                minimum_group_size=minimum_group_size,
                combination=combination.of_margin(margin),
            )
            large[..., lines] &= totals[..., np.newaxis]
    return with_complementary_suppression(
        large, rows, minimum_group_size=minimum_group_size, combination=combination
    )


def with_complementary_suppression(
    shown: Bools,
    rows: Ints,
    *,
    minimum_group_size: int,
    combination: IntersectionTable | None = None,
) -> Bools:
    """Hide a shown group too where one group is hidden within a total, or few rows together: fewer
    than `minimum_group_size`. The totals are all groups, and those of the margins of a
    `combination`. One group is hidden at a time: the one that helps most totals, and the smallest
    of several. Changes `shown` [..., groups] in place and returns it."""
    totals = [np.arange(rows.shape[-1])[np.newaxis]]
    if combination is not None:
        totals += [combination.lines(margin) for margin in combination.margins]
    while True:
        helps = np.zeros(rows.shape, dtype=np.int64)
        for places in totals:
            alone = _recoverable_from_totals(
                shown[..., places], rows[..., places], minimum_group_size
            )
            helps[..., places] += alone[..., np.newaxis]
        helps[~shown] = 0
        most = helps.max(axis=-1, keepdims=True, initial=0)
        if not most.any():
            return shown
        best = np.where(helps == most, rows, _BEYOND).argmin(axis=-1)[..., np.newaxis]
        kept = np.take_along_axis(shown, best, axis=-1) & (most == 0)
        np.put_along_axis(shown, best, kept, axis=-1)


def _recoverable_from_totals(shown: Bools, rows: Ints, minimum_group_size: int) -> Bools:
    """Where groups [..., groups] are hidden that a total less the others would reveal: [...]."""
    hidden = np.where(shown, 0, rows)
    few = hidden.sum(axis=-1) < minimum_group_size
    count = np.count_nonzero(hidden, axis=-1)
    stated: Bools = (count == 1) | (few & (count > 0))
    return stated
