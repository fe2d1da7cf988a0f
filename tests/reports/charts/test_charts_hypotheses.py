"""The charts of clusters over rounds and of the plane, drawn from figures made by hand."""

import re

import pytest

from fedaudit.reports.charts.line_chart import series_of
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.parameter_plot import Plane
from tests.reports.charts.test_charts_page import Round
from tests.reports.page.test_report_page import Page


def drawn(material, clusters):
    """The page of rounds in which cluster j first appears in round j + 1 and leaks j by round."""
    rounds = [
        Round(
            number,
            leakage_by_cluster=tuple(
                {
                    "cluster": j,
                    "clients": 1,
                    "leakage_median": 0.0,
                    "leakage_max": float(j * number),
                }
                for j in range(min(clusters, number))
            ),
        )
        for number in range(1, 10)
    ]
    rounds.append(Round(10))
    return render(assemble(material()), series_of(rounds, []))


@pytest.mark.parametrize("clusters", [1, 2, 6, 8])
def test_leakage_in_each_cluster_has_a_line(material, clusters):
    text = drawn(material, clusters)
    Page(text)
    assert ("Largest leakage in each cluster" in text) == (clusters > 1)
    if clusters == 6:
        assert "Cluster 5 is 30 in round 6 and 45 in round 9." in text
    if clusters == 8:
        assert "Cluster that leaks most is 0 in round 1 and 63 in round 9." in text
        assert "Cluster 5 is" not in text


def plane(hypotheses):
    """A plane whose first round was not its best."""
    points = [(float(j), -2.0 * j) for j in range(hypotheses)]
    shown = {"hypotheses": points, "uploads": [(0.5, 1e6), (-3.25, 2.0)], "clusters": [0, 1]}
    return Plane(
        round=7,
        **shown,
        parameters=("weight of <b>", "weight of x2"),
        path=[{"round": 0, "hypotheses": points}, {"round": 4, "hypotheses": points}],
        first={"round": 4, **shown},
        truth=[(5, 6), (4, -4.5)],
        reasons={},
    )


def test_the_plane_is_drawn_twice_and_escaped(material):
    text = render(assemble(material(plane=plane(2))))
    Page(text)
    drawings = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    found = [one for one in drawings if "in the plane" in one]
    assert len(found) == 2
    assert "<b>" not in text.replace("&lt;b&gt;", "")
    for one in found:
        assert one.count('class="truth"') == 2 * (2 + 1)  # two lines a cross, one in the legend
        assert one.count('class="hypothesis"') == 2 + 1
        assert "Hypothesis 1 is 3.905 away from true parameters 1." in one
        assert "nan" not in one


def test_marks_that_several_clusters_share_are_named_together(material):
    text = render(assemble(material(plane=plane(8))))
    assert "upload, cluster 1 or 7" in text
    assert "upload, cluster 5<" in text


def test_without_a_plane_the_report_says_why(material):
    report = assemble(material(plane="the data are not synthetic"))
    assert (report["plane"], report["plane_reason"]) == (None, "the data are not synthetic")
    assert "in the plane" not in render(report)
