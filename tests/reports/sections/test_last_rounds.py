"""How far gaps moved over the last rounds, beside the interval over clients."""

from fedaudit.reports.report import assemble
from fedaudit.spec.metrics import METRICS, SCORE_METRICS

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


def test_where_there_is_none_it_says_why(material):
    few = metrics_of(assemble(material(last_fairness=rounds(0.3, 0.2))))
    assert "fewer than 5" in few[GAP]["last_rounds_reason"]
    for name in SCORE_METRICS:
        assert "gaps of rates alone" in few[name]["last_rounds_reason"]
    unknown = assemble(material())
    assert "not handed over" in metrics_of(unknown)[GAP]["last_rounds_reason"]
    assert "Over the last" not in unknown["verdict_parts"]["fairness"]
