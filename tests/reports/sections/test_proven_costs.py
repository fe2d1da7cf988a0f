"""What lists, gates, fronts, verdicts and claims state of a cost: no less than is proven."""

import copy
from typing import Any

import pytest

from fedaudit.cli.summary import show
from fedaudit.number_text import at_most, bound_text
from fedaudit.reports.charts.answer_pictures import answer_pictures
from fedaudit.reports.claims import claims_of
from fedaudit.reports.comparison.compared_reports import compare_reports
from fedaudit.reports.figures import figures_of, parsed
from fedaudit.reports.gates.gate_evaluation import evaluate
from fedaudit.reports.readings.readings import registry
from fedaudit.reports.report import assemble, gate_checks
from fedaudit.reports.sections.guarantee import proven_cost
from fedaudit.reports.sections.other_runs import RepeatsSection
from fedaudit.reports.verdict.release import answer_of
from fedaudit.reports.verdict.verdict import judged
from fedaudit.spec.gates import Gate
from fedaudit.sweeps.report_section import with_repeats
from tests.reports.gates.test_gate_evaluation import FIXED, LACKS
from tests.reports.reading_documents import gaussian
from workers.finish import stored_figures

Document = dict[str, Any]
ML_BOM = "https://cyclonedx.org/bom"


def gate(value: float, *, figure: str = "epsilon_max", **allowed: bool) -> Gate:
    return Gate(figure=figure, op="le", value=value, **allowed)


def claimed(report: Document) -> Document:
    """The bill of materials among its claims."""
    found = {one["predicateType"]: one for one in claims_of(report, "0" * 64, verified=[], at="")}
    return dict(found[ML_BOM]["predicate"])


def everywhere(report: Document) -> set[float]:
    """The largest epsilon as lists, comparisons, fronts, claims and the registry have it."""
    named = [one for one in figures_of(parsed(report)) if one.figure == "epsilon_max"]
    compared = compare_reports([parsed(report)])
    [front] = compared.fronts
    cells = [one.cells[0] for one in compared.figures if one.figure == "epsilon_max"]
    card = claimed(report)["metadata"]["component"]["modelCard"]
    metrics = card["quantitativeAnalysis"]["performanceMetrics"]
    deployment = registry(report)["deployment"]
    return {
        *(one.value for one in (*named, *cells) if one.value is not None),
        *(point.values[0] for point in front.experiments),
        *(float(one["value"]) for one in metrics if one["type"] == "epsilon_max"),
        stored_figures(report)["epsilon_max"],
        deployment["privacy_loss"]["privacy_parameters"]["epsilon"],
    }


def test_where_losses_ended_a_run_all_planned_rounds_are_stated_everywhere(
    material, capsys
) -> None:
    report = gaussian(material)
    played, planned = (report["privacy"][name] for name in ("epsilon_max", "epsilon_planned"))
    assert played < planned
    assert everywhere(report) == {planned}
    [largest, of_observer] = (
        one for one in figures_of(parsed(report)) if one.figure == "epsilon_max"
    )
    beside = f"those that were played spent {at_most(played, digits=4)}"
    assert all((one.reason or "").endswith(beside) for one in (largest, of_observer))
    assert f"an epsilon of {at_most(planned, digits=4)} against" in report["verdict_parts"]["cost"]
    picture, *_ = answer_pictures(report)
    assert bound_text(played) not in str(picture.table)
    show(report)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"epsilon {at_most(planned, digits=4)} at delta" in shown
    bounds = {planned: "pass", (played + planned) / 2: LACKS, played / 2: "fail"}
    for bound, outcome in bounds.items():
        [found] = evaluate([gate(bound)], report)
        assert (found["outcome"], found["value"]) == (outcome, planned)


