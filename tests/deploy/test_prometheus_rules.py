"""Alerts and the dashboard: every figure in them is exported, and every alert is explained."""

import json
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from tests.api.metrics.test_metrics import scrape
from tests.api.service import running_api, settings_for
from tests.house import ROOT

ALERTS = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yaml").read_text())
DASHBOARD = json.loads((ROOT / "deploy/grafana/dashboard.json").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
OF_PROMETHEUS = {"up"}


@pytest.fixture(scope="module")
def exported(sqlite_template, tmp_path_factory):
    """The labels of each figure that an API exports."""
    folder = tmp_path_factory.mktemp("deploy")
    (folder / "fedaudit.db").write_bytes(sqlite_template.read_bytes())
    settings = settings_for(f"sqlite:///{folder / 'fedaudit.db'}", folder)
    with running_api(settings) as api:
        api.submit()
        found: dict[str, set[frozenset[str]]] = {}
        for name, labels in scrape(api):
            found.setdefault(name, set()).add(frozenset(label for label, _ in labels))
        return found


def selectors(node: Any) -> Iterator[Any]:
    """Every selector of a figure within an expression."""
    match node:
        case promql_parser.VectorSelector():
            yield node
        case promql_parser.MatrixSelector():
            yield from selectors(node.vector_selector)
        case promql_parser.AggregateExpr() | promql_parser.ParenExpr():
            yield from selectors(node.expr)
        case promql_parser.BinaryExpr():
            yield from selectors(node.lhs)
            yield from selectors(node.rhs)
        case promql_parser.Call():
            for argument in node.args:
                yield from selectors(argument)
        case promql_parser.NumberLiteral() | promql_parser.StringLiteral():
            return
        case _:
            raise TypeError(f"{type(node).__name__}: say where its figures are")


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_figure_is_exported_with_its_labels(exported, expression):
    found = list(selectors(promql_parser.parse(expression)))
    assert found
    for selector in found:
        if selector.name in OF_PROMETHEUS:
            continue
        asked = {one.name for one in selector.matchers.matchers}
        assert selector.name in exported, selector.name
        assert any(asked <= labels for labels in exported[selector.name])


def test_every_figure_is_watched(exported: dict[str, set[frozenset[str]]]) -> None:
    used = {one.name for text in EXPRESSIONS for one in selectors(promql_parser.parse(text))}
    parts = ("_bucket", "_sum", "_created")
    ours = {one for one in exported if one.startswith("fedaudit_") and not one.endswith(parts)}
    assert len(ours) > 10
    assert ours <= used


def test_every_alert_is_explained() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert f"\n### {rule['alert']}\n" in page
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("page", "ticket")
    headings = [line[4:] for line in page.splitlines() if line.startswith("### Fedaudit")]
    assert headings == [rule["alert"] for rule in RULES]
