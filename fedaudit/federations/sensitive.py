"""Sensitive attributes of the rows of a table."""

from collections.abc import Mapping, Sequence

from fedaudit.federations.faults import invalid, pointer
from fedaudit.federations.levels import Levels
from fedaudit.federations.table_rows import TableRows

MOST_GROUPS = 1000


def read_sensitive(
    rows: TableRows, names: Sequence[str], columns: Mapping[str, str] | None = None
) -> tuple[dict[str, Levels], tuple[str, ...]]:
    """Each attribute's groups, and a note for each that is missing in some rows.

    `columns` gives the column of an attribute where it has another name. Raises
    InvalidInputError at /fairness/sensitive/i.
    """
    attributes: dict[str, Levels] = {}
    notes: list[str] = []
    for place, name in enumerate(names):
        where = pointer("fairness", "sensitive", place)
        levels = rows.levels((columns or {}).get(name, name), where, numeric=True)
        groups = len(levels.values)
        if groups == 0:
            raise invalid(where, f"{name!r} is empty in every row; name another column")
        if groups > MOST_GROUPS:
            raise invalid(
                where,
                f"{name!r} has {groups} distinct values, and {MOST_GROUPS} groups are allowed; "
                "bring them into fewer groups",
            )
        if levels.missing:
            notes.append(f"rows without a value of {name!r}, in no group: {levels.missing}")
        attributes[name] = levels
    return attributes, tuple(notes)