def of_seeds(report: Document, *gates: Gate, **sums: Any) -> Document:
    """The report as one of three seeds that cost so much together."""
    costs = {"sweep_epsilon_max": None, "sweep_log_ratio_max": None, "sweep_leakage": None, **sums}
    spent = costs["sweep_epsilon_max"]
    of_each = [
        {"delta": 1e-3, "adjacency": one["adjacency"], "unit": "client", "value": spent}
        | {"observer": one["observer"]}
        for one in report["privacy"]["epsilon"]
        if spent is not None
    ]
    sweep = {
        **{"id": "s", "name": "seeds", "cells": 3, "position": 0, "values": {"seed": 1}},
        **{"epsilon": of_each, "noises": ["release"], "guarantees": ["formal"], "conditions": []},
        **{"reasons": dict.fromkeys(costs, "of all 3 cells"), "tries": 3, **costs},
    }
    seeds = RepeatsSection(
        seeds=[1, 2, 3], asked=3, experiment_ids=["a", "b", "c"], metrics={}, reasons={}
    )
    whole = {**report, "spec": {**report["spec"], "gates": [one.model_dump() for one in gates]}}
    return with_repeats({**whole, "sweep": sweep}, seeds, gates=gates)


@pytest.fixture
def one_seed(material) -> Document:
    """A report of noise that is secret, whose training ended with its last round."""
    report = copy.deepcopy(gaussian(material, noise="release"))
    report["utility"] |= {"stopped_by": "rounds", "degenerate": False}
    report["privacy"]["epsilon_planned"] = None
    return report


def test_a_report_of_several_seeds_costs_what_all_cost_together(one_seed) -> None:
    own = one_seed["privacy"]["epsilon_max"]
    both = 2.5 * own
    passing, failing = gate(3 * own), gate(2 * own)
    report = of_seeds(one_seed, passing, failing, sweep_epsilon_max=both)
    assert [(one["outcome"], one["value"]) for one in report["gates"]] == [
        ("pass", both),
        ("fail", both),
    ]
    assert "gates-failed" in [one["code"] for one in report["answer"]["reasons"]]
    assert everywhere(report) == {both}
    assert f"an epsilon of {at_most(both, digits=4)} against" in report["verdict_parts"]["cost"]
    [claim] = claimed(report)["declarations"]["claims"]
    assert report["verdict_parts"]["cost"] in claim["predicate"]
    # Losses ended this seed: what is proven of all is not known.
    report["privacy"] |= {"epsilon_planned": own}
    report["utility"]["stopped_by"] = "patience"
    assert [one["outcome"] for one in evaluate([passing, failing], report)] == [LACKS, "fail"]


def test_without_a_sum_over_seeds_nothing_is_protected(one_seed) -> None:
    own = one_seed["privacy"]["epsilon_max"]
    report = of_seeds(one_seed, gate(9 * own))
    [found] = report["gates"]
    assert (found["outcome"], found["value"]) == (LACKS, None)
    assert "guarantee-bounds-nothing" in [one["code"] for one in report["answer"]["reasons"]]
    assert "No figure bounds what all seeds cost together" in report["verdict_parts"]["cost"]
    assert "rotected: a client" not in report["verdict"]
    assert stored_figures(report)["epsilon_max"] is None
    deployment = registry(report)["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {}


def test_the_charge_and_the_sum_of_metric_privacy_are_of_all_seeds(material) -> None:
    report = copy.deepcopy(assemble(material(FIXED)))
    report = of_seeds(report, sweep_log_ratio_max=40.0, sweep_leakage=30.0)
    assert (proven_cost(report, "log_ratio_max")[0], proven_cost(report, "leakage_max")[0]) == (
        40.0,
        30.0,
    )
    gates = [gate(35.0, figure=name) for name in ("log_ratio_max", "leakage_max", "leakage_median")]
    assert [one["outcome"] for one in evaluate(gates, report)] == ["fail", "pass", LACKS]
    cost = judged(report)["verdict_parts"]["cost"]
    assert "and 30 in all by all seeds; proven over all datasets of a client is only 40" in cost


def test_a_gate_that_an_earlier_version_passed_by_one_seed_releases_nothing(one_seed) -> None:
    own = one_seed["privacy"]["epsilon_max"]
    passed = gate(2 * own)
    report = of_seeds(one_seed, passed, sweep_epsilon_max=2.5 * own)
    signed = {**report, "repeats": None}
    signed |= {"gates": evaluate([passed], signed), "gate_outcome": "pass"}
    signed["repeats"] = report["repeats"]
    assert "gate-of-one-seed" in [one.code for one in answer_of(signed).reasons]
    assert {one.outcome for one in gate_checks([passed], signed)} == {"pass"}
