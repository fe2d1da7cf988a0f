"""Noise and rounding of counts in the spec: what is refused, where, and what is the default."""

from typing import Any

import pytest

from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
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
        ({"fairness__noise": {**CLIENT, "mechanism": "laplace"}}, "/fairness/noise/mechanism"),
        ({"fairness__noise": CLIENT, "fairness__rounding": {"base": 5}}, "/fairness/rounding"),
        (
            {
                "fairness__noise": {**CLIENT, "rounds": True},
                "training__stopping": {"validation_clients": 3},
            },
            "/fairness/noise/rounds",
        ),
        ({"fairness__rounding": {"base": 0}}, "/fairness/rounding/base"),
        ({"fairness": {"noise": CLIENT}}, "/fairness/sensitive"),
        ({"fairness": {"sensitive": ["group"], "noise": CLIENT}}, "/fairness/favourable"),
    ],
)
def test_a_combination_that_would_promise_too_much_is_refused_at_its_field(
    changes: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_spec(groups_spec(**changes))
    assert pointer in {one.pointer for one in refused.value.errors}


def test_counts_are_rounded_by_default_where_the_model_is_released() -> None:
    released = groups_spec(privacy__noise="release")
    found = parse_spec(released).fairness.rounding
    assert found is not None
    assert found.base == 5
    assert parse_spec(groups_spec()).fairness.rounding is None
    off = groups_spec(privacy__noise="release", fairness__rounding=None)
    assert parse_spec(off).fairness.rounded_to is None
    noised = groups_spec(privacy__noise="release", fairness__noise=CLIENT)
    assert parse_spec(noised).fairness.rounding is None


def test_a_spec_that_was_stored_before_there_was_rounding_stays_what_it_was() -> None:
    stored = parse_spec(groups_spec(privacy__noise="release")).model_dump(mode="json")
    del stored["fairness"]["rounding"]
    spec = parse_spec(stored)
    assert spec.fairness.rounded_to is None
    assert spec.model_dump(mode="json") == stored
    off = parse_spec(groups_spec(privacy__noise="release", fairness__rounding=None))
    assert spec_hash(off) != spec_hash(spec), "what was chosen is told from what was not asked"
    assert parse_spec(off.model_dump(mode="json")).fairness.rounded_to is None


@pytest.mark.parametrize("noise", ["release", "simulation"])
def test_the_form_with_every_default_has_the_same_hash(noise: str) -> None:
    spec = parse_spec(groups_spec(privacy__noise=noise))
    assert spec_hash(parse_spec(spec.model_dump(mode="json"))) == spec_hash(spec)


def test_one_record_must_not_move_the_features_of_others() -> None:
    table = {
        "source": "table",
        "path": "people.csv",
        "client_key": "town",
        "target": "y",
        "standardise": "client",
    }
    noised = {
        "federation": table,
        "fairness__sensitive": ["sex"],
        "fairness__favourable": {"op": "ge", "value": 1},
        "training__hypotheses": 1,
    }
    with pytest.raises(InvalidInputError) as refused:
        parse_spec(groups_spec(**noised, fairness__noise=RECORD))
    [fault] = refused.value.errors
    assert fault.pointer == "/fairness/noise/unit"
    assert "constants under `scale`" in fault.message
    parse_spec(groups_spec(**noised, fairness__noise=CLIENT))


def test_a_spec_that_a_person_wrote_out_is_rounded_all_the_same() -> None:
    written = groups_spec(
        privacy__noise="release",
        fairness__edges={},
        fairness__intervals=None,
        fairness__minimum_group_size=30,
    )
    assert parse_spec(written).fairness.rounded_to == 5
