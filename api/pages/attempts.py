"""How often an address may fail to sign in."""

import threading
from collections import OrderedDict, deque
from time import monotonic

_MOST, _WINDOW_SECONDS = 10, 60.0
_MAX_ADDRESSES = 4096


class FailedAttempts:
    """Failures of the last minute by address, in this process; safe to share between threads.

    Keys hold 256 random bits and are not guessed: this bounds the noise in the logs.
    """

    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_seconds(self, address: str) -> float:
        """How long the address has to wait before it may try again; 0 if it need not."""
        with self._lock:
            times = self._times.get(address)
            if times is None or len(times) < _MOST:
                return 0.0
            return max(0.0, times[0] + _WINDOW_SECONDS - monotonic())

    def add(self, address: str) -> None:
        """Note a failure. The address that failed least recently is forgotten for a new one."""
        with self._lock:
            times = self._times.setdefault(address, deque(maxlen=_MOST))
            times.append(monotonic())
            self._times.move_to_end(address)
            if len(self._times) > _MAX_ADDRESSES:
                self._times.popitem(last=False)
