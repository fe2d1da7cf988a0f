"""What runs cost together: only what one theorem composes over all of them has a figure."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, composed_epsilon
from fedaudit.privacy.unit_key import MADE_UP
from fedaudit.stored import ReservedCost
from fedaudit.sweeps.sweep_costs import sweep_costs
from fedaudit.sweeps.sweep_table import OTHER_TERMS, CellFigures, SweepTable, sweep_table

CURVE = 0.01 * np.array(RDP_ORDERS)
FACTS = {"cost_kinds": ["epsilon"], "noises": ["release"], "guarantees": ["formal"]}
LEAKAGE = {**FACTS, "cost_kinds": ["leakage"]}
ONE = ReservedCost(
    experiment_id="a",
    federation_id="f",
    figure="epsilon",
    observer="server",
    adjacency="replace-one",
    unit="client",
    unit_key="",
    delta=1e-5,
    amount=0.3,
    curve=CURVE,
)


def test_the_smallest_delta_makes_the_statement_for_other_people_too() -> None:
    """Else a cell with a large delta would hide beside one that costs more at its small one."""
    one = replace(ONE, unit_key=MADE_UP, delta=1e-9)
    cheaper = replace(one, experiment_id="b", federation_id="g", amount=0.1)
    [found] = sweep_costs([one, cheaper], runs=["a", "b"], facts=FACTS)["epsilon"]
    assert found["value"] == 0.3, "of runs on other people, what the dearest costs"
    other = replace(one, experiment_id="b", federation_id="g", amount=0.1, delta=0.02)
    other = replace(other, curve=4 * CURVE)
    [found] = sweep_costs([one, other], runs=["a", "b"], facts=FACTS)["epsilon"]
    assert (found["delta"], found["cell_max"]) == (1e-9, 0.3)
    assert found["value"] == composed_epsilon(4 * CURVE, 1e-9) > 0.3


def test_copies_of_a_file_are_no_other_people() -> None:
    """A line more makes another file, and a sweep over both would seem to cost half."""
    copy = replace(ONE, experiment_id="b", federation_id="g")
    for delta in (1e-5, 1e-7):  # the smallest makes the statement
        both = [ONE, replace(copy, delta=delta)]
        [found] = sweep_costs(both, runs=["a", "b"], facts=FACTS)["epsilon"]
        assert found["delta"] == delta
        assert found["value"] == pytest.approx(composed_epsilon(2 * CURVE, delta))
    reserved = [
        replace(one, figure=figure, amount=3.0, curve=None)
        for one in (ONE, copy)
        for figure in ("leakage", "log_ratio")
    ]
    costs = sweep_costs(reserved, runs=["a", "b"], facts=LEAKAGE)
    assert (costs["leakage"], costs["log_ratio_max"]) == (6.0, 6.0)


def test_rounds_that_were_charged_again_count() -> None:
    more = replace(ONE, curve=3 * CURVE, enlarged=True)
    [found] = sweep_costs([more], runs=["a"], facts=FACTS)["epsilon"]
    assert found["value"] == found["cell_max"] == composed_epsilon(3 * CURVE, 1e-5) > 0.3


def test_what_reports_reveal_of_the_held_out_is_counted_apart() -> None:
    told = replace(ONE, observer="report", amount=0.5)
    unprotected = {**FACTS, "cost_kinds": ["unbounded"]}
    costs = sweep_costs([ONE, told], runs=["a"], facts=unprotected)
    assert [one["observer"] for one in costs["epsilon"]] == ["report"]
    assert costs["reasons"]["epsilon"]


def table(*terms: dict[str, str], **figures: float) -> SweepTable:
    """Two rows of three seeds, the first of which costs and errs less beyond doubt."""
    return sweep_table(
        [
            CellFigures(
                experiment_id=f"{row}-{seed}",
                values={"privacy.delta": row, "seed": seed},
                succeeded=True,
                degenerate=False,
                figures={"epsilon_max": 1 + row + seed / 100, "validation_loss": 5 + row}
                | {name: at_row * row for name, at_row in figures.items()},
                cost_terms=terms[row],
            )
            for row in (0, 1)
            for seed in range(3)
        ]
    )


SMALL, LARGE = {"epsilon": "server, delta 1e-9"}, {"epsilon": "server, delta 0.01"}


def test_the_same_terms_have_a_best_row() -> None:
    found = table(SMALL, SMALL)
    assert found["rows"][0]["figures"]["epsilon_max"]["best"]
    assert found["front_figures"] == ["epsilon_max", "validation_loss"]
    assert OTHER_TERMS not in found["notes"]


def test_figures_of_the_people_held_out_have_no_better_end() -> None:
    names = ("baseline_loss", "baseline_accuracy", "rounds")
    rows = table(SMALL, SMALL, **dict.fromkeys(names, 1.0))["rows"]
    assert not any(row["figures"][name]["best"] for row in rows for name in names)


@pytest.mark.parametrize("other", [LARGE, {}, {"leakage": "radius 0.5"}])
def test_other_terms_have_none(other: dict[str, str]) -> None:
    found = table(SMALL, other)
    assert not any(row["figures"]["epsilon_max"]["best"] for row in found["rows"])
    assert found["rows"][0]["figures"]["validation_loss"]["best"]
    assert found["front_figures"] == ["validation_loss"]
    assert OTHER_TERMS in found["notes"]


LEAKED = replace(ONE, figure="leakage", curve=None)
BESIDE = replace(ONE, experiment_id="b")
DEALT_ANEW = [
    replace(ONE, figure=figure, experiment_id=run, unit_key=f"seed {run}", curve=None)
    for run in "ab"
    for figure in ("leakage", "log_ratio")
]
"""Each seed divides the same rows into other clients."""


@pytest.mark.parametrize(
    ("reserved", "facts", "figure", "why"),
    [
        ([ONE, replace(BESIDE, adjacency="add-or-remove-one")], FACTS, "epsilon", "no theorem"),
        ([ONE, replace(BESIDE, unit="record")], FACTS, "epsilon", "no theorem"),
        ([ONE, replace(BESIDE, observer="final_model")], FACTS, "epsilon", "no theorem"),
        ([ONE, replace(BESIDE, unit_key="other")], FACTS, "epsilon", "no theorem"),
        ([ONE, BESIDE], {**FACTS, "noises": ["release", "simulation"]}, "epsilon", "simulated"),
        ([ONE], FACTS, "epsilon", "composes"),
        ([LEAKED], LEAKAGE, "leakage", "no noise that can be counted"),
        ([LEAKED, replace(LEAKED, experiment_id="b")], LEAKAGE, "log_ratio_max", "clip"),
        (DEALT_ANEW, LEAKAGE, "leakage", "divide the same data into clients"),
        (DEALT_ANEW, LEAKAGE, "log_ratio_max", "divide the same data into clients"),
    ],
)
def test_what_no_theorem_bounds_has_no_figure_and_says_why(
    reserved: list[ReservedCost], facts: dict[str, list[str]], figure: str, why: str
) -> None:
    costs: dict[str, Any] = {**sweep_costs(reserved, runs=["a", "b"], facts=facts)}
    assert costs[figure] in (None, [])
    assert why in costs["reasons"][figure]
