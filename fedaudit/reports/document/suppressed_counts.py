"""Words for a number of records that may be suppressed."""


def number_or_some(count: int | None) -> str:
    """The number, for the beginning of a sentence; a suppressed one is positive, hence "Some"."""
    return "Some" if count is None else str(count)
