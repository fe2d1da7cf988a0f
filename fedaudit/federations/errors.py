"""Errors for a spec and data that do not fit together."""

from collections.abc import Sequence
from difflib import get_close_matches

from fedaudit.spec.errors import FieldError, InvalidInputError, error_at

__all__ = ["did_you_mean", "error_at", "listed", "no_column", "raise_errors"]


def raise_errors(faults: list[FieldError]) -> None:
    """Raise InvalidInputError with every error found, if there are any."""
    if faults:
        raise InvalidInputError(faults)


def listed(names: tuple[str, ...] | list[str], *, most: int = 20) -> str:
    """Names for a message: quoted, and truncated where there are many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """The likeliest of the names, as the end of a sentence; '' where none is like it."""
    by_fold = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_fold, n=1)
    return f"; did you mean {by_fold[near[0]]!r}?" if near else ""


def no_column(name: str, known: Sequence[str]) -> str:
    """That a file has no such column, and which it has."""
    names = list(known)
    return f"the file has no column {name!r}; it has {listed(names)}{did_you_mean(name, names)}"
