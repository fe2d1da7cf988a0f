"""Errors for a spec and data that do not fit together."""

from fedaudit.spec.errors import FieldError, InvalidInputError, error_at

__all__ = ["error_at", "listed", "raise_errors"]


def raise_errors(faults: list[FieldError]) -> None:
    """Raise InvalidInputError with every error found, if there are any."""
    if faults:
        raise InvalidInputError(faults)


def listed(names: tuple[str, ...] | list[str], *, most: int = 20) -> str:
    """Names for a message: quoted, and truncated where there are many."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"
