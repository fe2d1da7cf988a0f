"""The processor time of processes with all that they started. Needs psutil alone."""

from collections.abc import Sequence
from contextlib import suppress

import psutil


def processor_seconds(processes: Sequence[psutil.Process]) -> float:
    """Of these and of all their descendants, those that have ended and been waited for included."""
    found = 0.0
    for one in processes:
        for living in (one, *one.children(recursive=True)):
            # One that ends in this moment is in its parent's times from now on.
            with suppress(psutil.NoSuchProcess):
                times = living.cpu_times()
                found += times.user + times.system + times.children_user + times.children_system
    return found
