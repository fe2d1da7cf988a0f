"""How the groups of an intersection lie: as the cells of a table of its parts' groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class IntersectionTable:
    """Cells in the order of the parts' groups, the last part's changing fastest."""

    sizes: tuple[int, ...]
    """Groups of each part."""
    margins: tuple[tuple[int, ...], ...]
    """Places of parts, ascending, whose own groups are measured too: their totals are published."""

    def lines(self, margin: tuple[int, ...]) -> NDArray[np.int64]:
        """The cells that add up to each total of a margin: [totals, cells]."""
        cells = np.arange(prod(self.sizes)).reshape(self.sizes)
        totals = prod(self.sizes[place] for place in margin)
        return np.moveaxis(cells, margin, range(len(margin))).reshape(totals, -1)

    @property
    def published_cells(self) -> list[NDArray[np.int64]]:
        """The cells of every total that is published: of all together, and of each margin."""
        return [self.lines(margin) for margin in ((), *self.margins)]

    def of_margin(self, margin: tuple[int, ...]) -> "IntersectionTable":
        """How the totals of a margin lie themselves."""
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
    attribute: str,
    combinations: Mapping[str, Sequence[str]],
    groups: Mapping[str, Sequence[str]],
) -> IntersectionTable | None:
    """The combination that an attribute is; None for one that combines no others.

    `combinations`: the parts of each intersection; `groups`: those of every attribute measured.
    """
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
