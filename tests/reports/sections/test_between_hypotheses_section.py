"""What the report says of the noise between two hypotheses, and never more."""

import re
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from fedaudit.privacy.accounting.privacy_events import layer_components
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.reports.page.html import render
from fedaudit.reports.report import assemble
from fedaudit.reports.sections.between_hypotheses import between_checks
from fedaudit.reports.sections.material import LedgerTotals
from fedaudit.spec.parse import parse_spec
from tests.reports.conftest import SPEC

HYPOTHESES = np.array([[0, 0, 0], [3, 4, 0]], np.float32)
RADII = np.array([[0.5], [1.0], [0.25], [0.7], [0.31]])
FIXED = {"mechanism": "laplace-l2", "noise_multiplier": 5, "radius": 0.2}


def pair_of(report):
    """The only pair of a report."""
    (pair,) = report["privacy"]["between_hypotheses"]["pairs"]
    return pair


def made(material, *, privacy=None, training=None, hypotheses=HYPOTHESES, radii=RADII, parts=(3,)):
    """The report of a run with these hypotheses."""
    changed = {} if privacy is None else {"privacy": privacy}
    if training is not None:
        changed["training"] = {**SPEC["training"], **training}
    found = material(spec=changed, hypotheses=hypotheses, radii=radii)
    if len(parts) > 1:
        layered = replace(found.inputs, n=sum(parts), components=layer_components(parts))
        found = replace(found, inputs=layered)
    return assemble(found)


def test_a_fixed_radius_gives_the_exponent_exactly(material):
    report = made(material, privacy=FIXED, radii=None)
    pair = pair_of(report)
    # n / (nu r) = 3 / (5 * 0.2), and the hypotheses are 5 apart.
    exact = dict.fromkeys(("epsilon", "epsilon_median", "epsilon_max"), 3.0)
    exact |= dict.fromkeys(("indistinguishability_median", "indistinguishability"), 15.0)
    stated = {"first": 0, "second": 1, "distance": 5.0, "worst_case": None, "guarantee": "formal"}
    assert pair == {**stated, **exact, "reasons": pair["reasons"]}
    assert set(pair["reasons"]) == {"worst_case"}
    for words in ("no separate noise", "No figure bounds datasets", "can be drawn again"):
        assert words in report["privacy"]["between_hypotheses"]["statement"]


def test_a_clip_bounds_any_two_datasets(material):
    report = made(material, privacy={**FIXED, "clip": 0.5, "noise": "release"}, radii=None)
    between = report["privacy"]["between_hypotheses"]
    assert between["pairs"][0]["worst_case"] == 3.0 * (5.0 + 2 * 0.5)
    assert between["pairs"][0]["reasons"] == {}
    stated = "the exponent of a release that starts from these hypotheses is at most 18."
    assert stated in between["statement"]
    assert "which may have lain further apart" in between["statement"]
    assert "drawn again" not in between["statement"]


def test_an_adaptive_radius_is_heuristic_and_states_no_ones_norm(material):
    pair = pair_of(made(material))
    exact = 3 / (5 * RADII[:, 0])
    assert pair["guarantee"] == "heuristic"
    assert pair["epsilon"] is None
    for name, true in (("epsilon_median", np.median(exact)), ("epsilon_max", exact.max())):
        assert true <= pair[name] <= true * 1.1
        assert len(Decimal(str(pair[name])).normalize().as_tuple().digits) <= 2
    assert pair["indistinguishability"] == pair["epsilon_max"] * 5.0
    assert pair["indistinguishability_median"] == pair["epsilon_median"] * 5.0
    assert set(pair["reasons"]) == {"epsilon", "worst_case"}


def test_too_few_releases_are_not_stated(material):
    between = made(material, radii=RADII[:4])["privacy"]["between_hypotheses"]
    (pair,) = between["pairs"]
    known = {"first", "second", "distance", "guarantee", "reasons"}
    assert {name for name in pair if pair[name] is None} == pair.keys() - known
    assert all(pair["reasons"][name] for name in pair.keys() - known)
    assert pair["distance"] == 5.0
    assert "fewer than 5 releases" in between["statement"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"training": {"hypotheses": 1}, "hypotheses": HYPOTHESES[:1]}, "one hypothesis"),
        ({"training": {"clustering": {"method": "reported"}}}, "without any noise"),
        ({"privacy": {"mechanism": "none"}}, "no mechanism"),
        ({"hypotheses": np.array([[0, 0, 0], [np.inf, 4, 0]], np.float32)}, "not finite"),
    ],
)
def test_where_there_is_no_section_there_is_a_reason(material, changes, why):
    privacy = made(material, **changes)["privacy"]
    assert privacy["between_hypotheses"] is None
    assert why in privacy["reasons"]["between_hypotheses"]


def test_of_many_hypotheses_the_nearest_and_the_farthest_are_listed(material):
    hypotheses = np.zeros((8, 3), np.float32)
    hypotheses[:, 0] = [0, 10, 30, 31, 50, 60, 70, 80]
    training = {"hypotheses": 8, "cohort": {"clients": 9}}
    report = made(material, privacy=FIXED, training=training, hypotheses=hypotheses)
    between = report["privacy"]["between_hypotheses"]
    assert [(pair["first"], pair["second"]) for pair in between["pairs"]] == [(2, 3), (0, 7)]
    assert between["pairs_in_all"] == 28
    assert "the nearest and the farthest of 28 pairs" in render(report)


