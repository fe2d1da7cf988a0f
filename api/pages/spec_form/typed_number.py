"""A typed text that may stand for a number."""


def number(typed: str) -> int | float | str:
    """The whole number or the number that the text stands for, else the text itself."""
    for kind in (int, float):
        try:
            return kind(typed)
        except ValueError:
            continue
    return typed
