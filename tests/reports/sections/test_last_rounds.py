"""How far gaps moved over the last rounds, beside the interval over clients."""

from fedaudit.reports.report import assemble
from fedaudit.spec.metrics import METRICS

GAP = "equalized_odds_difference"


def rounds(*values):
    return {"group": [{**dict.fromkeys(METRICS), GAP: value} for value in values]}


def metrics_of(report):
    return report["fairness"][0]["metrics"]


def test_the_range_stands_beside_the_figure_and_in_the_verdict(material):
    report = assemble(material(last_fairness=rounds(0.3, None, 0.11, 0.5, 0.2, 0.78)))
    metric = metrics_of(report)[GAP]
    assert metric["last_rounds"] == {"low": 0.11, "high": 0.78, "rounds": 5}
    assert metric["last_rounds_reason"] is None
    stated = "Over the last 5 validated rounds it was between 0.11 and 0.78"
    assert stated in report["verdict_parts"]["fairness"]
