"""Noise and rounding of counts, and intersections of attributes."""

from typing import Any

import pytest

from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec, spec_hash
from fedaudit.spec.parse import parse_admitted, parse_spec, refuse_retired_training
from fedaudit.training.base.cell import Cell
from tests.refusals import refused_by
from tests.spec.documents import TABLE, changed, fault
from tests.training.federations import random_federation
from tests.training.specs import groups_spec

RECORD = {"mechanism": "discrete-laplace", "epsilon": 1, "unit": "record"}
CLIENT = {**RECORD, "unit": "client", "max_rows_per_client": 10}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"fairness__noise": {**RECORD, "unit": "client"}}, "/fairness/noise/max_rows_per_client"),
        (
            {"fairness__noise": {**RECORD, "max_rows_per_client": 3}, "training__hypotheses": 1},
            "/fairness/noise/max_rows_per_client",
        ),
        ({"fairness__noise": RECORD, "training__hypotheses": 2}, "/fairness/noise/unit"),
        (
            {"fairness__noise": CLIENT, "training__stopping": {"patience": 3}},
            "/training/stopping/patience",
        ),
        ({"fairness__noise": {**CLIENT, "mechanism": "gaussian"}}, "/fairness/noise/delta"),
        ({"fairness__noise": {**CLIENT, "delta": 1e-5}}, "/fairness/noise/delta"),
        ({"fairness__noise": {**CLIENT, "epsilon": 0}}, "/fairness/noise/epsilon"),
        (
            {"fairness__noise": {**CLIENT, "epsilon": 2.95}, "privacy__noise": "release"},
            "/fairness/noise/epsilon",
        ),
        ({"fairness__noise": {**CLIENT, "mechanism": "laplace"}}, "/fairness/noise/mechanism"),
        ({"fairness__noise": CLIENT, "fairness__rounding": {"base": 5}}, "/fairness/rounding"),
        ({"fairness__noise": {**CLIENT, "rounds": True}}, "/fairness/noise/rounds"),
        ({"fairness__rounding": {"base": 0}}, "/fairness/rounding/base"),
        ({"fairness": {"noise": CLIENT}}, "/fairness/sensitive"),
        ({"fairness": {"sensitive": ["group"], "noise": CLIENT}}, "/fairness/favourable"),
    ],
)
def test_a_combination_that_would_promise_too_much_is_refused_at_its_field(changes, pointer):
    assert pointer in {one.pointer for one in refused_by(parse_spec, groups_spec(**changes))}


def test_a_stored_epsilon_that_hides_no_count_is_read_and_not_trained_with() -> None:
    asked = groups_spec(fairness__noise=CLIENT)
    rehearsed = parse_admitted(changed(asked, {"fairness.noise.epsilon": 100.0}))
    refuse_retired_training(rehearsed)  # simulated noise replaces nothing
    stored = parse_admitted(
        {**rehearsed.model_dump(), "privacy": {**asked["privacy"], "noise": "release"}}
    )
    assert stored.fairness.noise is not None
    with pytest.raises(InvalidInputError, match="/fairness/noise/epsilon: 100 is too large"):
        refuse_retired_training(stored)


@pytest.mark.parametrize(
    ("changes", "base"),
    [
        ({}, None),
        ({"privacy__noise": "release"}, 5),
        ({"privacy__noise": "release", "fairness__rounding": None}, None),
        ({"privacy__noise": "release", "fairness__noise": CLIENT}, None),
        # What a person wrote out is no stored form.
        ({"privacy__noise": "release", "fairness__edges": {}, "fairness__intervals": None}, 5),
    ],
)
def test_counts_are_rounded_by_default_where_the_model_is_released(changes, base) -> None:
    found = parse_spec(groups_spec(**changes))
    assert found.fairness.rounded_to == base
    assert spec_hash(parse_spec(found.model_dump(mode="json"))) == spec_hash(found)


def test_a_spec_that_was_stored_before_there_was_rounding_stays_what_it_was() -> None:
    stored = parse_spec(groups_spec(privacy__noise="release")).model_dump(mode="json")
    del stored["fairness"]["rounding"]
    spec = parse_spec(stored)
    assert spec.fairness.rounded_to is None
    assert spec.model_dump(mode="json") == stored
    off = parse_spec(groups_spec(privacy__noise="release", fairness__rounding=None))
    assert spec_hash(off) != spec_hash(spec), "what was chosen differs from what was not asked"
    assert parse_spec(off.model_dump(mode="json")).fairness.rounded_to is None


