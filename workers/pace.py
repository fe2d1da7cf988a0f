"""How many rounds are run between two flushes."""

_FLUSH_SECONDS = 0.25
_FLUSH_ENTRIES = 60_000
_FLUSH_ROUNDS = 1_000
"""Over all experiments together: keeps a transaction on SQLite below 100 ms."""
_GROWTH = 4


class Pace:
    """As many rounds as fit into 250 ms and 60,000 client entries, and at least one."""

    def __init__(self) -> None:
        self._rounds = 1
        self._seconds_per_round: float | None = None

    def rounds(self, *, experiments: int, cohort: int) -> int:
        """Rounds of the next block for this many experiments with this many clients a round
        each."""
        most = max(1, min(_FLUSH_ENTRIES // (experiments * cohort), _FLUSH_ROUNDS // experiments))
        if self._seconds_per_round is not None:
            fitting = int(_FLUSH_SECONDS / max(self._seconds_per_round, 1e-9))
            # Growing step by step, because one quick round says little about the next thousand.
            self._rounds = max(1, min(fitting, _GROWTH * self._rounds))
        self._rounds = min(self._rounds, most)
        return self._rounds

    def took(self, rounds: int, seconds: float) -> None:
        """Record the last block's rounds, and how long they took."""
        self._seconds_per_round = seconds / max(1, rounds)
