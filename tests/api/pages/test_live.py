"""An experiment that runs: its curves as the page's script draws them, and the time left."""

from datetime import UTC, datetime, timedelta

import pytest

from api.pages.live import MAX_POINTS, curves, time_left
from fedaudit.reports.charts.line_chart import GapSeries, Series

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


def test_rounds_that_were_not_validated_leave_no_holes() -> None:
    series = Series(
        rounds=(1, 2, 3, 4),
        figures={
            "validation_loss": (None, 0.5, None, 0.25),
            "selection_loss": (None, 0.4, None, 0.2),
            "leakage_max": (1.0, 2.0, 3.0, 4.0),
            "accuracy": (None, None, None, None),
        },
        gaps={"sex": GapSeries((2, 4), {"equalized_odds_difference": (0.1, None)})},
    )
    found = {curve["name"]: curve for curve in curves(series)}
    assert set(found) == {"leakage", "loss", "gaps sex"}
    assert found["loss"]["rounds"] == [2, 4]
    assert found["leakage"]["rounds"] == [1, 2, 3, 4]
    # A line without any value is no line; a round without any value is none of the curve's.
    assert [line["name"] for line in found["leakage"]["lines"]] == ["largest"]
    assert (found["gaps sex"]["rounds"], found["gaps sex"]["lines"][0]["values"]) == ([2], [0.1])


def test_many_rounds_are_thinned_without_losing_the_last_or_the_extremes() -> None:
    count = 20_000
    values = [0.0] * count
    values[777] = 9.0
    series = Series(rounds=tuple(range(1, count + 1)), figures={"leakage_max": tuple(values)})
    [curve] = curves(series)
    assert len(curve["rounds"]) <= MAX_POINTS
    assert curve["rounds"][-1] == count
    assert max(curve["lines"][0]["values"]) == 9.0


def test_clusters_have_a_line_each_unless_there_are_very_many() -> None:
    few = Series(rounds=(1, 2), cluster_sizes=((3, 2), (4, 1)), cluster_leakage={0: (1.0, 2.0)})
    [curve] = curves(few)
    assert [line["values"] for line in curve["lines"]] == [[3, 4], [2, 1]]
    assert curves(Series(rounds=(1,), cluster_sizes=(tuple(range(7)),))) == []


def test_nothing_yet_is_no_curve() -> None:
    assert curves(Series()) == []
