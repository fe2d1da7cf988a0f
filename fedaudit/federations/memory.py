"""What a run over a table needs of memory, estimated from its size before it is read."""

from fedaudit.federations.errors import error_at
from fedaudit.federations.federation import Federation, is_large
from fedaudit.spec.errors import InvalidInputError

_WHERE = "/federation/features"
_OF_A_ROW = 160
"""Its client, number, target and places, while it is loaded, and then for counting groups."""
_OF_AN_ATTRIBUTE = 24
_OF_A_CELL = 16
"""Of data that are computed side by side: as loaded, in the order of clients, and padded."""
_OF_BLOCKS = 512 * 2**20
"""What is read at a time of data that are not: columns as they are read, rows of a cohort."""


def run_bytes(*, rows: int, features: int, attributes: int) -> int:
    """Bytes of memory, beyond a process with its libraries, that a run needs for its data."""
    of_rows = rows * (_OF_A_ROW + attributes * _OF_AN_ATTRIBUTE)
    if is_large(rows=rows, features=features):
        return of_rows + _OF_BLOCKS
    return of_rows + rows * features * _OF_A_CELL


def memory_fault(
    *, rows: int, features: int, attributes: int, allowed: int, more: bool = False
) -> InvalidInputError | None:
    """The error where a run would need more than is allowed; None where it has room.

    `more`: whether there are more rows than those.
    """
    needed = run_bytes(rows=rows, features=features, attributes=attributes)
    if needed <= allowed:
        return None
    return error_at(
        _WHERE,
        f"{rows}{' or more' if more else ''} rows of {features} features and {attributes} "
        f"sensitive attributes take about {_gib(needed)} of memory in a run, and {_gib(allowed)} "
        "are allowed (FEDAUDIT_MAX_DATA_MEMORY_BYTES); use fewer rows or attributes, or raise it "
        "where the machine has the memory",
    )


def bytes_in_memory(federation: Federation) -> int:
    """What the features take where a method needs all of them at once, with a copy."""
    return federation.rows * federation.width * 2 * 4


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
