"""The charts of clusters over rounds, drawn from figures made by hand."""

import pytest

from fedaudit.reports.charts.line_chart import series_of
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
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
