"""Which events of groups of records are accepted as those of a spec."""

import json
from dataclasses import replace
from typing import Any

import pytest

from fedaudit.privacy.accounting.epsilon_tables import RepeatedEvent
from fedaudit.privacy.accounting.privacy_events import MechanismParameters
from fedaudit.privacy.mechanisms.record_personalised import (
    RecordPersonalisedMechanism,
    TooManyEventsError,
    record_courses,
)
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.privacy import RecordPersonalised
from tests.privacy.mechanisms.specs import CLIENTS, records_of
from tests.privacy.specs_of_privacy import records_spec

N = 2


def inputs_and_names(spec: ExperimentSpec) -> tuple[MechanismParameters, tuple[str, ...]]:
    """What an honest ledger of the spec records."""
    mechanism = mechanism_of(spec)
    plan = mechanism.spending_plan(training_clients=3, names=CLIENTS, records=records_of(spec))
    return mechanism.inputs(n=N, plan=plan), plan.subjects


def accepted(spec: ExperimentSpec, **changes: Any) -> list[tuple[RepeatedEvent, ...]] | None:
    """The events of an honest ledger with these changes to each of its events, if accepted."""
    inputs, names = inputs_and_names(spec)
    kept = json.loads(inputs.event or "")
    for some in kept.values():
        for repeated in some:
            repeated["event"] |= changes
    return record_courses(spec, replace(inputs, event=json.dumps(kept)), N, names)


@pytest.mark.parametrize("baseline", [None, "filter", "uniform", "strong-for-all", "dropout"])
def test_honest_events_are_accepted(baseline: str | None) -> None:
    spec = records_spec(baseline)
    _, names = inputs_and_names(spec)
    found = accepted(spec)
    assert found is not None
    assert len(found) == len(names)


@pytest.mark.parametrize(
    ("baseline", "public"), [(None, True), ("filter", True), ("uniform", False)]
)
def test_noise_is_compared_where_the_mechanism_publishes_it(baseline, public):
    spec = records_spec(baseline)
    noise = mechanism_of(spec).noise_multiplier()
    assert isinstance(noise, float) == public
    for other in (77.0, noise * 1.001 if isinstance(noise, float) else 1.0):
        assert (accepted(spec, noise_multiplier=other) is None) == public


@pytest.mark.parametrize("change", ["one more", "one less", "another"])
def test_events_are_those_of_the_groups_by_name(change: str) -> None:
    spec = records_spec()
    inputs, names = inputs_and_names(spec)
    kept = json.loads(inputs.event or "")
    some = kept[names[0]] if change == "one more" else kept.pop(names[0])
    if change != "one less":
        kept["of nobody"] = some
    assert record_courses(spec, replace(inputs, event=json.dumps(kept)), N, names) is None


def test_the_noise_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, calls = records_spec(), []
    noise = RecordPersonalisedMechanism.noise_multiplier
    inputs, names = inputs_and_names(spec)
    kept = {name: some * 3 for name, some in json.loads(inputs.event or "").items()}

    def counted(mechanism: RecordPersonalisedMechanism) -> float | str:
        calls.append(mechanism)
        return noise(mechanism)

    monkeypatch.setattr(RecordPersonalisedMechanism, "noise_multiplier", counted)
    assert record_courses(spec, replace(inputs, event=json.dumps(kept)), N, names) is not None
    assert len(calls) == 1


@pytest.mark.parametrize(
    "spec",
    [records_spec("privacy-free"), records_spec(epsilon_min=1e-6, epsilon_max=1e-6)],
    ids=["no noise", "budgets that no noise keeps"],
)
def test_a_spec_without_events_accepts_none(spec: ExperimentSpec) -> None:
    assert isinstance(spec.privacy, RecordPersonalised)
    honest, names = inputs_and_names(records_spec())
    public = RecordPersonalisedMechanism(spec, spec.privacy).public_inputs(n=N)
    for inputs in (honest, replace(public, event=honest.event)):
        assert record_courses(spec, inputs, N, names) is None


def test_more_events_than_can_be_composed_are_not_called_wrong() -> None:
    spec = records_spec()
    inputs, names = inputs_and_names(spec)
    kept = {name: some * 5001 for name, some in json.loads(inputs.event or "").items()}
    with pytest.raises(TooManyEventsError, match="more than 5000 events"):
        record_courses(spec, replace(inputs, event=json.dumps(kept)), N, names)
