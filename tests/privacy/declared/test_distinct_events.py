"""The distinct events of a ledger are bounded, and a fault says what to do."""

from typing import Any

import pytest

from fedaudit.privacy.declared import round_faults
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Histories, charge_of
from fedaudit.privacy.declared.round_faults import MAX_EVENTS, SentReservation, read_rounds
from fedaudit.spec.declared_ledgers import GaussianRelease, LedgerTerms
from fedaudit.spec.errors import InvalidInputError

_TERMS = LedgerTerms.model_validate(
    {
        "name": "a training",
        "mechanism": "gaussian-local",
        "delta": 1e-5,
        "accountant": "rdp",
        "adjacency": "replace-one",
        "observer": "server",
        "unit": "client",
        "population": 10,
    }
)


def _event(place: int) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": 1.0 + place}


def _histories(events: int) -> Histories:
    found = Histories()
    places = found.enter(["a"])
    for place in range(events):
        release = GaussianRelease.model_validate(_event(place))
        found.charge(charge_of(_TERMS, release), places, steps=1)
    return found


def _posted(histories: Histories, *places: int) -> list[str]:
    rounds = [
        {"round": number, "event": _event(place), "participants": ["a"]}
        for number, place in enumerate(places, start=1)
    ]
    try:
        read_rounds({"rounds": rounds}, _TERMS, histories, Drawn())
    except InvalidInputError as error:
        return [one.pointer for one in error.errors]
    return []


def test_one_event_too_many_is_the_fault_of_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_faults, "MAX_EVENTS", 3)
    assert _posted(_histories(1), 1, 2, 1, 0) == []
    assert _posted(_histories(1), 1, 2, 3, 1, 4) == ["/rounds/2/event", "/rounds/4/event"]
    # Those that are known may come for ever.
    assert _posted(_histories(3), 2, 1, 0) == []


def test_what_is_reserved_counts_for_what_is_reserved_next() -> None:
    body = {"event": _event(MAX_EVENTS), "participants": ["a"]}
    spent, held = _histories(1), _histories(MAX_EVENTS)
    with pytest.raises(InvalidInputError) as refused:
        SentReservation(body).read(_TERMS, spent, Drawn(), held=held)
    [fault] = refused.value.errors
    assert fault.pointer == "/event"
    assert "rounded down" in fault.message
    SentReservation({**body, "event": _event(5)}).read(_TERMS, spent, Drawn(), held=held)
