"""How the making of a report is followed: of many held-out people one takes minutes."""

from collections.abc import Callable

Progressed = Callable[[], None]
"""Called between the parts of a report. What it raises ends the report."""


def unfollowed() -> None:
    """For reports without a follower."""
