"""Sweeps: spread over seeds, the best row, the front, and what runs cost together."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, composed_epsilon
from fedaudit.privacy.unit_key import MADE_UP
from fedaudit.reports.figures import direction
from fedaudit.stored import ReservedCost
from fedaudit.sweeps.sweep_costs import NOT_IN_FORCE, cost_cautions, sweep_costs
from fedaudit.sweeps.sweep_table import (
    ABSENT,
    LARGEST,
    ONE_SEED,
    OTHER_TERMS,
    SURVIVORS,
    CellFigures,
    SweepTable,
    as_csv,
    as_markdown,
    figure_words,
    spread,
    sweep_table,
    value_words,
    varied_fields,
)

FINITE = st.integers(-1_000_000, 1_000_000).map(float)


def cells(
    losses: dict[int, Sequence[float | None]], *, degenerate: frozenset[int] = frozenset()
) -> list[CellFigures]:
    """By nu, the losses of its seeds; the cost falls with nu."""
    return [
        CellFigures(
            experiment_id=f"{nu}-{seed}",
            values={"privacy.noise_multiplier": nu, "seed": seed},
            succeeded=loss is not None,
            degenerate=nu in degenerate,
            figures={} if loss is None else {"validation_loss": loss, "leakage_max": 10 / nu},
            cost_terms={"leakage": "radius adaptive"},
        )
        for nu, of_seeds in losses.items()
        for seed, loss in enumerate(of_seeds)
    ]


@given(st.lists(FINITE, min_size=2, max_size=30))
def test_the_interval_is_students(values: list[float]) -> None:
    found = spread("validation_loss", values)
    if len(set(values)) == 1:
        assert found["low"] == pytest.approx(found["high"])
        return
    low, high = stats.t.interval(
        0.95, len(values) - 1, loc=math.fsum(values) / len(values), scale=stats.sem(values)
    )
    assert found["low"] == pytest.approx(low, rel=1e-6, abs=1e-6)
    assert found["high"] == pytest.approx(high, rel=1e-6, abs=1e-6)


def test_one_seed_has_no_interval_and_none_no_mean() -> None:
    unknown = dict.fromkeys(("standard_deviation", "low", "high"))
    assert spread("validation_loss", [2.0]) == {"n": 1, "mean": 2.0, **unknown}
    assert spread("validation_loss", [])["mean"] is None
    assert spread("validation_loss", [math.inf, 1.0])["n"] == 1


def of_rows(table: SweepTable, name: str) -> list[Any]:
    return [row[name] for row in table["rows"]]  # type: ignore[literal-required]


def best(table: SweepTable) -> list[bool]:
    """Whether the loss of each row is the best."""
    return [figures["validation_loss"]["best"] for figures in of_rows(table, "figures")]


SURE: dict[int, Sequence[float | None]] = {1: [1.0, 1.01, 0.99], 3: [2.0, 2.01, 1.99]}


def test_best_is_what_lies_beyond_every_other_interval() -> None:
    assert best(sweep_table(cells(SURE))) == [True, False]
    # The interval of the third row reaches over both.
    assert best(sweep_table(cells({**SURE, 9: [1.5, 9.0, 4.0]}))) == [False, False, False]


def test_losses_that_are_measured_otherwise_have_no_best() -> None:
    losses = {1: "mse", 3: "rmse"}
    measured = [
        replace(cell, values={"training.loss": losses[cell.values["privacy.noise_multiplier"]]})
        for cell in cells(SURE)
    ]
    assert best(sweep_table(measured)) == [False, False]


@pytest.mark.parametrize(
    ("varied", "figure", "same"),
    [
        ("federation.scale.earnings.deviation", "validation_loss", False),
        ("federation.scale.earnings.deviation", "loss_difference[sex]", False),
        ("federation.scale.earnings.deviation", "accuracy", True),
        ("federation.target", "accuracy", False),
        ("federation.path", "equalized_odds_difference[sex]", False),
        ("federation.features", "validation_loss", True),
        ("fairness.favourable.value", "recall", False),
        ("fairness.favourable.value", "validation_loss", True),
        ("training.method", "accuracy", False),
        ("training.method.kind", "validation_loss", False),
        ("training.method.steps", "validation_loss", True),
        ("decision.threshold", "recall", True),
    ],
)
def test_best_is_only_what_answers_the_same_question(varied: str, figure: str, same: bool) -> None:
    measured = [
        replace(
            cell,
            values={varied: cell.values["privacy.noise_multiplier"]},
            figures={figure: (cell.figures["validation_loss"] or 0.0) / 4},
        )
        for cell in cells(SURE)
    ]
    table = sweep_table(measured)
    assert any(figures[figure]["best"] for figures in of_rows(table, "figures")) is same
    assert table["front_figures"] == ([figure] if same and figure != "recall" else [])


@pytest.mark.parametrize("losses", [{1: [1.0], 3: [2.0]}, {1: [1.0, 1.1], 3: [2.0]}])
def test_without_intervals_nothing_is_best(losses: dict[int, list[float | None]]) -> None:
    table = sweep_table(cells(losses))
    assert best(table) == [False, False]
    assert (ONE_SEED in table["notes"]) is (len(losses[1]) == 1)


def test_a_degenerate_row_is_neither_best_nor_on_the_front() -> None:
    table = sweep_table(cells({**SURE, 9: [0.1, 0.11]}, degenerate=frozenset({9})))
    assert best(table) == [False, False, False]
    # Nor does it hide the others, which it would dominate.
    assert of_rows(table, "front") == [True, True, False]
    assert of_rows(table, "degenerate") == [0, 0, 2]


def test_the_front_is_what_nothing_dominates() -> None:
    table = sweep_table(cells({1: [1.0], 3: [2.0], 9: [3.0], 10: [9.0], 11: [4.0]}))
    assert table["front_figures"] == ["leakage_max", "validation_loss"]
    # The fourth leaks more than the fifth, and predicts worse.
    assert of_rows(table, "front") == [True, True, True, False, True]


def test_cells_that_did_not_end_count_as_seeds_without_figures() -> None:
    table = sweep_table(cells({1: [1.0, None, 1.2]}))
    [row] = table["rows"]
    assert (row["seeds"], row["succeeded"], row["figures"]["validation_loss"]["n"]) == (3, 2, 2)


def test_survivors_are_not_best() -> None:
    table = sweep_table(cells({**SURE, 1: [1.0, 1.01, None]}))
    assert best(table) == [False, False]
    assert of_rows(table, "front") == [False, True]
    assert SURVIVORS in table["notes"]


def test_a_cost_is_never_shown_smaller_than_it_is() -> None:
    [row] = sweep_table(cells({3: [2 / 3, 2 / 3]}))["rows"]
    assert figure_words(row, "leakage_max") == "3.334"
    assert figure_words(row, "validation_loss").startswith("0.6667 (")


def test_the_costs_of_seeds_have_no_mean() -> None:
    costs = (1.4, 2.3, 1.9)
    terms = {"epsilon": "delta 1e-05"}
    table = sweep_table(
        [CellFigures(f"{one}", {"seed": one}, True, False, {"epsilon_max": one}, terms)
         for one in costs]
    )  # fmt: skip
    [row] = table["rows"]
    found = row["figures"]["epsilon_max"]
    assert (found["mean"], found["low"], found["high"]) == (2.3, 2.3, 2.3)
    assert LARGEST in table["notes"]


def test_directions() -> None:
    assert direction("accuracy") == direction("demographic_parity_ratio[sex]") == "higher"
    assert direction("epsilon_max") == direction("equalized_odds_difference[sex]") == "lower"
    assert direction("participations_max") is direction("selection_loss") is None


def row_of(values: dict[str, Any]) -> SweepTable:
    return sweep_table([CellFigures("a", values, True, False, {"accuracy": 0.5}, {})])


def test_an_object_of_a_spec_is_no_json_in_a_table() -> None:
    table = row_of({"privacy": {"mechanism": "laplace-l2", "per_layer": True}})
    assert as_csv(table).splitlines()[0].startswith("privacy.mechanism,privacy.per_layer,seeds")
    assert as_csv(table).splitlines()[1].startswith("laplace-l2,true,1")
    assert as_markdown(table).splitlines()[2].startswith("| laplace-l2 | true | 1 of 1")


def test_text_from_data_is_no_formula_and_no_markup() -> None:
    table = row_of({"federation.path": "=1+1|x"})
    assert "'=1+1|x" in as_csv(table)
    assert "=1+1|x" not in as_markdown(table)


def test_an_object_is_a_column_for_each_of_its_fields() -> None:
    rows = [
        {"privacy": {"mechanism": "none"}, "seed": 1},
        {"privacy": {"mechanism": "laplace-l2", "cohort": {"rate": 0.5}}, "seed": 2},
        {"privacy": None, "seed": 3},
    ]
    assert varied_fields(rows) == {
        "privacy.mechanism": ["none", "laplace-l2", ABSENT],
        "privacy.cohort.rate": [ABSENT, 0.5, ABSENT],
        "privacy": [ABSENT, ABSENT, None],
        "seed": [1, 2, 3],
    }


def test_values_are_shown_as_a_spec_has_them() -> None:
    assert [*map(value_words, ("k-means", None, True, 0.5, ["a"], ABSENT))] == [
        *("k-means", "null", "true", "0.5", '["a"]', "")
    ]


VALUES = [0.99, 0.97, 1.0, 0.9]


@pytest.mark.parametrize("name", ["accuracy", "equalized_odds_difference[sex]"])
def test_a_share_goes_no_further_than_it_can(name: str) -> None:
    found, loss = spread(name, VALUES), spread("validation_loss", VALUES)
    assert (loss["high"] or 0) > 1
    assert found["high"] == 1.0
    assert found["low"] == loss["low"]
    assert spread(name, [0.0, 0.01])["low"] == 0.0


# -- what runs cost together: only what one theorem composes over all has a figure ----------------


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
    of_report = replace(ONE, observer="report", amount=0.5)
    unprotected = {**FACTS, "cost_kinds": ["unbounded"]}
    costs = sweep_costs([ONE, of_report], runs=["a"], facts=unprotected)
    assert [one["observer"] for one in costs["epsilon"]] == ["report"]
    assert costs["reasons"]["epsilon"]
    # Of cells without a mechanism the figures of the report alone may have noise.
    facts: Any = {**unprotected, "noises": ["simulation"], "conditions": []}
    facts |= {"leakage_conditions": []}
    assert list(cost_cautions(facts, costs)) == [NOT_IN_FORCE]
    costs = sweep_costs([], runs=["a"], facts=unprotected)
    assert list(cost_cautions(facts, costs)) == []


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
