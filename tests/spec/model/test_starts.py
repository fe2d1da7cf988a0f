"""The start of training: what a spec has that names none, and what cannot be started from."""

from typing import Any

import pytest

from fedaudit.spec.disclosure import DisclosurePolicy, spec_faults
from fedaudit.spec.experiment import spec_hash
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.registration import departures, parse_registration
from tests.spec.documents import HOSPITAL, IMAGES, TABLE, changed, fault
from tests.training.specs import groups_spec


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (TABLE, "zeros"),
        (changed(TABLE, {"training.hypotheses": 2}), "uniform"),
        (changed(TABLE, {"model": {"kind": "linear"}, "training.loss": "mse"}), "zeros"),
        (changed(IMAGES, {"model": {"kind": "logistic"}}), "zeros"),
        (HOSPITAL, "uniform"),
        (IMAGES, "uniform"),
        (groups_spec(), "normal"),
        (groups_spec(training__hypotheses=1), "normal"),
    ],
)
def test_a_spec_that_names_no_start_has_one_that_trains(
    document: dict[str, Any], expected: str
) -> None:
    assert parse_spec(document).model.start == expected


@pytest.mark.parametrize("document", [HOSPITAL, TABLE, IMAGES, groups_spec()])
def test_a_stored_spec_keeps_the_start_that_it_had_before_there_was_a_choice(
    document: dict[str, Any],
) -> None:
    stored = parse_spec(document).model_dump(mode="json")
    stored["model"].pop("start", None)
    found = parse_spec(stored)
    assert found.model.start == ("uniform" if found.model.has_hidden_layers else "normal")
    assert found.model_dump(mode="json") == stored


@pytest.mark.parametrize("start", ["zeros", "normal", "uniform"])
def test_every_start_survives_storing(start: str) -> None:
    spec = parse_spec(changed(TABLE, {"model.start": start}))
    again = parse_spec(spec.model_dump(mode="json"))
    assert again.model.start == start
    assert spec_hash(again) == spec_hash(spec)


def test_starts_are_told_apart_by_their_hash() -> None:
    hashes = {
        spec_hash(parse_spec(changed(TABLE, {"model.start": start})))
        for start in ("zeros", "normal", "uniform")
    }
    assert len(hashes) == 3
    assert spec_hash(parse_spec(TABLE)) in hashes


@pytest.mark.parametrize(
    ("document", "remedy"),
    [
        (changed(TABLE, {"training.hypotheses": 2}), "`uniform` or `normal`"),
        (changed(HOSPITAL, {"training.hypotheses": 1}), "use `uniform`"),
    ],
)
def test_zeros_are_refused_where_nothing_would_be_learnt(
    document: dict[str, Any], remedy: str
) -> None:
    where, message = fault(changed(document, {"model.start": "zeros"}))
    assert where == "/model/start"
    assert remedy in message


def test_another_word_is_refused_with_those_that_there_are() -> None:
    where, message = fault(changed(TABLE, {"model.start": "glorot"}))
    assert where == "/model/start"
    assert "'zeros', 'normal' or 'uniform'" in message


def test_who_may_not_read_data_chooses_no_parameters() -> None:
    """A loss at parameters of one's own choice can tell a single row apart."""
    source = {
        name: TABLE["federation"][name] for name in ("source", "path", "client_key", "target")
    }
    registration = parse_registration({"name": "a", "federation": source})
    chosen = parse_spec(changed(TABLE, {"model.start": {"artifact": "0" * 64}}))
    found = departures(chosen, registration, known_groups=())
    assert [one.pointer for one in found] == ["/model/start"]
    assert departures(parse_spec(TABLE), registration, known_groups=()) == []
    policy = DisclosurePolicy(source="registered")
    faults = spec_faults(policy, chosen, registration=registration)
    assert [one.pointer for one in faults] == ["/model/start"]
    assert spec_faults(DisclosurePolicy(), chosen, registration=registration) == []
