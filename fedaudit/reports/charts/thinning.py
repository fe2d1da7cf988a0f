"""Reduce long series to fewer points, while keeping extremes and gaps."""

import itertools
from collections.abc import Sequence

import numpy as np

Values = Sequence[float | None]


def kept_places(columns: Sequence[Values], *, most: int) -> list[int]:
    """The indices of the points to draw, ascending: at most `most`, or 2 + 2 for each column.

    The columns are cut into equal stretches. The indices of the smallest and largest value of every
    column in each stretch are kept, and so are the first and the last index.
    """
    if not columns or not len(columns[0]):
        return []
    count = len(columns[0])
    if count <= most:
        return list(range(count))
    stretches = max(1, (most - 2) // (2 * len(columns)))
    edges = np.linspace(0, count, stretches + 1).astype(int).tolist()
    kept = {0, count - 1}
    for column in columns:
        values = np.array(column, dtype=np.float64)
        present = ~np.isnan(values)
        for first, end in itertools.pairwise(edges):
            if present[first:end].any():
                kept.add(first + int(np.nanargmin(values[first:end])))
                kept.add(first + int(np.nanargmax(values[first:end])))
    return sorted(kept)


def segments(rounds: Sequence[int], values: Values, kept: Sequence[int]) -> list[list[int]]:
    """The kept indices that have a value, in stretches that are each drawn as one line.

    A line breaks where a value is missing, which shows in neighbours that lie further apart than is
    usual for this series: it may have been validated only in every tenth round.
    """
    present = [place for place, value in enumerate(values) if value is not None]
    if not present:
        return []
    steps = np.diff([rounds[place] for place in present])
    breaks = steps > (np.median(steps) if len(steps) else 0)
    part = dict(zip(present, np.concatenate([[0], np.cumsum(breaks)]).tolist(), strict=True))
    found: list[list[int]] = []
    last = None
    for place in kept:
        if place not in part:
            continue
        if part[place] != last:
            found.append([])
            last = part[place]
        found[-1].append(place)
    return found
