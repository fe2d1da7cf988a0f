"""Spread over seeds, the best row, the front."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedaudit.reports.figures import direction
from fedaudit.sweeps.sweep_table import (
    ABSENT,
    LARGEST,
    ONE_SEED,
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
