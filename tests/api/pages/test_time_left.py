"""How long a run has been going, and how much longer it may take."""

from datetime import UTC, datetime, timedelta

import pytest

from api.pages.live import time_left

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "done", "words"),
    [
        (30, 0, ""),
        (30, 100, "running for 30 s, at this pace at most 30 s more"),
        (90, 150, "running for 90 s, at this pace at most 30 s more"),
        (600, 50, "running for 10 min, at this pace at most 30 min more"),
        (8000, 20, "running for 2 h 13 min, at this pace at most 20 h 00 min more"),
        (60, 200, "running for 60 s, the report is being made"),
        (-5, 100, ""),
    ],
)
def test_the_pace_so_far_bounds_what_is_left(seconds: int, done: int, words: str) -> None:
    assert time_left(START, START + timedelta(seconds=seconds), done=done, rounds=200) == words


def test_one_that_waits_has_no_pace() -> None:
    assert time_left(None, START, done=0, rounds=10) == ""
