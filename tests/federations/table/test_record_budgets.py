"""The column of a table that gives every record a privacy budget."""

from typing import Any

import pytest

from tests.federations.conftest import Load, Refuse

PATIENTS = "hospital,age,epsilon,cost\n" + "".join(
    f"{hospital},{age},{epsilon},{cost}\n"
    for hospital, age, epsilon, cost in (
        ("b", 50, 0.5, 1),
        ("a", 60, 2, 2),
        ("b", 70, 1e-3, 3),
        ("a", 40, 30, 4),
        ("a", 30, 0.25, 5),
    )
)
BUDGETS: dict[str, Any] = {
    "training": {
        "loss": "mse",
        "rounds": 1,
        "cohort": {"sampling": "poisson", "rate": 1},
        "local": {"steps": 1},
    },
    "privacy": {
        "mechanism": "record-personalised",
        "budgets": {"column": "epsilon"},
        "delta": 1e-3,
    },
}
POINTER = "/privacy/budgets/column"


def test_budgets_stand_beside_their_rows_and_are_no_feature(load: Load) -> None:
    federation = load(BUDGETS, data=PATIENTS)
    assert federation.feature_names == ("age",)
    assert federation.record_budgets is not None
    assert federation.record_budgets.tolist() == [2, 30, 0.25, 0.5, 1e-3]


def test_budgets_of_rows_that_are_left_out_are_left_out_too(load: Load) -> None:
    changes = BUDGETS | {"federation.features": [{"name": "age", "missing": "drop-row"}]}
    federation = load(changes, data=PATIENTS.replace("a,60,2", "a,,0"))
    assert federation.record_budgets is not None
    assert federation.record_budgets.tolist() == [30, 0.25, 0.5, 1e-3]


def test_without_a_column_there_are_none(load: Load) -> None:
    assert load({}, data=PATIENTS).record_budgets is None
    privacy = BUDGETS["privacy"] | {"budgets": {"distribution": "three-levels"}}
    federation = load(BUDGETS | {"privacy": privacy}, data=PATIENTS)
    assert federation.record_budgets is None
    assert federation.feature_names == ("age", "epsilon")


@pytest.mark.parametrize(
    ("cell", "problem"),
    [
        ("0", "not above 0"),
        ("-1", "not above 0"),
        ("", "is empty"),
        ("NaN", "is not finite"),
        ("inf", "is not finite"),
        ("much", "is not a number"),
    ],
)
def test_a_cell_that_is_no_budget_is_refused_by_its_row(
    refuse: Refuse, cell: str, problem: str
) -> None:
    faults = refuse(BUDGETS, data=PATIENTS.replace("a,40,30", f"a,40,{cell}"))
    assert list(faults) == [POINTER]
    assert faults[POINTER].startswith("row 4 of column 'epsilon' ")
    assert problem in faults[POINTER]
    assert "much" not in faults[POINTER]


def test_a_column_that_is_not_there_is_refused(refuse: Refuse) -> None:
    privacy = BUDGETS["privacy"] | {"budgets": {"column": "consent"}}
    faults = refuse(BUDGETS | {"privacy": privacy}, data=PATIENTS)
    assert "no column 'consent'" in faults[POINTER]
