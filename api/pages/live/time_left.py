"""How long a run has been going, and how long its rounds would still take at that pace."""

from datetime import datetime, timedelta


def time_left(started_at: datetime | None, now: datetime, *, done: int, rounds: int) -> str:
    """Words for people; empty before the first round.

    The pace is that of all rounds so far, waiting included. It says nothing of an early end, so the
    time left is the most that it takes at this pace.
    """
    if started_at is None or done < 1 or now < started_at:
        return ""
    elapsed = now - started_at
    words = f"running for {_length(elapsed)}"
    if done >= rounds:
        return f"{words}, the report is being made"
    return f"{words}, at this pace at most {_length(elapsed * (rounds - done) / done)} more"


def _length(time: timedelta) -> str:
    seconds = max(round(time.total_seconds()), 1)
    if seconds < 100:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
