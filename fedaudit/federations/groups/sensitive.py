"""Sensitive attributes of the rows of a table."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedaudit.federations.errors import error_at, pointer
from fedaudit.federations.levels import Levels
from fedaudit.federations.reading.table_rows import TableRows

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
            levels = _between_edges(rows, column, edges[name], pointer("fairness", "edges", name))
        else:
            levels = rows.levels(column, where, numeric=True)
        if levels.missing == len(rows):
            raise error_at(where, f"{name!r} is empty in every row; name another column")
        groups = len(levels.values)
        if groups > MAX_GROUPS:
            raise error_at(
                where,
                f"{name!r} has {groups} distinct values, and {MAX_GROUPS} groups are allowed; "
                "bring them into fewer groups, numbers by `edges`",
            )
        if levels.missing:
            notes.append(f"rows without a value of {name!r}, in no group: {levels.missing}")
        attributes[name] = levels
    return attributes, tuple(notes)


def group_names(edges: Sequence[float]) -> tuple[str, ...]:
    """The names of the groups between ascending edges: `<40`, `40 to <60`, `>=60`."""
    texts = [_shortest(edge) for edge in edges]
    between = [f"{low} to <{high}" for low, high in pairwise(texts)]
    return (f"<{texts[0]}", *between, f">={texts[-1]}")


def _between_edges(rows: TableRows, column: str, edges: Sequence[float], where: str) -> Levels:
    """A numeric column cut at its edges; groups without rows are included, since they are declared.

    Raises InvalidInputError at `where` naming the first cell that is neither empty nor a number.
    """
    numbers = rows.numbers(column, where, missing_allowed=True)
    codes = np.searchsorted(np.array(edges), numbers, side="right")
    groups = np.where(np.isnan(numbers), -1, codes).astype(np.int64)
    return Levels(group_names(edges), groups, numbers)


def _shortest(number: float) -> str:
    """The shortest text of a number: 40 for 40.0, 0.5, 1e+20."""
    return repr(float(number)).removesuffix(".0").removeprefix("-" if number == 0 else "")
