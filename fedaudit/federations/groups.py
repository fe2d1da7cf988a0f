"""Sensitive attributes of rows, and their intersections."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Attribute, Federation
from fedaudit.federations.levels import Levels
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.spec.errors import pointer

MAX_GROUPS = 1000


def read_sensitive(
    rows: TableRows,
    names: Sequence[str],
    columns: Mapping[str, str] | None = None,
    *,
    edges: Mapping[str, Sequence[float]] | None = None,
) -> tuple[dict[str, Levels], tuple[str, ...]]:
    """Each attribute's groups, and a note for each that is missing in some rows.

    `columns` gives the column of an attribute whose name differs, `edges` where numeric attributes
    are cut into groups. Raises InvalidInputError at /fairness/sensitive/i or /fairness/edges/name.
    """
    attributes: dict[str, Levels] = {}
    notes: list[str] = []
    for place, name in enumerate(names):
        where = pointer("fairness", "sensitive", place)
        column = (columns or {}).get(name, name)
        if edges is not None and name in edges:
            at_edges = pointer("fairness", "edges", name)
            numbers = rows.numbers(column, at_edges, missing_allowed=True)
            levels = between_edges(numbers, edges[name])
        else:
            levels = rows.levels(column, where, numeric=True)
        notes += checked_groups(name, levels, where)
        attributes[name] = levels
    return attributes, tuple(notes)


def checked_groups(name: str, levels: Levels, where: str) -> list[str]:
    """A note on the rows without a group, where there are some.

    Raises InvalidInputError at `where` where no row has a group, or groups are too many.
    """
    if levels.missing == len(levels.codes):
        raise error_at(where, f"{name!r} is empty in every row; name another column")
    groups = len(levels.values)
    if groups > MAX_GROUPS:
        raise error_at(
            where,
            f"{name!r} has {groups} distinct values, and {MAX_GROUPS} groups are allowed; "
            "bring them into fewer groups, numbers by `edges`",
        )
    if not levels.missing:
        return []
    return [f"rows without a value of {name!r}, in no group: {levels.missing}"]


def group_names(edges: Sequence[float]) -> tuple[str, ...]:
    """The names of the groups between ascending edges: `<40`, `40 to <60`, `>=60`."""
    # The shortest text of each: 40 for 40.0, 0.5, 1e+20.
    texts = [repr(float(edge) + 0.0).removesuffix(".0") for edge in edges]
    between = [f"{low} to <{high}" for low, high in pairwise(texts)]
    return (f"<{texts[0]}", *between, f">={texts[-1]}")


def between_edges(numbers: NDArray[np.float64], edges: Sequence[float]) -> Levels:
    """Numbers [rows] cut at edges, NaN in no group; groups without rows are included, since they
    are declared."""
    codes = np.searchsorted(np.array(edges), numbers, side="right")
    groups = np.where(np.isnan(numbers), -1, codes).astype(np.int64)
    return Levels(group_names(edges), groups, numbers)


_BETWEEN = ", "


def with_intersections(
    federation: Federation, combinations: Mapping[str, Sequence[str]]
) -> Federation:
    """The federation with one more attribute for each of the combinations, in their order.

    `combinations`: the name of each and the attributes that it combines. A row that lacks a value
    of one of them belongs to no combination; a note counts such rows. Raises InvalidInputError at
    /fairness/intersections/i where there would be too many groups.
    """
    if not combinations:
        return federation
    added, notes = [], []
    for place, (name, parts) in enumerate(combinations.items()):
        where = pointer("fairness", "intersections", place)
        added.append(_combined(name, [federation.attribute(part) for part in parts], where))
        missing = int(np.count_nonzero(added[-1].codes < 0))
        if missing:
            notes.append(f"rows without a value of {name!r}, in no group: {missing}")
    return replace(
        federation, attributes=(*federation.attributes, *added), notes=(*federation.notes, *notes)
    )


def _combined(name: str, parts: Sequence[Attribute], where: str) -> Attribute:
    """Groups in the order of the parts' values; the last part changes fastest."""
    sizes = [len(part.values) for part in parts]
    if prod(sizes) > MAX_GROUPS:
        raise error_at(
            where,
            f"{' x '.join(map(str, sizes))} combinations are {prod(sizes)} groups, and "
            f"{MAX_GROUPS} are allowed; combine fewer attributes, or bring them into fewer groups",
        )
    values = tuple(_BETWEEN.join(one) for one in product(*(part.values for part in parts)))
    if len(set(values)) < len(values):
        raise error_at(
            where,
            "two combinations would have the same name, since values contain commas; rename the "
            "values",
        )
    codes = np.zeros(parts[0].codes.shape, dtype=np.int64)
    missing = np.zeros(codes.shape, dtype=np.bool_)
    for part in parts:
        codes = codes * len(part.values) + part.codes
        missing |= part.codes < 0
    return Attribute(name, values, np.where(missing, -1, codes).astype(np.int16))
