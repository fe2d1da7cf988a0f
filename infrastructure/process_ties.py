"""Processes that end with the one that started them, however it ends."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def ended_with(parent: int) -> Callable[[], None] | None:
    """To be run in a child before exec: the kernel kills it when its parent dies.

    Linux only; elsewhere a killed parent leaves its processes behind.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return tie
