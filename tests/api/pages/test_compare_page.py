"""The comparison page by its structure: what stands where, and what can make it too wide."""

import html
import re
from html.parser import HTMLParser
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
VOID = {"meta", "link", "input", "br", "img", "rect", "path", "line", "circle", "hr"}


class Page(HTMLParser):
    """Every element with the open elements around it, each as `tag.class.class`."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        classes = (dict(attrs).get("class") or "").split()
        name = ".".join([tag, *classes])
        self.elements.append((name, tuple(self.open)))
        if tag not in VOID:
            self.open.append(name)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop().partition(".")[0] == tag

    def around(self, kind: str) -> list[tuple[str, ...]]:
        """What is around each element of a tag or class."""
        return [around for name, around in self.elements if kind in name.split(".")]


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


def test_nothing_makes_the_document_wider_than_its_screen(compared: str) -> None:
    page = Page(compared)
    hidden = page.around("visually-hidden")
    assert not [around for around in hidden if any("scroll" in one.split(".") for one in around)]
    tables = page.around("table")
    assert tables
    assert all(any("scroll" in one.split(".") for one in around) for around in tables)
    assert "style=" not in compared

    cells = [around for name, around in page.elements if name == "td" or name.startswith("td.")]
    beside = [around for around in cells if any("beside" in one.split(".") for one in around)]
    assert beside
    assert '<td class="number"' not in compared


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


def test_figures_come_first_then_one_chart_and_the_others_folded(compared: str) -> None:
    page = Page(compared)
    charts = page.around("figure")
    folded = [any(one.startswith("details") for one in around) for around in charts]
    assert len(folded) == 2 * len(ATTRIBUTES)
    assert folded == [False] + [True] * (len(folded) - 1)
    assert compared.index(">Figures</h2>") < compared.index("<figure>")
    # One gap by attribute first, the others folded by attribute.
    leading = [row[0] for row in rows(compared) if row and row[0].startswith("equalized odds diff")]
    assert leading[:3] == [f"equalized odds difference by {name}" for name in ATTRIBUTES]
    assert compared.count(": all gaps</summary>") == len(ATTRIBUTES)
    # What holds for every attribute is said once.
    stated = " ".join(html.unescape(re.sub("<[^>]*>", " ", compared)).split())
    assert stated.count("Its models differ in size") == 1
    assert stated.count("is in no front") == 1
    for name in ATTRIBUTES:
        assert stated.count(f"With fairness by {name}, on the front:") == 1


def test_an_experiment_alone_is_called_by_its_number(api: Api) -> None:
    reports = Reports(api)
    bare = reports.add(without_protection)
    answer = signed_in(api).get(f"/compare?experiment_id={bare}&experiment_id={reports.first}")
    assert "Experiment no. 2 has nothing to be weighed against" in answer.text
    assert "Only 2" not in answer.text
    assert "<figure>" not in answer.text
    assert answer.text.count("nothing to be weighed against") == 1
