"""The comparison page by its structure: what stands where, and what can make it too wide."""

import html
import re
from typing import Any

import pytest

from tests.api.pages.browser import signed_in
from tests.api.service import Api
from tests.api.stored_reports import Reports, gaps, leaks

ATTRIBUTES = {"sex": 0.2, "race": 0.1, "age": 0.3}
GATES = [
    {"figure": "equalized_odds_difference", "attribute": "group", "op": "le", "value": 0.1},
    {"figure": "leakage_max", "op": "le", "value": 40, "allow_heuristic": True},
]


def rows(text: str) -> list[list[str]]:
    """The cells of every row, as a person reads them."""
    found = []
    for row in re.findall(r"<tr.*?</tr>", text, re.DOTALL):
        cells = re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        found.append(
            [" ".join(html.unescape(re.sub("<[^>]*>", " ", one)).split()) for one in cells]
        )
    return found


def without_protection(document: dict[str, Any]) -> None:
    """A run whose cost nothing bounds."""
    gaps(**ATTRIBUTES)(document)
    document["guarantee"] |= {"kind": "none", "label": "none", "in_force": False}
    costs = [name for name in document["privacy"] if name.startswith(("leakage", "log_ratio"))]
    document["privacy"] |= dict.fromkeys(costs)
    document["privacy"]["reasons"] = dict.fromkeys(costs, "nothing bounds it")


@pytest.fixture
def compared(api: Api) -> str:
    """Three runs with gates of their own, one of them unprotected."""
    reports = Reports(api)

    def several(document: dict[str, Any]) -> None:
        gaps(**ATTRIBUTES)(document)
        leaks(5.0)(document)
        document["data"]["parameters"] += 1

    ids = [
        reports.add(gaps(**ATTRIBUTES), gates=GATES),
        reports.add(several, gates=[{**GATES[0], "value": 0.05}], seed=9),
        reports.add(without_protection, gates=[]),
    ]
    query = "&".join(f"experiment_id={one}" for one in ids)
    answer = signed_in(api).get(f"/compare?{query}")
    assert answer.status_code == 200
    found: str = answer.text
    return found


def test_gates_are_rows_and_costs_without_a_bound_are_named(compared: str) -> None:
    found = {row[0]: row[1:] for row in rows(compared) if row and row[0].startswith("gate: ")}
    assert found == {
        "gate: equalized odds difference by group, at most": ["0.1", "0.05", "–"],
        "gate: leakage max, at most": ["40 (allowed: heuristic)", "–", "–"],
    }
    assert "[{" not in html.unescape(compared)
    # A cost without a bound is no dash.
    [cost] = [row for row in rows(compared) if row and row[0].startswith("leakage max")]
    assert cost[1:] == ["3", "5", "unbounded"]
