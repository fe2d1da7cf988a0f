"""Reports for people."""

import io
import json

import pytest
from rich.console import Console

from fedaudit.cli.summary import summary_table


@pytest.fixture
def report(command, small_spec):
    return json.loads(command("run", "-", "--json", stdin=json.dumps(small_spec)).stdout)


def text(*reports):
    file = io.StringIO()
    Console(file=file, width=200).print(summary_table(reports))
    return file.getvalue()


def test_two_reports_stand_side_by_side(report):
    other = json.loads(json.dumps(report))
    other["experiment"]["name"] = "other"
    other["privacy"]["leakage_max"] = 77.5
    lines = text(report, other).splitlines()
    [names] = [line for line in lines if "small" in line]
    assert "other" in names
    [leakage] = [line for line in lines if "leakage, largest" in line]
    assert leakage.index(f"{report['privacy']['leakage_max']:.4g}") < leakage.index("77.5")


def test_a_missing_figure_gives_its_reason(report):
    report["privacy"]["leakage_max"] = None
    report["privacy"]["reasons"]["leakage_max"] = "nobody measured it"
    metric = report["fairness"][0]["metrics"]["equalized_odds_ratio"]
    metric.update(value=None, reason="a group without positives")
    assert "none: nobody measured it" in text(report)
    assert "none: a group without positives" in text(report)
