"""The target of a classifier as classes."""

import numpy as np

from fedaudit.federations.faults import invalid, listed
from fedaudit.federations.levels import Levels, number_in
from fedaudit.federations.table_rows import TableRows

MOST_CLASSES = 1000


def class_levels(rows: TableRows, target: str, *, positive: str | None) -> Levels:
    """The target's distinct values as classes: by number where all are numbers, else as text.

    With `positive` there are two classes and it is the second. Raises InvalidInputError.
    """
    where = "/federation/target"
    levels = rows.levels(target, where, numeric=True)
    if levels.missing:
        position = int(np.argmax(levels.codes < 0))
        raise rows.fault(target, position, where, "is empty", "fill the gap or leave the row out")
    count = len(levels.values)
    if count < 2:
        raise invalid(
            where, f"{target!r} has one value only; a classifier needs at least two classes"
        )
    if count > MOST_CLASSES:
        raise invalid(
            where,
            f"{target!r} has {count} distinct values, and {MOST_CLASSES} classes are allowed; for "
            "a target that is a number train `linear` or `mlp` with `rmse` or `mse`",
        )
    return levels if positive is None else _with_positive_last(levels, positive)


def find_class(classes: tuple[str, ...], label: str | float) -> int | None:
    """The class that a label names, as text or as a number (1, 1.0 and "1" are the same)."""
    text = str(label)
    if text in classes:
        return classes.index(text)
    number = number_in(text)
    if number is None:
        return None
    for index, name in enumerate(classes):
        if number_in(name) == number:
            return index
    return None


def _with_positive_last(levels: Levels, positive: str) -> Levels:
    where = "/federation/positive"
    if len(levels.values) != 2:
        raise invalid(
            where,
            f"the target has {len(levels.values)} classes, and a positive class is for two; leave "
            "it out",
        )
    chosen = find_class(levels.values, positive)
    if chosen is None:
        raise invalid(
            where, f"the target has no class {positive!r}; it has {listed(levels.values)}"
        )
    if chosen == 1:
        return levels
    return Levels(levels.values[::-1], 1 - levels.codes)
