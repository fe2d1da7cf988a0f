"""The series as the page's script draws them."""

from api.pages.live import MAX_POINTS, curves
from fedaudit.reports.charts.series import GapSeries, Series


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
