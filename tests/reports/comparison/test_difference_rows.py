"""What specs say differently, as rows: no cell holds a list of objects."""

from fedaudit.reports.comparison.compared_reports import difference_rows, spec_differences

GAP = {"figure": "equalized_odds_difference", "attribute": "race", "op": "le", "value": 0.1}
COST = {
    "figure": "leakage_max",
    "attribute": None,
    "op": "le",
    "value": 40.0,
    "allow_heuristic": True,
    "allow_simulation": False,
}


def rows_of(*specs):
    """The rows by their labels."""
    found = [one.model_dump() for one in spec_differences(specs)]
    return {row.label: row.cells for row in difference_rows(found)}


def test_a_gate_is_a_row_with_the_bound_of_each_spec():
    strict = {**GAP, "value": 0.05}
    found = rows_of({"gates": [GAP, COST]}, {"gates": [strict, COST]}, {"gates": []}, {})
    assert found == {
        "gate: equalized odds difference by race, at most": ("0.1", "0.05", None, None),
        "gate: leakage max, at most": (*["40 (allowed: heuristic)"] * 2, None, None),
    }


def test_a_gate_says_everything_that_is_set_in_it():
    named = {**COST, "allow_simulation": True, "margin": 0.5, "note": None}
    [cells] = rows_of({"gates": [COST]}, {"gates": [named]}).values()
    assert cells[1] == "40 (allowed: heuristic, simulation; margin 0.5)"


def test_scalars_are_one_row_each_and_what_is_alike_is_left_out():
    rule = {"group": {"sex": "f"}, "op": "ge", "value": 1}
    one = {"seed": 1, "fairness": {"favourable": [rule, rule], "sensitive": ["sex", "race"]}}
    other = {"seed": 1, "fairness": {"favourable": [{**rule, "value": 2}], "sensitive": None}}
    found = rows_of(one, other)
    assert found == {
        "fairness.favourable[0].value": ("1", "2"),
        "fairness.favourable[1].group.sex": ("f", None),
        "fairness.favourable[1].op": ("ge", None),
        "fairness.favourable[1].value": ("1", None),
        "fairness.sensitive": ("sex, race", "not set"),
    }
    assert not any("{" in cell for cells in found.values() for cell in cells if cell)
