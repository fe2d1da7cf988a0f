"""Policies: what a file of them may hold, and how faults are named."""

from pathlib import Path

import pytest

from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.gates import PLAIN_FIGURES, parse_policies
from tests.refusals import refused_by

EXAMPLES = Path(__file__).parents[2] / "examples"
GATE = {"figure": "leakage_max", "op": "le", "value": 40}
FAIR = {"figure": "equalized_odds_difference", "attribute": "sex", "op": "le", "value": 0.1}


@pytest.mark.parametrize(
    ("value", "names", "experiment_id"),
    [
        ([GATE, FAIR], [None], None),
        ({"gates": [GATE, FAIR]}, [None], None),
        ({"experiment_id": "e", "gates": [GATE, FAIR]}, [None], "e"),
        ({"name": "strict", "gates": [GATE, FAIR]}, ["strict"], None),
        (
            {
                "experiment_id": "e",
                "policies": [
                    {"name": "a.1", "description": "For\nall.", "gates": [GATE, FAIR]},
                    {"name": "B_2", "gates": [GATE, FAIR]},
                ],
            },
            ["a.1", "B_2"],
            "e",
        ),
    ],
)
def test_every_form_of_a_file(value, names, experiment_id):
    found = parse_policies(value)
    assert [name for name, _ in found.to_evaluate] == names
    assert found.experiment_id == experiment_id
    for _, gates in found.to_evaluate:
        assert [gate.figure for gate in gates] == [GATE["figure"], FAIR["figure"]]


@pytest.mark.parametrize(
    ("value", "pointer", "message"),
    [
        ("text", "", "must be an object"),
        ({}, "", "either `gates` or `policies`"),
        ({"gates": [GATE], "policies": [{"name": "a", "gates": [GATE]}]}, "", "either"),
        ({"gates": 3}, "/gates", "must be a list"),
        ({"gates": []}, "/gates", "at least 1"),
        ([], "/gates", "at least 1"),
        ([1], "/gates/0", "must be an object"),
        ([{**GATE, "figure": "beauty"}], "/gates/0/figure", "leakage_max"),
        ({"gates": [{**GATE, "attribute": "sex"}]}, "/gates/0/attribute", "leave it out"),
        ({"gates": [{**GATE, "value": "x"}]}, "/gates/0/value", "must be a number"),
        ({"gates": [GATE], "gate": []}, "/gate", "unknown field"),
        ({"name": "no spaces", "gates": [GATE]}, "/name", "pattern"),
        ({"name": "x", "policies": [{"name": "a", "gates": [GATE]}]}, "/name", "move it there"),
        ({"policies": []}, "/policies", "at least 1"),
        ({"policies": [{"name": "a", "gates": []}]}, "/policies/0/gates", "at least 1"),
        ({"policies": [{"gates": [GATE]}]}, "/policies/0/name", "is required"),
        ({"policies": [{"name": "a", "gates": [GATE]}] * 2}, "/policies/1/name", "given twice"),
        ({"experiment_id": 7, "gates": [GATE]}, "/experiment_id", "must be a text"),
        ({"description": "a\x00b", "gates": [GATE]}, "/description", "pattern"),
    ],
)
def test_faults_are_named(value, pointer, message):
    with pytest.raises(InvalidInputError) as refused:
        parse_policies(value)
    assert pointer in [error.pointer for error in refused.value.errors]
    assert message in str(refused.value)


@pytest.mark.parametrize("nested", [True, False])
def test_a_share_in_percent_is_refused(nested):
    gates = [{**GATE, "figure": "equalized_odds_difference", "op": "le", "value": 10}]
    value = {"policies": [{"name": "a", "gates": gates}]} if nested else gates
    [fault] = refused_by(parse_policies, value)
    assert fault.pointer == ("/policies/0" if nested else "") + "/gates/0/value"
    assert fault.message.endswith("for 10 % write 0.1")


UNBOUNDED = {
    *("leakage_max", "leakage_median", "log_ratio_max", "participations_max", "epsilon_max"),
    *("validation_loss", "loss_under_baseline", "sweep_epsilon_max", "sweep_log_ratio_max"),
    *("epsilon_lower_bound", "nu_protecting"),
}


def test_every_plain_figure_but_these_is_a_share():
    refused = set()
    for figure in PLAIN_FIGURES:
        try:
            parse_policies([{"figure": figure, "op": "ge", "value": 70}])
        except InvalidInputError:
            refused.add(figure)
    assert PLAIN_FIGURES.keys() - refused == UNBOUNDED