def test_any_two_datasets_may_choose_a_pair_that_is_not_listed(material):
    """Over layers the farthest pair need not be distinguished best: rates of 8 and 1 here."""
    hypotheses = np.zeros((7, 9), np.float32)
    hypotheses[:, 8] = [0, 1, 2, 3, 4, 20, 10]
    hypotheses[6, 0] = 8
    privacy = made(
        material,
        privacy={**FIXED, "clip": 0.5},
        training={"hypotheses": 7, "cohort": {"clients": 9}},
        hypotheses=hypotheses,
        parts=(8, 1),
    )["privacy"]
    between = privacy["between_hypotheses"]
    assert [(pair["first"], pair["second"]) for pair in between["pairs"]] == [(0, 1), (0, 5)]
    reach = 2 * 0.5 * np.hypot(8, 1)
    assert between["pairs"][1]["worst_case"] == pytest.approx(20 + reach)
    # From 0 to 6: 8 * 8 + 1 * 10, and 8.0622... for the updates.
    assert "from these hypotheses is at most 82.0623." in between["statement"]
    assert "added up over the layers" in between["statement"]


def test_exponents_of_layers_add_up(material):
    """Layers of 2 and 1 parameters, 5 and 12 apart: rates n_l / (nu r) of 2 and 1."""
    hypotheses = np.array([[0, 0, 0], [3, 4, 12]], np.float32)
    report = made(
        material, privacy={**FIXED, "clip": 0.5}, hypotheses=hypotheses, radii=None, parts=(2, 1)
    )
    pair = pair_of(report)
    assert pair["indistinguishability"] == 2.0 * 5.0 + 1.0 * 12.0
    assert pair["worst_case"] == pytest.approx(22.0 + 2 * 0.5 * np.sqrt(5.0))
    for name in ("epsilon", "epsilon_median", "epsilon_max"):
        assert pair[name] is None
        assert "each layer" in pair["reasons"][name]


def test_the_page_has_a_table_and_rounds_up(material):
    text = render(made(material, privacy={**FIXED, "radius": 0.7}, radii=None))
    table = re.search(r"<caption>How well one release hides.*?</table>", text, re.DOTALL)
    # 3 / (5 * 0.7) = 0.857142..., five times that 4.285714...
    assert "0.8572" in table.group()
    assert "4.286" in table.group()
    assert "0.8571" not in table.group()


NAME = "report.privacy.between_hypotheses"


def checked(report, *, radii=RADII, inputs=None):
    """The outcome of the check of a report against a ledger with these radii."""
    spec = parse_spec(report["spec"])
    totals = LedgerTotals(60, best_round=report["utility"]["best_round"])
    totals.best_radii = radii
    inputs = inputs or mechanism_of(spec).inputs(n=3)
    [one] = between_checks(spec, report, totals, inputs)
    assert one.name == NAME
    return one.outcome


def changed(report, **figures):
    """The report with other figures of its only pair."""
    section = report["privacy"]["between_hypotheses"]
    pair = {**section["pairs"][0], **figures}
    privacy = {**report["privacy"], "between_hypotheses": {**section, "pairs": [pair]}}
    return {**report, "privacy": privacy}


@pytest.mark.parametrize("privacy", [None, FIXED, {**FIXED, "clip": 0.5}])
def test_what_was_reported_follows_from_the_ledger(material, privacy):
    report = made(material, privacy=privacy)
    assert checked(report) == "pass"
    pair = pair_of(report)
    for field in ("epsilon_max", "indistinguishability", "indistinguishability_median"):
        assert checked(changed(report, **{field: pair[field] * 0.9})) == "fail"
    for distance in (-1.0, "5", None, 1e400, True):
        assert checked(changed(report, distance=distance)) == "fail"
    if privacy is None:
        assert checked(report, radii=RADII / 2) == "fail"
        assert checked(report, radii=None) == "fail"


@pytest.mark.parametrize("privacy", [None, {**FIXED, "clip": 0.5}])
def test_exponents_of_layers_lie_within_what_the_ledger_allows(material, privacy):
    """Their rates and the whole distance of 13 bound them; the layers' distances are not told."""
    hypotheses = np.array([[0, 0, 0], [3, 4, 12]], np.float32)
    radii = np.column_stack([RADII, RADII * 2])
    report = made(material, privacy=privacy, hypotheses=hypotheses, radii=radii, parts=(2, 1))
    inputs = mechanism_of(parse_spec(report["spec"])).inputs(n=3)
    layered = replace(inputs, components=layer_components((2, 1)))
    assert checked(report, radii=radii, inputs=layered) == "pass"
    pair = pair_of(report)
    for changes in (
        {"indistinguishability": pair["indistinguishability"] / 5},
        {"indistinguishability_median": 0.0},
        {"indistinguishability": pair["indistinguishability"] * 10},
        {"indistinguishability": None},
        {"worst_case": 1.0},
        {"epsilon_max": 0.1},
    ):
        assert checked(changed(report, **changes), radii=radii, inputs=layered) == "fail"


def test_a_pair_cannot_be_left_out(material):
    report = made(material, training={"hypotheses": 3}, hypotheses=np.eye(3, dtype=np.float32))
    assert checked(report) == "pass"
    del report["privacy"]["between_hypotheses"]["pairs"][1]
    assert checked(report) == "fail"