def test_one_record_must_not_move_the_features_of_others() -> None:
    noised = {
        "federation": {**TABLE["federation"], "standardise": "client"},
        "fairness__sensitive": ["sex"],
        "fairness__favourable": {"op": "ge", "value": 1},
        "training__hypotheses": 1,
    }
    pointer, message = fault(groups_spec(**noised, fairness__noise=RECORD))
    assert pointer == "/fairness/noise/unit"
    assert "constants under `scale`" in message
    parse_spec(groups_spec(**noised, fairness__noise=CLIENT))


def test_one_record_must_not_move_which_others_are_scored() -> None:
    split = {"source": "synthetic-groups", "scoring": {"method": "split"}}
    document = groups_spec(federation=split, fairness__noise=RECORD, training__hypotheses=1)
    pointer, message = fault(document)
    assert pointer == "/federation/scoring"
    assert "other rows are scored" in message
    parse_spec(changed(document, {"fairness.noise": CLIENT}))
    stored = parse_admitted(document)
    with pytest.raises(InvalidInputError, match="other rows are scored"):
        Cell(stored, random_federation())


def document(fairness: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return changed(TABLE, {"fairness": fairness, **changes})


def spec(fairness: dict[str, Any], **changes: Any) -> ExperimentSpec:
    return parse_spec(document(fairness, **changes))


def test_intersections_are_named_after_their_parts_and_come_last() -> None:
    pairs = [["sex", "race"], ["age", "sex"]]
    fairness = spec({"sensitive": ["sex", "race", "age"], "intersections": pairs}).fairness
    assert fairness.attributes == ("sex", "race", "age", "sex_race", "age_sex")
    assert fairness.combinations == {"sex_race": ("sex", "race"), "age_sex": ("age", "sex")}


@pytest.mark.parametrize(
    ("sensitive", "intersections", "names"),
    [
        (["sex", "race", "sex_race"], [["sex", "race"]], ("sex x race",)),
        (["a", "a_b", "b_c", "c"], [["a_b", "c"], ["a", "b_c"]], ("a_b x c", "a x b_c")),
    ],
)
def test_a_name_that_is_taken_is_spelt_otherwise(sensitive, intersections, names) -> None:
    found = spec({"sensitive": sensitive, "intersections": intersections}).fairness
    assert found.attributes[len(sensitive) :] == names


@pytest.mark.parametrize(
    ("intersections", "pointer", "says"),
    [
        ([["sex", "job"]], "/fairness/intersections/0", "'job' is not in `sensitive`"),
        ([["sex", "race"], ["sex", "sex"]], "/fairness/intersections/1", "named twice"),
        ([["sex", "race"], ["race", "sex"]], "/fairness/intersections/1", "combined above"),
        ([["sex"]], "/fairness/intersections/0", "at least 2"),
        ([["sex", "race", "age", "a", "b"]], "/fairness/intersections/0", "at most 4"),
        ([["sex", "race"]] * 11, "/fairness/intersections", "at most 10"),
    ],
)
def test_what_cannot_be_combined(intersections: Any, pointer: str, says: str) -> None:
    sensitive = ["sex", "race", "age", "a", "b"]
    found, message = fault(document({"sensitive": sensitive, "intersections": intersections}))
    assert found == pointer
    assert says in message


def test_names_that_stay_ambiguous_are_refused() -> None:
    names = ["sex", "race", "sex_race", "sex x race"]
    pointer, message = fault(document({"sensitive": names, "intersections": [["sex", "race"]]}))
    assert pointer == "/fairness/intersections/0"
    assert "'sex x race'" in message


def test_gates_may_speak_of_an_intersection_or_of_every_attribute() -> None:
    fairness = {"sensitive": ["sex", "race"], "intersections": [["sex", "race"]]}
    gate = {"figure": "loss_ratio", "op": "ge", "value": 0.8}
    assert spec(fairness, gates=[{**gate, "attribute": "sex_race"}]).gates[0].compares_groups
    assert spec(fairness, gates=[gate]).gates[0].attribute is None
    pointer, message = fault(document(fairness, gates=[{**gate, "attribute": "race_sex"}]))
    assert pointer == "/gates/0/attribute"
    assert "`intersections`" in message


def test_an_outcome_is_declared_by_a_rule_or_by_classes() -> None:
    regression = {"model": {"kind": "linear"}, "training.loss": "rmse"}
    assert spec({"sensitive": ["sex"]}).declares_outcome
    assert not spec({"sensitive": ["sex"]}, **regression).declares_outcome
    rule = {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 1}}
    assert spec(rule, **regression).declares_outcome
